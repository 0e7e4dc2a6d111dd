"""Events: every action and event that the log names, with how bad it is and the facts it brings.

The names are part of the API: whoever reads the log by program looks for them. A name that is
logged and not listed fails the tests. Writes nothing itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Event(NamedTuple):
    """What the log may say."""

    #: Its levels, from the mildest.
    level: str
    when: str
    #: Fields of the line besides `level`, `event`, `at` and `logger`.
    facts: tuple[str, ...] = ()


_TROUBLE: Final = ("cursor", "error", "retrySeconds")
#: Of workers, alerts and leases; the name is in the field `action`.
ACTIONS: Final[dict[str, Event]] = {
    "lease_acquired": Event(
        "info", "a process begins to work on a cursor", ("cursor", "epoch", "position")
    ),
    "lease_lost": Event(
        "warning", "somebody took it over, or moved it; what was under way is undone", _TROUBLE
    ),
    "lease_not_renewed": Event(
        "warning", "the store did not answer a heartbeat; it is tried again", ("cursor", "error")
    ),
    "message_failed": Event(
        "warning",
        "an attempt failed, its effects are undone, it will be tried again",
        ("cursor", "position", "retries", "error", "retrySeconds"),
    ),
    "message_dead": Event(
        "error",
        "a message was given up and is a dead letter; `retries` if it could be read",
        ("cursor", "position", "retries", "letter", "error"),
    ),
    "message_not_recorded": Event(
        "warning",
        "a message failed and the store refused to note it, or its schedule raised; tried again"
        " in 30 s",
        _TROUBLE,
    ),
    "batch_failed": Event(
        "warning",
        "a batch failed and is run again message by message",
        ("cursor", "messages", "error"),
    ),
    "commit_unknown": Event(
        "warning", "a commit got no answer; where the cursor stands tells", _TROUBLE
    ),
    "store_unavailable": Event(
        "warning", "the store does not answer; work goes on when it does", _TROUBLE
    ),
    "source_failed": Event("warning", "a source raised; it is asked again", _TROUBLE),
    "source_refused": Event(
        "error",
        "a source cannot be read without loss; told once, with the statements that help",
        ("cursor", "error", "fix", "table"),
    ),
    "version_mismatch": Event(
        "warning", "the cursor belongs to another version of the rules", _TROUBLE
    ),
    "line_full": Event(
        "warning",
        "so many messages of a cursor are parked that it reads no new ones; told when it begins",
        ("cursor", "messages"),
    ),
    "partition_refused": Event(
        "error",
        "a partition is not worked: its name cannot be a cursor's or is that of another"
        " consumer's, or its group or limit is wrong",
        ("cursor", "error"),
    ),
    "worker_crashed": Event(
        "critical",
        "an error that nobody expected ended a turn, whose cursor is given back, or a process",
        ("cursor", "trace"),
    ),
    "process_started": Event("info", "a fleet has started a process", ("pid",)),
    "process_ended": Event(
        "info",
        "a process of a fleet has ended; it is started again unless `isDone`",
        ("pid", "exitCode", "seconds", "isDone"),
    ),
    "alert_fired": Event(
        "error",
        "a rule holds for long enough; the facts are those that a webhook is sent",
        ("rule", "kind", "cursor", "value", "threshold"),
    ),
    "alert_cleared": Event(
        "info",
        "it holds no longer; the facts are those that a webhook is sent",
        ("rule", "kind", "cursor", "value", "threshold"),
    ),
    "alert_not_sent": Event(
        "warning", "a webhook refused or did not answer; it is tried again", ("rule", "error")
    ),
    "alerts_full": Event("error", "more alerts are open than are kept", ("open", "left")),
    "measure_failed": Event(
        "warning", "a source could not say how much is left", ("cursor", "error")
    ),
    "round_failed": Event(
        "warning",
        "a round of measuring, alerting, registering or pruning failed; the next may do better",
        ("round", "error"),
    ),
}
#: Of a memory server; the name is in the field `event`.
MEMORY: Final[dict[str, Event]] = {
    "store.away": Event(
        "error",
        "the store cannot be reached; calls fail at once, and records wait on disk",
        ("error", "buffered"),
    ),
    "store.still_away": Event(
        "warning", "calls have failed since, told at most every 30 s", ("failed", "buffered")
    ),
    "store.back": Event("warning", "the store is reached again", ("failed", "buffered")),
    "buffer.replayed": Event("warning", "records that waited are written", ("records", "buffered")),
    "buffer.refused": Event(
        "warning",
        "a record that waited can never be written, and is in the directory `refused`",
        ("key", "error"),
    ),
    "call.timed_out": Event(
        "error",
        "a call took longer than `--timeout`; a record waits on disk, any other call failed",
        ("tool", "seconds"),
    ),
}
#: Of a dispatcher; the name is in the field `event`.
DISPATCH: Final[dict[str, Event]] = {
    "run.failed": Event(
        "warning",
        "an agent failed at what it was handed; the text says how, and `state` whether it is"
        " `rolled back`, `kept` or `dead`",
        ("state", "retrySeconds"),
    ),
    "run.lost": Event(
        "error", "a run ended and nobody knows how; the store is looked at", ("trace",)
    ),
    "reply.not_sent": Event("warning", "a channel did not take a reply; the text says why"),
    "gate.proxy_seen": Event(
        "warning",
        "a proxy that runs as this user forwards requests; every request needs the token now",
    ),
    "dispatch.trouble": Event(
        "info, warning or error",
        "the store did not answer, or something that nobody expected; the next round may do better",
        ("trace",),
    ),
}

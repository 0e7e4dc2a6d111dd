"""Log events: the registry of all event names in the log, with their levels and fields.

The names are part of the API: log readers match them. A test fails for a name that is logged but
not listed.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LogEvent(NamedTuple):
    """Level, meaning and fields of one log event."""

    #: Its levels, the lowest first.
    level: str
    when: str
    #: Fields of the line besides `level`, `event`, `at` and `logger`.
    facts: tuple[str, ...] = ()


_TROUBLE: Final = ("cursor", "error", "retrySeconds")
#: Of workers, alerts and leases; the name is in the field `action`.
ACTIONS: Final[dict[str, LogEvent]] = {
    "lease_acquired": LogEvent(
        "info", "a worker has acquired the lease of a cursor", ("cursor", "epoch", "position")
    ),
    "lease_lost": LogEvent(
        "warning", "a takeover or a seek ended the lease; unfinished work is rolled back", _TROUBLE
    ),
    "lease_not_renewed": LogEvent(
        "warning", "the store did not answer a heartbeat; it is retried", ("cursor", "error")
    ),
    "message_failed": LogEvent(
        "warning",
        "an attempt failed, its effects are rolled back, it will be retried",
        ("cursor", "position", "retries", "error", "retrySeconds"),
    ),
    "message_dead_lettered": LogEvent(
        "error",
        "a message has become a dead letter; `retries` if it could be read",
        ("cursor", "position", "retries", "letter", "error"),
    ),
    "failure_not_recorded": LogEvent(
        "warning",
        "a message failed and the store could not record it, or its schedule raised; retried in"
        " 30 s",
        _TROUBLE,
    ),
    "batch_failed": LogEvent(
        "warning",
        "a batch failed and is retried message by message",
        ("cursor", "messages", "error"),
    ),
    "commit_outcome_unknown": LogEvent(
        "warning", "a commit is ambiguous; the cursor's position shows if it happened", _TROUBLE
    ),
    "store_unavailable": LogEvent(
        "warning", "the store is unavailable; work resumes when it answers", _TROUBLE
    ),
    "source_failed": LogEvent("warning", "a source raised; it is retried", _TROUBLE),
    "source_refused": LogEvent(
        "error",
        "a source cannot be read without loss; logged once, with the statements that fix it",
        ("cursor", "error", "fix", "table"),
    ),
    "version_mismatch": LogEvent(
        "warning", "the cursor has another rules version than the worker", _TROUBLE
    ),
    "parked_limit_reached": LogEvent(
        "warning",
        "too many messages of a cursor are parked, so it reads no new ones; logged once",
        ("cursor", "messages"),
    ),
    "partition_refused": LogEvent(
        "error",
        "a partition is skipped: its name is invalid or belongs to another consumer, or its"
        " group or limit is invalid",
        ("cursor", "error"),
    ),
    "worker_crashed": LogEvent(
        "critical",
        "an unexpected error ended a poll cycle, whose cursor is released, or a process",
        ("cursor", "trace"),
    ),
    "worker_process_started": LogEvent("info", "the parent started a worker process", ("pid",)),
    "worker_process_exited": LogEvent(
        "info",
        "a worker process exited; it is restarted unless `isDone`",
        ("pid", "exitCode", "seconds", "isDone"),
    ),
    "alert_fired": LogEvent(
        "error",
        "a rule has matched for long enough; the fields are those of the webhook",
        ("rule", "kind", "cursor", "value", "threshold"),
    ),
    "alert_cleared": LogEvent(
        "info",
        "the rule no longer matches; the fields are those of the webhook",
        ("rule", "kind", "cursor", "value", "threshold"),
    ),
    "alert_delivery_failed": LogEvent(
        "warning", "a webhook failed or did not answer; it is retried", ("rule", "error")
    ),
    "alert_limit_reached": LogEvent(
        "error", "more alerts are open than the limit", ("open", "left")
    ),
    "lag_measurement_failed": LogEvent(
        "warning", "a source could not return its lag", ("cursor", "error")
    ),
    "periodic_task_failed": LogEvent(
        "warning",
        "a periodic task (measuring, alerting, registering, pruning) failed; it runs again",
        ("task", "error"),
    ),
}
#: Of a memory server; the name is in the field `event`.
MEMORY: Final[dict[str, LogEvent]] = {
    "store.unavailable": LogEvent(
        "error",
        "the store is unreachable; calls fail at once, and records are buffered on disk",
        ("error", "buffered"),
    ),
    "store.still_unavailable": LogEvent(
        "warning",
        "calls have failed during an outage; logged at most every 30 s",
        ("failed", "buffered"),
    ),
    "store.available": LogEvent("warning", "the store is reachable again", ("failed", "buffered")),
    "buffer.replayed": LogEvent("warning", "buffered records are written", ("records", "buffered")),
    "buffer.refused": LogEvent(
        "warning",
        "the store rejected a buffered record, which was moved to the directory `refused`",
        ("key", "error"),
    ),
    "call.timed_out": LogEvent(
        "error",
        "a call exceeded `--timeout`; a record is buffered on disk, any other call failed",
        ("tool", "seconds"),
    ),
}
#: Of a dispatcher; the name is in the field `event`.
DISPATCH: Final[dict[str, LogEvent]] = {
    "run.failed": LogEvent(
        "warning",
        "an agent failed on a delivery; the text has the reason, and `state` is `rolled back`,"
        " `kept` or `dead`",
        ("state", "retrySeconds"),
    ),
    "run.lost": LogEvent(
        "error", "a run ended with an unknown result; it is read from the store", ("trace",)
    ),
    "reply.not_sent": LogEvent(
        "warning", "a channel did not accept a reply; the text has the reason"
    ),
    "guard.proxy_seen": LogEvent(
        "warning",
        "a proxy of the same user forwards requests; every request needs the token from now on",
    ),
    "dispatch.trouble": LogEvent(
        "info, warning or error",
        "the store did not answer, or an unexpected error occurred; it is retried",
        ("trace",),
    ),
}

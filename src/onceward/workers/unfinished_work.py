"""Unfinished work: list what in a store is unfinished, since when, and the commands that settle it.

Reads only. It never guesses whether an ambiguous effect happened.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from onceward.client import Onceward
from onceward.cursors import CursorState
from onceward.cursors.position_versions import check_migratable
from onceward.errors import InvalidCursor, VersionMismatch
from onceward.system import timestamp
from onceward.workers.app import App
from onceward.workers.lag_records import LagMeasurement, LagRecords
from onceward.workers.models import Consumer
from onceward.workers.source_protocol import Measurable, check_target

UnfinishedKind = Literal[
    "ambiguous outcome",
    "abandoned outcome",
    "ambiguous step",
    "held message",
    "parked messages",
    "dead letters",
    "pending delivery",
    "unsent replies",
    "paused cursor",
    "abandoned cursor",
    "stuck cursor",
    "cursor behind",
    "refused position",
    "version mismatch",
]
#: Limit of items of each kind; the oldest are listed.
FINDINGS_MAX: Final = 1_000
#: A held cursor that lags and has not moved for this long is stuck.
STUCK_SECONDS: Final = 300.0
#: States of outcomes whose lease expired.
_OPEN_OUTCOMES: Final[tuple[tuple[str, UnfinishedKind, str], ...]] = (
    ("ambiguous", "ambiguous outcome", "it may have happened"),
    ("abandoned", "abandoned outcome", "the next caller runs it again"),
)
#: Placeholder for the app in commands.
SOME_APP: Final = "module:app"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnfinishedItem:
    """A piece of unfinished work that may need an operator."""

    kind: UnfinishedKind
    #: The name of the cursor, or scope and key of the outcome.
    subject: str
    #: Its description, one line.
    what: str
    #: Since when, in UTC; None when unknown.
    since: str | None
    #: Commands, each of which settles it.
    settle: tuple[str, ...]


def find_unfinished(
    ow: Onceward, app: App | None = None, *, target: str = SOME_APP
) -> tuple[UnfinishedItem, ...]:
    """Return all unfinished work; with an app, also backlogs and version mismatches of its sources.

    `target` is the app's name in the commands, such as `module:app`.
    """
    work = f"onceward worker {_shell_word(target)} --once"
    cursors = {each.name: each for each in ow.cursors.list()}
    held = list(_held_messages(ow, work))
    known = {finding.subject for finding in held}
    return (
        *_outcomes(ow),
        *_steps(ow),
        *held,
        *_parked(ow, work),
        *_dead_letters(ow),
        *(_paused(ow, each) for each in cursors.values() if each.is_paused),
        *_unattended(ow, cursors, known, app, work),
        *(_mismatches(cursors, app) if app else ()),
    )


# --- work with an outcome -------------------------------------------------------------------------


def _outcomes(ow: Onceward) -> Iterator[UnfinishedItem]:
    for state, kind, meaning in _OPEN_OUTCOMES:
        for record in ow.outcomes.list(state=state, limit=FINDINGS_MAX):
            words = _reconcile(record.scope, record.key)
            yield UnfinishedItem(
                kind=kind,
                subject=f"{record.scope} {record.key}",
                what=f"started by {record.owner}, but never reported a result; {meaning}",
                since=record.claimed_at,
                settle=_reconcile_commands(words),
            )


def _steps(ow: Onceward) -> Iterator[UnfinishedItem]:
    for scope, key, name, since in ow.store.read("effect_open", limit=FINDINGS_MAX):
        words = f"{_reconcile(scope, key)} --effect {_shell_word(name)}"
        yield UnfinishedItem(
            kind="ambiguous step",
            subject=f"{scope} {key}",
            what=f"the step {name} started, but never reported a result; it may have happened",
            since=since,
            settle=_reconcile_commands(words),
        )


def _reconcile(scope: str, key: str) -> str:
    return f"onceward outcomes reconcile {_shell_word(scope)} {_shell_word(key)}"


def _reconcile_commands(words: str) -> tuple[str, ...]:
    return (
        f"{words} --not-done --reason 'checked: it did not happen' --yes",
        f"{words} --done null --reason 'checked: it did happen' --yes",
    )


# --- messages -------------------------------------------------------------------------------------


def _held_messages(ow: Onceward, work: str) -> Iterator[UnfinishedItem]:
    for cursor, position, attempt, since, error in ow.store.read(
        "attempt_open", limit=FINDINGS_MAX
    ):
        skip = f"onceward cursors seek {_shell_word(cursor)} {_shell_word(position)}"
        yield UnfinishedItem(
            kind="held message",
            subject=cursor,
            what=f"position {position} failed {attempt} times and holds the cursor: {error}",
            since=since,
            settle=(work, f"{skip} --reason 'skip a message that fails' --yes"),
        )


def _parked(ow: Onceward, work: str) -> Iterator[UnfinishedItem]:
    for cursor, key, count, since, attempt in ow.store.read("parked_keys", limit=FINDINGS_MAX):
        keys = "without a key" if key is None else f"with the key {key}"
        yield UnfinishedItem(
            kind="parked messages",
            subject=cursor,
            what=f"{count} parked {keys}, tried {attempt} times; they are retried when due",
            since=since,
            settle=(work,),
        )


def _dead_letters(ow: Onceward) -> Iterator[UnfinishedItem]:
    for cursor, count, since in ow.store.read("dead_oldest"):
        yield UnfinishedItem(
            kind="dead letters",
            subject=cursor,
            what=f"{count} messages are not retried automatically any more",
            since=since,
            settle=(f"onceward dead redrive --cursor {_shell_word(cursor)} --yes",),
        )


# --- cursors --------------------------------------------------------------------------------------


def _paused(ow: Onceward, state: CursorState) -> UnfinishedItem:
    entries = ow.cursors.history(state.name)
    last = next((entry for entry in entries if entry.kind == "pause"), None)
    why = f": {last.reason}" if last and last.reason else ""
    return UnfinishedItem(
        kind="paused cursor",
        subject=state.name,
        what=f"paused by {last.actor}{why}" if last else "paused",
        since=last.happened_at if last else None,
        settle=(f"onceward cursors resume {_shell_word(state.name)}",),
    )


def _unattended(
    ow: Onceward, cursors: dict[str, CursorState], known: set[str], app: App | None, work: str
) -> Iterator[UnfinishedItem]:
    """Return cursors that lag without a worker, or whose holder does not move them."""
    measures = LagRecords(ow).list()
    for name, state in cursors.items():
        if state.is_paused or name in known:
            continue
        measure = measures.get(name)
        if state.is_held:
            if _is_stuck(measure):
                yield _stuck(state)
        elif state.lease_owner is not None:
            yield UnfinishedItem(
                kind="abandoned cursor",
                subject=name,
                what=f"the lease of {state.lease_owner} expired, and no worker took over",
                since=state.lease_expires_at,
                settle=(work,),
            )
        elif measure is not None and measure.lag_seconds and not _is_measurable(name, app):
            yield _lagging(name, measure.messages, measure.oldest_at or measure.measured_at, work)
    for consumer in app.consumers if app else ():
        yield from _source_backlog(ow, consumer, cursors.get(consumer.name), known, work)


def _is_stuck(measure: LagMeasurement | None) -> bool:
    if measure is None or measure.lag_seconds is None:
        return False
    return measure.lag_seconds > STUCK_SECONDS and not measure.rate_per_minute


def _stuck(state: CursorState) -> UnfinishedItem:
    where = "--start" if state.position is None else _shell_word(state.position)
    words = f"onceward cursors seek {_shell_word(state.name)} {where}"
    return UnfinishedItem(
        kind="stuck cursor",
        subject=state.name,
        what=f"{state.lease_owner} holds it but does not move it, although messages wait",
        since=state.last_processed_at,
        settle=(f"{words} --reason 'take it over from a stuck worker' --yes",),
    )


def _is_measurable(name: str, app: App | None) -> bool:
    """Return whether the source itself is queried for its lag, instead of the last measurement."""
    consumers = app.consumers if app else ()
    return any(each.name == name and _has_lag(each) for each in consumers)


def _has_lag(consumer: Consumer) -> bool:
    return not consumer.is_partitioned and isinstance(consumer.source, Measurable)


def _source_backlog(
    ow: Onceward, consumer: Consumer, state: CursorState | None, known: set[str], work: str
) -> Iterator[UnfinishedItem]:
    """Query the source of a consumer for its backlog, unless a worker holds its cursor."""
    if consumer.is_partitioned or consumer.name in known:
        return
    if state is not None and (state.is_held or state.is_paused or state.lease_owner):
        return
    position = state.position if state else None
    if state is not None and position is not None and state.version != consumer.version:
        return  # The position may have another format; the next worker migrates it.
    try:
        check_target(consumer.source_of(consumer.name), position)
    except InvalidCursor as exc:
        yield _refused(ow, consumer.name, position, exc)
        return
    if not _has_lag(consumer):
        return
    assert isinstance(consumer.source, Measurable)
    lag = consumer.source.lag(position)
    if lag.messages or lag.oldest_at:
        since = timestamp(lag.oldest_at) if lag.oldest_at else None
        yield _lagging(consumer.name, lag.messages, since, work)


def _refused(ow: Onceward, name: str, position: str | None, error: InvalidCursor) -> UnfinishedItem:
    moves = (entry for entry in ow.cursors.history(name) if entry.kind in ("seek", "undo"))
    last = next(moves, None)
    # Only the last move, if it led to this position, can be undone.
    is_moved = last is not None and (last.kind, last.to_position) == ("seek", position)
    words = f"undo {_shell_word(name)} --yes" if is_moved else f"show {_shell_word(name)}"
    return UnfinishedItem(
        kind="refused position",
        subject=name,
        what=f"its source rejects this position: {error.message}; {error.fix}",
        since=last.happened_at if last and is_moved else None,
        settle=(f"onceward cursors {words}",),
    )


def _lagging(name: str, messages: int | None, since: str | None, work: str) -> UnfinishedItem:
    known = {None: "messages wait", 1: "1 message waits"}
    count = known.get(messages, f"{messages} messages wait")
    what = f"{count}, and no worker holds the cursor"
    return UnfinishedItem(
        kind="cursor behind", subject=name, what=what, since=since, settle=(work,)
    )


def _mismatches(cursors: dict[str, CursorState], app: App) -> Iterator[UnfinishedItem]:
    for consumer in app.consumers:
        pattern = consumer.pattern
        for state in cursors.values():
            if not pattern.fullmatch(state.name):
                continue
            try:
                check_migratable(
                    state.name, state.position, state.version, consumer.version, consumer.migrations
                )
            except VersionMismatch as exc:
                yield UnfinishedItem(
                    kind="version mismatch",
                    subject=state.name,
                    what=f"{exc.message}: {exc.fix}",
                    since=state.updated_at,
                    settle=(f"onceward cursors show {_shell_word(state.name)}",),
                )


def _shell_word(text: str) -> str:
    """Return a text quoted as one shell word."""
    return shlex.quote(text)

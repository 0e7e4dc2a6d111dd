"""Reconcile: what is only half done in a store, since when, and what would settle it.

Looks and changes nothing. What a person must find out first, it does not guess.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from onceward.cursors import CursorState
from onceward.cursors.versions import check_path
from onceward.errors import InvalidCursor, VersionMismatch
from onceward.handle import Onceward
from onceward.seams import timestamp
from onceward.workers.app import App
from onceward.workers.measures import Measure, Measures
from onceward.workers.models import Consumer
from onceward.workers.source import Measurable, check_target

FindingKind = Literal[
    "ambiguous outcome",
    "ambiguous step",
    "held message",
    "parked messages",
    "dead letters",
    "paused cursor",
    "abandoned cursor",
    "stuck cursor",
    "cursor behind",
    "refused position",
    "version mismatch",
]
#: Of each kind, the oldest.
FINDINGS_MAX: Final = 1_000
#: A cursor that is held and behind, and has not moved for so long, is stuck.
STUCK_SECONDS: Final = 300.0
#: Stands for an app where none was named.
SOME_APP: Final = "module:app"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that does not end by itself, or has not yet."""

    kind: FindingKind
    #: The cursor; for outcomes the scope and the key.
    subject: str
    #: What it is, in a sentence.
    what: str
    #: Since when, in UTC; None when nobody knows.
    since: str | None
    #: Commands; any one of them settles it.
    settle: tuple[str, ...]


def report(ow: Onceward, app: App | None = None, *, target: str = SOME_APP) -> tuple[Finding, ...]:
    """Return everything that is half done; with an app also what only its sources and rules tell.

    `target` is how a command names the app.
    """
    work = f"onceward work {_word(target)} --once"
    cursors = {each.name: each for each in ow.cursors.list()}
    held = list(_held_messages(ow, work))
    known = {finding.subject for finding in held}
    return (
        *_outcomes(ow),
        *_steps(ow),
        *held,
        *_parked(ow, work),
        *_dead(ow),
        *(_paused(ow, each) for each in cursors.values() if each.is_paused),
        *_standing(ow, cursors, known, app, work),
        *(_mismatches(cursors, app) if app else ()),
    )


# --- work with an outcome -------------------------------------------------------------------------


def _outcomes(ow: Onceward) -> Iterator[Finding]:
    for record in ow.outcomes.list(state="ambiguous", limit=FINDINGS_MAX):
        words = f"onceward outcomes reconcile {_word(record.scope)} {_word(record.key)}"
        yield Finding(
            kind="ambiguous outcome",
            subject=f"{record.scope} {record.key}",
            what=f"begun by {record.owner}, then silence: it may have happened",
            since=record.claimed_at,
            settle=_verdicts(words),
        )


def _steps(ow: Onceward) -> Iterator[Finding]:
    for scope, key, name, since in ow.store.read("effect_open", limit=FINDINGS_MAX):
        words = f"onceward outcomes reconcile {_word(scope)} {_word(key)} --effect {_word(name)}"
        yield Finding(
            kind="ambiguous step",
            subject=f"{scope} {key}",
            what=f"the step {name} was begun, then silence: it may have happened",
            since=since,
            settle=_verdicts(words),
        )


def _verdicts(words: str) -> tuple[str, ...]:
    return (
        f"{words} --not-done --reason 'looked: it did not happen'",
        f"{words} --done null --reason 'looked: it did happen'",
    )


# --- messages -------------------------------------------------------------------------------------


def _held_messages(ow: Onceward, work: str) -> Iterator[Finding]:
    for cursor, position, attempt, since, error in ow.store.read(
        "attempt_open", limit=FINDINGS_MAX
    ):
        skip = f"onceward cursors seek {_word(cursor)} {_word(position)}"
        yield Finding(
            kind="held message",
            subject=cursor,
            what=f"position {position} failed {attempt} times and holds the cursor: {error}",
            since=since,
            settle=(work, f"{skip} --reason 'skip a message that fails' --yes"),
        )


def _parked(ow: Onceward, work: str) -> Iterator[Finding]:
    for cursor, key, count, since, attempt in ow.store.read("parked_keys", limit=FINDINGS_MAX):
        where = "alone" if key is None else f"behind the key {key}"
        yield Finding(
            kind="parked messages",
            subject=cursor,
            what=f"{count} parked {where}, tried {attempt} times; they are tried again when due",
            since=since,
            settle=(work,),
        )


def _dead(ow: Onceward) -> Iterator[Finding]:
    for cursor, count, since in ow.store.read("dead_oldest"):
        yield Finding(
            kind="dead letters",
            subject=cursor,
            what=f"{count} messages were given up",
            since=since,
            settle=(f"onceward dead redrive --cursor {_word(cursor)} --yes",),
        )


# --- cursors --------------------------------------------------------------------------------------


def _paused(ow: Onceward, state: CursorState) -> Finding:
    entries = ow.cursors.history(state.name)
    last = next((entry for entry in entries if entry.kind == "pause"), None)
    why = f": {last.reason}" if last and last.reason else ""
    return Finding(
        kind="paused cursor",
        subject=state.name,
        what=f"paused by {last.actor}{why}" if last else "paused",
        since=last.happened_at if last else None,
        settle=(f"onceward cursors resume {_word(state.name)}",),
    )


def _standing(
    ow: Onceward, cursors: dict[str, CursorState], known: set[str], app: App | None, work: str
) -> Iterator[Finding]:
    """Return cursors that nobody works on, or whose holder does not move them."""
    measures = Measures(ow).list()
    for name, state in cursors.items():
        if state.is_paused or name in known:
            continue
        measure = measures.get(name)
        if state.is_held:
            if _is_stuck(measure):
                yield _stuck(state)
        elif state.lease_owner is not None:
            yield Finding(
                kind="abandoned cursor",
                subject=name,
                what=f"the lease of {state.lease_owner} ran out, and nobody took over",
                since=state.lease_expires_at,
                settle=(work,),
            )
        elif measure is not None and measure.lag_seconds and not _is_asked(name, app):
            yield _behind(name, measure.messages, measure.oldest_at or measure.measured_at, work)
    for consumer in app.consumers if app else ():
        yield from _asked(ow, consumer, cursors.get(consumer.name), known, work)


def _is_stuck(measure: Measure | None) -> bool:
    if measure is None or measure.lag_seconds is None:
        return False
    return measure.lag_seconds > STUCK_SECONDS and not measure.rate_per_minute


def _stuck(state: CursorState) -> Finding:
    where = "--start" if state.position is None else _word(state.position)
    words = f"onceward cursors seek {_word(state.name)} {where}"
    return Finding(
        kind="stuck cursor",
        subject=state.name,
        what=f"{state.lease_owner} holds it and does not move it, though messages wait",
        since=state.last_processed_at,
        settle=(f"{words} --reason 'take it from a worker that is stuck' --yes",),
    )


def _is_asked(name: str, app: App | None) -> bool:
    """Say whether the source of a cursor is asked itself: then a measure does not count."""
    consumers = app.consumers if app else ()
    return any(each.name == name and _can_tell(each) for each in consumers)


def _can_tell(consumer: Consumer) -> bool:
    return not consumer.is_partitioned and isinstance(consumer.source, Measurable)


def _asked(
    ow: Onceward, consumer: Consumer, state: CursorState | None, known: set[str], work: str
) -> Iterator[Finding]:
    """Ask the source of a consumer what is left, unless somebody is at it."""
    if consumer.is_partitioned or consumer.name in known:
        return
    if state is not None and (state.is_held or state.is_paused or state.lease_owner):
        return
    position = state.position if state else None
    if state is not None and position is not None and state.version != consumer.version:
        return  # Its position may be of another form; whoever works next migrates it.
    try:
        check_target(consumer.source_of(consumer.name), position)
    except InvalidCursor as exc:
        yield _refused(ow, consumer.name, position, exc)
        return
    if not _can_tell(consumer):
        return
    assert isinstance(consumer.source, Measurable)
    lag = consumer.source.lag(position)
    if lag.messages or lag.oldest_at:
        since = timestamp(lag.oldest_at) if lag.oldest_at else None
        yield _behind(consumer.name, lag.messages, since, work)


def _refused(ow: Onceward, name: str, position: str | None, error: InvalidCursor) -> Finding:
    moves = (entry for entry in ow.cursors.history(name) if entry.kind in ("seek", "undo"))
    last = next(moves, None)
    # Undoing an older move would lead somewhere else.
    is_moved = last is not None and (last.kind, last.to_position) == ("seek", position)
    words = f"undo {_word(name)} --yes" if is_moved else f"show {_word(name)}"
    return Finding(
        kind="refused position",
        subject=name,
        what=f"its source refuses to be read there: {error.message}; {error.fix}",
        since=last.happened_at if last and is_moved else None,
        settle=(f"onceward cursors {words}",),
    )


def _behind(name: str, messages: int | None, since: str | None, work: str) -> Finding:
    known = {None: "messages wait", 1: "1 message waits"}
    count = known.get(messages, f"{messages} messages wait")
    what = f"{count}, and nobody holds the cursor"
    return Finding(kind="cursor behind", subject=name, what=what, since=since, settle=(work,))


def _mismatches(cursors: dict[str, CursorState], app: App) -> Iterator[Finding]:
    for consumer in app.consumers:
        pattern = consumer.pattern
        for state in cursors.values():
            if not pattern.fullmatch(state.name):
                continue
            try:
                check_path(
                    state.name, state.position, state.version, consumer.version, consumer.migrations
                )
            except VersionMismatch as exc:
                yield Finding(
                    kind="version mismatch",
                    subject=state.name,
                    what=f"{exc.message}: {exc.fix}",
                    since=state.updated_at,
                    settle=(f"onceward cursors show {_word(state.name)}",),
                )


def _word(text: str) -> str:
    """Return a word that a shell gives back as it was."""
    return shlex.quote(text)

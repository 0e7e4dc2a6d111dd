"""Cursor actions: what operators do to cursors, executed or previewed. No route."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from onceward.client import Onceward
from onceward.console.actions import check_seen
from onceward.console.context import ConsoleContext
from onceward.console.cursor_views import item_of, version_of
from onceward.console.responses import moment
from onceward.cursors import Move
from onceward.cursors.models import CountBetween
from onceward.cursors.seeks import CachedCount
from onceward.errors import InvalidArgument, InvalidCursor, OncewardError, SourceUnavailable
from onceward.stores import Transaction
from onceward.workers.source_protocol import check_target

#: Messages that a plan shows, and how much of each.
SAMPLE_MESSAGES_MAX: Final = 5
SAMPLE_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Moving:
    """A seek or its undoing, as it is asked for."""

    kind: Literal["seek", "undo"]
    name: str
    #: Where a seek goes; None is the start.
    position: str | None = None
    reason: str
    seen: str | None


def paused(
    context: ConsoleContext, name: str, reason: str, seen: str | None, *, is_pause: bool
) -> Callable[[Transaction], dict[str, Any]]:
    """Return what pauses or resumes a cursor inside a transaction."""

    def work(_: Transaction) -> dict[str, Any]:
        ow = context.ow()
        _lock(ow, "cursor_still", name)
        check_seen(name, seen, version_of(ow, name))
        change = ow.cursors.pause if is_pause else ow.cursors.resume
        change(name, reason, context.actor)
        return {"cursor": item_of(ow, name), "as_of": moment()}

    return work


def planned(context: ConsoleContext, moving: Moving) -> dict[str, Any]:
    """Return what a move would do, with some of the messages it repeats."""
    check_seen(moving.name, moving.seen, version_of(context.ow(), moving.name))
    _check(_refusal(context, moving))
    move = _move(context, moving, _count(context, moving.name), dry_run=True)
    return {"move": asdict(move), "sample": _sample(context, move), "as_of": moment()}


def moved(context: ConsoleContext, moving: Moving) -> Callable[[Transaction], dict[str, Any]]:
    """Return what moves a cursor inside a transaction; its messages are counted before."""
    if moving.kind == "seek" and not moving.reason.strip():
        message = "reason: a seek needs one; it is kept in the history"
        raise InvalidArgument(message, fix="say why", field="reason")
    refused, count = _refusal(context, moving), _count(context, moving.name)
    if count is not None:
        # No other process waits for the lock while a source counts. Errors are reported below.
        with suppress(OncewardError):
            _move(context, moving, count, dry_run=True)

    def work(_: Transaction) -> dict[str, Any]:
        ow = context.ow()
        _lock(ow, "cursor_lock", moving.name)
        check_seen(moving.name, moving.seen, version_of(ow, moving.name))
        _check(refused)  # Only here: a repeat gets its answer, whatever the source says by now.
        move = _move(context, moving, count, dry_run=False)
        return {"move": asdict(move), "sample": [], "as_of": moment()}

    return work


def _lock(ow: Onceward, query: str, name: str) -> None:
    """Lock a cursor before its version is checked: two operators may act at once."""
    # As a write, which begins the transaction where reading does not.
    ow.store.write(lambda tx: tx.query(query, name=name))


def _move(
    context: ConsoleContext, moving: Moving, count: CountBetween | None, *, dry_run: bool
) -> Move:
    cursors, name, actor = context.ow().cursors, moving.name, context.actor
    if moving.kind == "undo":
        return cursors.undo(name, actor, moving.reason, dry_run=dry_run, count=count)
    return cursors.seek(name, moving.position, moving.reason, actor, dry_run=dry_run, count=count)


def _refusal(context: ConsoleContext, moving: Moving) -> InvalidCursor | None:
    """Return why the source would refuse the position; what is undone was accepted once."""
    try:
        if moving.kind == "seek":
            check_target(context.source_of(moving.name), moving.position)
    except InvalidCursor as exc:
        return exc
    return None


def _check(refused: InvalidCursor | None) -> None:
    if refused is not None:
        raise refused


def _count(context: ConsoleContext, name: str) -> CountBetween | None:
    """Return how the source of a cursor counts, which asks it once for the same."""
    count = context.count_of(name)
    if count is None:
        return None

    def counted(after: str | None, up_to: str | None) -> int:
        try:
            return count(after, up_to)
        except OncewardError:
            raise
        except Exception as exc:  # A source of the user's.
            message = f"the source of {name} cannot count: {exc!r}"
            fix = "look into the app, or start the console without it and move uncounted"
            raise SourceUnavailable(message, fix=fix) from exc

    return CachedCount(counted)


def _sample(context: ConsoleContext, move: Move) -> list[str]:
    """Return the first messages that will be repeated, as text."""
    source = context.source_of(move.cursor)
    if source is None or not move.repeated:
        return []
    limit = min(SAMPLE_MESSAGES_MAX, move.repeated)
    try:
        items = source.read(move.to_position, limit)
    except Exception:  # noqa: BLE001 - a source of the user's; the numbers are there
        return []
    return [
        item.raw[: 4 * SAMPLE_CHARACTERS_MAX].decode(errors="replace")[:SAMPLE_CHARACTERS_MAX]
        for item in items[:limit]
    ]

"""Cursor actions: pause, resume, seek and undo a cursor for an operator, or preview that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from onceward.client import Onceward
from onceward.console.actions import check_seen
from onceward.console.context import ConsoleContext
from onceward.console.cursor_views import CursorItem, item_of, version_of
from onceward.console.responses import ActionResult, moment
from onceward.cursors import Move
from onceward.cursors.models import CountBetween
from onceward.cursors.seeks import CachedCount
from onceward.errors import InvalidArgument, InvalidCursor, OncewardError, SourceUnavailable
from onceward.stores import Transaction
from onceward.workers.source_protocol import check_target

#: How many messages a plan shows, and how many characters of each.
SAMPLE_MESSAGES_MAX: Final = 5
SAMPLE_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorMove:
    """The request of a seek, or of undoing one."""

    kind: Literal["seek", "undo"]
    name: str
    #: The position to resume after; None is the start.
    position: str | None = None
    reason: str
    seen: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorChange(ActionResult):
    """A cursor after it was paused or resumed."""

    cursor: CursorItem
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorMoveResult(ActionResult):
    """A seek or an undo of a seek, or its plan."""

    move: Move
    #: Of a plan: the first messages that the move repeats.
    sample: list[str]
    as_of: str


def paused(
    context: ConsoleContext, name: str, reason: str, seen: str | None, *, is_pause: bool
) -> Callable[[Transaction], CursorChange]:
    """Return a function that pauses or resumes a cursor inside a transaction."""

    def work(_: Transaction) -> CursorChange:
        ow = context.ow()
        _lock(ow, "cursor_block_changes", name)
        check_seen(name, seen, version_of(ow, name))
        change = ow.cursors.pause if is_pause else ow.cursors.resume
        change(name, reason, context.actor)
        return CursorChange(cursor=item_of(ow, name), as_of=moment())

    return work


def planned(context: ConsoleContext, moving: OperatorMove) -> CursorMoveResult:
    """Return the plan of a move, with a sample of the messages that it repeats."""
    check_seen(moving.name, moving.seen, version_of(context.ow(), moving.name))
    _check(_refusal(context, moving))
    move = _move(context, moving, _count(context, moving.name), dry_run=True)
    return CursorMoveResult(move=move, sample=_sample(context, move), as_of=moment())


def moved(
    context: ConsoleContext, moving: OperatorMove
) -> Callable[[Transaction], CursorMoveResult]:
    """Return a function that moves a cursor inside a transaction; messages are counted before."""
    if moving.kind == "seek" and not moving.reason.strip():
        message = "reason: is required for a seek; nothing was changed"
        fix = "send the reason; it is stored in the cursor's history"
        raise InvalidArgument(message, fix=fix, field="reason")
    refused, count = _refusal(context, moving), _count(context, moving.name)
    if count is not None:
        # Count before locking, so that no process waits for a source. Errors are reported below.
        with suppress(OncewardError):
            _move(context, moving, count, dry_run=True)

    def work(_: Transaction) -> CursorMoveResult:
        ow = context.ow()
        _lock(ow, "cursor_lock", moving.name)
        check_seen(moving.name, moving.seen, version_of(ow, moving.name))
        _check(
            refused
        )  # Only here: a repeated request gets its recorded result, even if the source now fails.
        move = _move(context, moving, count, dry_run=False)
        return CursorMoveResult(move=move, sample=[], as_of=moment())

    return work


def _lock(ow: Onceward, query: str, name: str) -> None:
    """Lock a cursor before checking its version, because two operators may act concurrently."""
    # A write, because a read does not start the transaction's lock.
    ow.store.write(lambda tx: tx.query(query, name=name))


def _move(
    context: ConsoleContext, moving: OperatorMove, count: CountBetween | None, *, dry_run: bool
) -> Move:
    cursors, name, actor = context.ow().cursors, moving.name, context.actor
    if moving.kind == "undo":
        return cursors.undo(name, actor, moving.reason, dry_run=dry_run, count=count)
    return cursors.seek(name, moving.position, moving.reason, actor, dry_run=dry_run, count=count)


def _refusal(context: ConsoleContext, moving: OperatorMove) -> InvalidCursor | None:
    """Return the source's error for the position, if any; an undo goes to a valid position."""
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
    """Return a cached counting function of a cursor's source."""
    count = context.count_of(name)
    if count is None:
        return None

    def counted(after: str | None, up_to: str | None) -> int:
        try:
            return count(after, up_to)
        except OncewardError:
            raise
        except Exception as exc:  # The source is the user's code.
            message = f"the source of {name} failed to count its messages: {exc!r:.200}"
            fix = (
                "fix the app's source, or start the console without the app and seek without counts"
            )
            raise SourceUnavailable(message, fix=fix) from exc

    return CachedCount(counted)


def _sample(context: ConsoleContext, move: Move) -> list[str]:
    """Return the first messages that the move will repeat, as text."""
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

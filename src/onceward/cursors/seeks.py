"""Seeks: move a cursor to another position, preview the move, and undo it; always recorded.

A move raises the epoch, the fencing token, and clears the owner, so that the next checkpoint of a
worker at the old position is rejected. Parked messages and attempts follow in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from onceward.cursors.change_history import record_change
from onceward.cursors.models import CountBetween, CursorState, Epoch, Move
from onceward.errors import CursorMissing, NothingToUndo
from onceward.stores import Row, Store, Transaction
from onceward.system.crash_points import crash_point


class CountUnavailable(LookupError):
    """The cursor changed between plan and lock, and the new count was not prefetched."""


class CachedCount:
    """Caches counts of a source, which may be slow: one query a pair, and never under a lock."""

    def __init__(self, count: CountBetween) -> None:
        """Cache the results of this function."""
        self._count = count
        self._known: dict[tuple[str | None, str | None], int] = {}
        self._may_ask = True

    def __call__(self, start: str | None, end: str | None) -> int:
        """Return the number of messages after `start` up to `end`, or raise CountUnavailable."""
        if (start, end) not in self._known:
            if not self._may_ask:
                raise CountUnavailable
            self._known[start, end] = self._count(start, end)
        return self._known[start, end]

    @contextmanager
    def cached_only(self) -> Iterator[None]:
        """Query nothing inside the block."""
        self._may_ask = False
        try:
            yield
        finally:
            self._may_ask = True


class FollowUp(Protocol):
    """What a move does to parked messages and attempts: a plan until it is applied."""

    @property
    def discarded(self) -> int | None:
        """Return how many are discarded, because they will be read again; None: unknown."""

    @property
    def restored(self) -> int:
        """Return how many are restored, because the seek that discarded them is undone."""

    def apply(self, tx: Transaction, keep_for: int | None) -> None:
        """Apply the plan, and store what is discarded for the undo of this seek."""


class PlanFollowUp(Protocol):
    """Plans what a move does to parked messages and attempts."""

    def __call__(  # noqa: PLR0913 - all by name
        self,
        tx: Transaction | None,
        *,
        cursor: str,
        from_position: str | None,
        to_position: str | None,
        count: CountBetween | None,
        seek: int | None,
        is_undo: bool,
    ) -> FollowUp:
        """Return the plan; with `tx`, the transaction of the move, it can be applied.

        `seek` is the last one that was not undone: an undo undoes it. With `tx`, `count` raises
        LookupError for pairs that were not prefetched.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveRequest:
    """A requested move."""

    cursor: str
    kind: Literal["seek", "undo"]
    #: Target of a seek; an undo derives it.
    position: str | None = None
    count: CachedCount | None
    follow: PlanFollowUp


class AppliedMove(NamedTuple):
    """Result of a move."""

    from_position: str | None
    to_position: str | None
    discarded: int | None
    restored: int
    #: The epoch after the move.
    epoch: Epoch


class _LastSeek(NamedTuple):
    """The last seek that was not undone, if any, and the position before it."""

    id: int | None = None
    from_position: str | None = None


def plan(store: Store, request: MoveRequest, state: CursorState) -> Move:
    """Return what a move would do, without changing anything."""
    count, last = request.count, _last_seek(store.read, request.cursor)
    target = _target(request, last)
    follow_up = _plan_follow_up(None, request, state.position, target, last)
    return Move(
        cursor=state.name,
        from_position=state.position,
        to_position=target,
        repeated=count(target, state.position) if count else None,
        skipped=count(state.position, target) if count else None,
        discarded=follow_up.discarded,
        restored=follow_up.restored,
        interrupts=state.lease_owner if state.is_held else None,
        epoch=None,
    )


def move(tx: Transaction, request: MoveRequest, *, reason: str, actor: str) -> AppliedMove:
    """Move a cursor and apply the follow-up; CountUnavailable before anything is changed."""
    name = request.cursor
    before = _lock(tx, name)
    last = _last_seek(tx.query, name)
    target = _target(request, last)
    follow_up = _plan_follow_up(tx, request, before, target, last)
    ((epoch,),) = tx.query("cursor_move", name=name, position=target)
    crash_point("cursor.seek.after_move")
    record_change(
        tx,
        cursor=name,
        kind=request.kind,
        actor=actor,
        reason=reason,
        from_position=before,
        to_position=target,
        epoch=epoch,
        undoes=last.id if request.kind == "undo" else None,
    )
    # A seek stores for its own undo; an undo for the seek before it.
    follow_up.apply(tx, _last_seek(tx.query, name).id)
    return AppliedMove(before, target, follow_up.discarded, follow_up.restored, Epoch(epoch))


def _plan_follow_up(
    tx: Transaction | None,
    request: MoveRequest,
    before: str | None,
    target: str | None,
    last: _LastSeek,
) -> FollowUp:
    return request.follow(
        tx,
        cursor=request.cursor,
        from_position=before,
        to_position=target,
        count=request.count,
        seek=last.id,
        is_undo=request.kind == "undo",
    )


def _last_seek(ask: Callable[..., list[Row]], name: str) -> _LastSeek:
    rows = ask("cursor_last_seek", name=name)
    return _LastSeek(*rows[0]) if rows else _LastSeek()


def _target(request: MoveRequest, last: _LastSeek) -> str | None:
    if request.kind == "seek":
        return request.position
    if last.id is None:
        message = f"no seek of {request.cursor!r} is left to be undone; nothing was changed"
        raise NothingToUndo(message, cursor=request.cursor)
    return last.from_position


def _lock(tx: Transaction, name: str) -> str | None:
    """Lock the cursor until this transaction ends, and return its position."""
    rows = tx.query("cursor_lock", name=name)
    if not rows or rows[0][0] is None:
        message = f"there is no cursor {name!r}"
        raise CursorMissing(message, cursor=name)
    position: str | None = rows[0][1]
    return position

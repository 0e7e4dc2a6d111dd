"""Moves: seeks and their undoing, thought through first, recorded always.

A move raises the epoch and leaves the cursor without an owner, so that a worker that is busy with
the old position is refused at its next checkpoint. What waits beside the cursor, such as parked
messages, follows it in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from onceward.crash import crash_point
from onceward.cursors.history import note
from onceward.cursors.models import CountBetween, CursorState, Epoch, Move
from onceward.errors import CursorMissing, NothingToUndo
from onceward.stores import Row, Store, Transaction


class Uncounted(LookupError):
    """Something changed between thinking and locking, and its count was never asked for."""


class Counted:
    """The count of a source, which may be slow: asked once for a pair, and never under a lock."""

    def __init__(self, count: CountBetween) -> None:
        """Ask this one."""
        self._count = count
        self._known: dict[tuple[str | None, str | None], int] = {}
        self._may_ask = True

    def __call__(self, start: str | None, end: str | None) -> int:
        """Return how many messages lie behind one position up to the other, or raise Uncounted."""
        if (start, end) not in self._known:
            if not self._may_ask:
                raise Uncounted
            self._known[start, end] = self._count(start, end)
        return self._known[start, end]

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Let it ask nobody inside the block."""
        self._may_ask = False
        try:
            yield
        finally:
            self._may_ask = True


class Following(Protocol):
    """What a move means for what waits beside a cursor: thought through, until it is applied."""

    @property
    def forgotten(self) -> int | None:
        """Return how much is forgotten, because it will be read again; None: nobody can tell."""

    @property
    def restored(self) -> int:
        """Return how much comes back, because the seek that had forgotten it is undone."""

    def apply(self, tx: Transaction, keep_for: int | None) -> None:
        """Do it, and keep what leaves for the undoing of this seek."""


class Follow(Protocol):
    """Thinks through what a move means for what waits beside the cursor."""

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
    ) -> Following:
        """Return what would happen; with the transaction that moves, so that it can be applied.

        `seek` is the last one that was not undone before the move: an undo undoes it. `count` may
        raise LookupError then, for what was not asked before.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A move, as it is asked for."""

    cursor: str
    kind: Literal["seek", "undo"]
    #: Where a seek goes; an undo finds out.
    position: str | None = None
    count: Counted | None
    follow: Follow


class Moved(NamedTuple):
    """What a move did."""

    from_position: str | None
    to_position: str | None
    forgotten: int | None
    restored: int
    #: The epoch that counts now.
    epoch: Epoch


class _Seek(NamedTuple):
    """The last seek that was not undone, if there is one, and where the cursor was before."""

    id: int | None = None
    from_position: str | None = None


def plan(store: Store, request: Request, state: CursorState) -> Move:
    """Say what a move would do, and do nothing."""
    count, last = request.count, _last_seek(store.read, request.cursor)
    target = _target(request, last)
    following = _following(None, request, state.position, target, last)
    return Move(
        cursor=state.name,
        from_position=state.position,
        to_position=target,
        repeated=count(target, state.position) if count else None,
        skipped=count(state.position, target) if count else None,
        forgotten=following.forgotten,
        restored=following.restored,
        interrupts=state.lease_owner if state.is_held else None,
        epoch=None,
    )


def move(tx: Transaction, request: Request, *, reason: str, actor: str) -> Moved:
    """Move a cursor, and let what waits beside it follow; Uncounted before anything is changed."""
    name = request.cursor
    before = _lock(tx, name)
    last = _last_seek(tx.query, name)
    target = _target(request, last)
    following = _following(tx, request, before, target, last)
    ((epoch,),) = tx.query("cursor_move", name=name, position=target)
    crash_point("cursor.seek.after_move")
    note(
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
    # A seek keeps for itself; an undo for the seek before, whose undoing may pass over it.
    following.apply(tx, _last_seek(tx.query, name).id)
    return Moved(before, target, following.forgotten, following.restored, Epoch(epoch))


def _following(
    tx: Transaction | None, request: Request, before: str | None, target: str | None, last: _Seek
) -> Following:
    return request.follow(
        tx,
        cursor=request.cursor,
        from_position=before,
        to_position=target,
        count=request.count,
        seek=last.id,
        is_undo=request.kind == "undo",
    )


def _last_seek(ask: Callable[..., list[Row]], name: str) -> _Seek:
    rows = ask("cursor_last_seek", name=name)
    return _Seek(*rows[0]) if rows else _Seek()


def _target(request: Request, last: _Seek) -> str | None:
    if request.kind == "seek":
        return request.position
    if last.id is None:
        raise NothingToUndo(cursor=request.cursor)
    return last.from_position


def _lock(tx: Transaction, name: str) -> str | None:
    """Let nobody else change the cursor before this transaction ends; return where it is."""
    rows = tx.query("cursor_lock", name=name)
    if not rows or rows[0][0] is None:
        raise CursorMissing(cursor=name)
    position: str | None = rows[0][1]
    return position

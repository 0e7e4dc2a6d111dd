"""Moves: seeks and their undoing, thought through first, recorded always.

A move raises the epoch and leaves the cursor without an owner, so that a worker that is busy with
the old position is refused at its next checkpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.crash import crash_point
from onceward.cursors.history import note
from onceward.cursors.models import CountBetween, CursorState, Epoch, HistoryKind, Move
from onceward.errors import CursorMissing, NothingToUndo
from onceward.stores import Store, Transaction


class Moved(NamedTuple):
    """What a move did."""

    from_position: str | None
    to_position: str | None
    #: The epoch that counts now.
    epoch: Epoch


def plan(state: CursorState, to_position: str | None, count: CountBetween | None) -> Move:
    """Say what a move would do, and do nothing."""
    return Move(
        cursor=state.name,
        from_position=state.position,
        to_position=to_position,
        repeated=count(to_position, state.position) if count else None,
        skipped=count(state.position, to_position) if count else None,
        interrupts=state.lease_owner if state.is_held else None,
        epoch=None,
    )


def seek(tx: Transaction, name: str, position: str | None, *, reason: str, actor: str) -> Moved:
    """Move a cursor."""
    return _move(tx, name, position, kind="seek", reason=reason, actor=actor, undoes=None)


def undo(tx: Transaction, name: str, *, reason: str, actor: str) -> Moved:
    """Move a cursor to where it was before the last seek that was not undone."""
    _lock(tx, name)
    rows = tx.query("cursor_last_seek", name=name)
    if not rows:
        raise NothingToUndo(cursor=name)
    seek_id, position = rows[0]
    return _move(tx, name, position, kind="undo", reason=reason, actor=actor, undoes=seek_id)


def before_last_seek(store: Store, name: str) -> str | None:
    """Return where `undo` would move to."""
    rows = store.read("cursor_last_seek", name=name)
    if not rows:
        raise NothingToUndo(cursor=name)
    position: str | None = rows[0][1]
    return position


def _move(  # noqa: PLR0913 - all by name
    tx: Transaction,
    name: str,
    position: str | None,
    *,
    kind: HistoryKind,
    reason: str,
    actor: str,
    undoes: int | None,
) -> Moved:
    before = _lock(tx, name)
    ((epoch,),) = tx.query("cursor_move", name=name, position=position)
    crash_point("cursor.seek.after_move")
    note(
        tx,
        cursor=name,
        kind=kind,
        actor=actor,
        reason=reason,
        from_position=before,
        to_position=position,
        epoch=epoch,
        undoes=undoes,
    )
    return Moved(before, position, Epoch(epoch))


def _lock(tx: Transaction, name: str) -> str | None:
    """Let nobody else change the cursor before this transaction ends; return where it is."""
    rows = tx.query("cursor_lock", name=name)
    if not rows or rows[0][0] is None:
        raise CursorMissing(cursor=name)
    position: str | None = rows[0][1]
    return position

"""Discarded retries: discard parked messages and attempts when a seek moves their cursor back.

A seek discards those that the cursor will read again, and keeps them for an undo. The undo restores
those that were not read since. Positions are opaque; their order comes from the source's
`count(a, b)`: the number of messages after a, up to and including b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from onceward.retries.dead_letter_writes import choose_head, lock_retries
from onceward.stores import Row, Transaction
from onceward.system.crash_points import crash_point

#: Counts messages after a position, up to and including another; None is the start.
CountBetween = Callable[[str | None, str | None], int]
#: Runs a named query.
RunQuery = Callable[..., list[Row]]


class WaitingMessage(NamedTuple):
    """A parked message, or the attempts of one that holds its cursor."""

    position: str
    sequence: int
    key: str | None = None
    is_alone: bool = True
    #: Its row id, if it is a discarded one.
    id: int | None = None
    is_parked: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorMove:
    """A move of a cursor; decides which parked messages and attempts it will read again."""

    cursor: str
    from_position: str | None
    to_position: str | None
    count: CountBetween | None
    #: The last seek that was not undone before this move: an undo undoes it.
    seek: int | None
    is_undo: bool

    def will_reread(self, message: WaitingMessage) -> bool:
        """Return whether the cursor will read it again; False when unknown, so that it stays."""
        if self.to_position is None:
            return True
        return self.count is not None and self.count(self.to_position, message.position) > 0

    def has_passed(self, message: WaitingMessage) -> bool:
        """Return whether the cursor has read it since the seek; False when unknown."""
        if self.from_position is None:
            return False
        if message.position == self.from_position:
            return True
        return self.count is not None and self.count(message.position, self.from_position) > 0

    def has_read(self, message: WaitingMessage, since: str | None) -> bool:
        """Return whether the cursor has read it since the last move, which put it at `since`.

        False when unknown: the row is kept, which only costs space.
        """
        if self.from_position == since:
            return False
        try:
            is_after = since is None or message.position == self.from_position
            if not is_after and self.count is not None:
                is_after = self.count(since, message.position) > 0
            return is_after and self.has_passed(message)
        except LookupError:
            return False

    def sort_key(self, message: WaitingMessage, *, is_back: bool) -> tuple[int, int]:
        """Return the sort key within a key's queue: passed messages first, then those ahead."""
        if self.count is None:
            return int(is_back), message.sequence
        is_passed = self.has_passed(message)
        distance = 0 if is_passed else self.count(self.from_position, message.position)
        return distance, message.sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class MovePlan:
    """The plan of a move for parked messages and attempts; `apply` carries it out."""

    cursor: str
    #: Number of messages that are discarded; None when unknown, and all of them stay.
    discarded: int | None
    #: Number of messages that are restored.
    restored: int
    #: Positions of parked messages, and of attempts, that are discarded.
    parked: list[str]
    held: list[str]
    #: Ids of discarded rows that are deleted, and of those that are restored.
    to_delete: list[int]
    to_restore: list[int]
    #: Positions that need a later sequence number, in this order.
    to_renumber: list[str]
    #: Keys whose queues change.
    keys: list[str]

    def apply(self, tx: Transaction, keep_for: int | None) -> None:
        """Apply the plan in the transaction that made it; keep discarded rows for this seek's undo.

        Without a seek the rows are deleted: no undo can need them.
        """
        crash_point("retries.discard.before_remove")
        self._discard(tx, self.held, "attempt_delete", "discarded_keep_attempts", keep_for)
        if self.to_restore:
            tx.query("discarded_restore_parked", ids=_json(self.to_restore))
            tx.query("discarded_restore_attempts", ids=_json(self.to_restore))
            crash_point("retries.restore.after_insert")
        if self.to_delete:
            tx.query("discarded_delete", ids=_json(self.to_delete))
        # After the restore: the cursor will read some of the restored messages again.
        self._discard(tx, self.parked, "parked_delete", "discarded_keep_parked", keep_for)
        crash_point("retries.discard.after_remove")
        for position in self.to_renumber:
            number = lock_retries(tx, self.cursor, is_worker=False)
            tx.query("parked_renumber", cursor=self.cursor, position=position, sequence=number)
        for key in self.keys:
            choose_head(tx, self.cursor, key)

    def _discard(
        self, tx: Transaction, positions: list[str], delete: str, keep: str, keep_for: int | None
    ) -> None:
        which = {"cursor": self.cursor, "positions": _json(positions)}
        if positions and keep_for is not None:
            tx.query(keep, **which, history=keep_for)
        if positions:
            tx.query(delete, **which)


def plan_move(run_query: RunQuery, move: CursorMove) -> MovePlan:
    """Plan a move; changes nothing."""
    parked = [WaitingMessage(*row) for row in run_query("parked_list", cursor=move.cursor)]
    held = [WaitingMessage(*row) for row in run_query("attempt_list", cursor=move.cursor)]
    kept = (
        [WaitingMessage(*row) for row in run_query("discarded_list", history=move.seek)]
        if move.seek
        else []
    )
    to_restore = _rows_to_restore(move, kept, parked, held) if move.is_undo else []
    to_delete = _rows_to_delete(run_query, move, kept)
    staying, leaving = _split_by_reread(move, parked)
    # Restored messages that will be read again are discarded with the others; attempts stay,
    # since they count for that read.
    restored_leaving, restored_staying = _split_by_reread(
        move, [each for each in to_restore if each.is_parked]
    )
    is_known = move.to_position is None or move.count is not None or not parked
    return MovePlan(
        cursor=move.cursor,
        # The message that blocks the cursor is the next one: read again, or skipped.
        discarded=len(leaving) + len(held) if is_known else None,
        restored=len(to_restore) - len(restored_staying),
        parked=[each.position for each in [*leaving, *restored_staying]],
        held=[each.position for each in held],
        to_delete=[each.id for each in to_delete if each.id is not None],
        to_restore=[each.id for each in to_restore if each.id is not None],
        to_renumber=_positions_to_renumber(move, staying, restored_leaving),
        keys=_keys([*leaving, *restored_leaving]),
    )


def _rows_to_delete(
    run_query: RunQuery, move: CursorMove, kept: list[WaitingMessage]
) -> list[WaitingMessage]:
    """Return discarded rows to delete: those of the undone seek, and those that were read since.

    A message that was read since has a newer outcome, whichever seek discarded it.
    """
    others = [
        WaitingMessage(*row)
        for row in run_query("discarded_others", cursor=move.cursor, history=move.seek or 0)
    ]
    ((since,),) = run_query("cursor_last_move", name=move.cursor) or [(None,)]
    open_ = others if move.is_undo else [*kept, *others]
    read = [each for each in open_ if move.has_read(each, since)]
    return [*kept, *read] if move.is_undo else read


def _split_by_reread(
    move: CursorMove, rows: list[WaitingMessage]
) -> tuple[list[WaitingMessage], list[WaitingMessage]]:
    """Return the messages that stay, and those that the cursor will read again."""
    will_reread = [move.will_reread(each) for each in rows]
    return (
        [each for each, is_reread in zip(rows, will_reread, strict=True) if not is_reread],
        [each for each, is_reread in zip(rows, will_reread, strict=True) if is_reread],
    )


def _rows_to_restore(
    move: CursorMove,
    kept: list[WaitingMessage],
    parked: list[WaitingMessage],
    held: list[WaitingMessage],
) -> list[WaitingMessage]:
    """Return messages that a seek discarded and that have no newer outcome.

    A message that waits again has one. Without a count others may be repeated.
    """
    waiting_again = {(each.position, True) for each in parked} | {
        (each.position, False) for each in held
    }
    found: dict[tuple[str, bool], WaitingMessage] = {}
    for each in kept:
        if (each.position, each.is_parked) not in waiting_again and not move.has_passed(each):
            # The first discarded row counts: its state at the seek, before later moves.
            found.setdefault((each.position, each.is_parked), each)
    return list(found.values())


def _positions_to_renumber(
    move: CursorMove, staying: list[WaitingMessage], to_restore: list[WaitingMessage]
) -> list[str]:
    """Return positions that need a later number, after messages read since the seek."""
    lines: dict[str, list[tuple[tuple[int, int], WaitingMessage]]] = {
        key: [] for key in _keys(to_restore)
    }
    for rows, is_back in ((staying, False), (to_restore, True)):
        for each in rows:
            if each.key in lines and not each.is_alone:
                lines[each.key].append((move.sort_key(each, is_back=is_back), each))
    to_renumber: list[str] = []
    for line in lines.values():
        line.sort(key=lambda each: each[0])
        numbers = [each.sequence for _, each in line]
        first = next((at for at in range(1, len(line)) if numbers[at] < numbers[at - 1]), len(line))
        to_renumber += [each.position for _, each in line[first:]]
    return to_renumber


def _keys(rows: Iterable[WaitingMessage]) -> list[str]:
    return sorted({each.key for each in rows if each.key is not None and not each.is_alone})


def _json(values: list[str] | list[int]) -> str:
    return orjson.dumps(values).decode()

"""Discarded by a seek: parked messages and attempts of a cursor that an operator moves.

A seek discards those that the cursor will read again, and keeps them for an undo. The undo restores
those that were not read since. Positions are opaque; their order comes from the source's
`count(a, b)`: the number of messages after a, up to and including b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from onceward.retries.dead_letter_writes import line_up, turn
from onceward.stores import Row, Transaction
from onceward.system.crash_points import crash_point

#: Counts messages after a position, up to and including another; None is the start.
CountBetween = Callable[[str | None, str | None], int]
#: Runs a named query.
Ask = Callable[..., list[Row]]


class WaitingMessage(NamedTuple):
    """A parked message, or the attempts of one that holds its cursor."""

    position: str
    sequence: int
    key: str | None = None
    is_alone: bool = True
    #: Its id among the discarded ones.
    id: int | None = None
    is_parked: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorMove:
    """A move of a cursor, and how it relates to parked messages and attempts."""

    cursor: str
    from_position: str | None
    to_position: str | None
    count: CountBetween | None
    #: The last seek that was not undone before this move: an undo undoes it.
    seek: int | None
    is_undo: bool

    def will_read(self, waits: WaitingMessage) -> bool:
        """Return whether the cursor will read it again; False when unknown, so that it stays."""
        if self.to_position is None:
            return True
        return self.count is not None and self.count(self.to_position, waits.position) > 0

    def has_passed(self, waits: WaitingMessage) -> bool:
        """Return whether the cursor has read it since the seek; False when unknown."""
        if self.from_position is None:
            return False
        if waits.position == self.from_position:
            return True
        return self.count is not None and self.count(waits.position, self.from_position) > 0

    def has_read(self, waits: WaitingMessage, since: str | None) -> bool:
        """Return whether the cursor has read it since the last move, which put it at `since`.

        False when unknown: a row that is kept too long only takes space.
        """
        if self.from_position == since:
            return False
        try:
            is_after = since is None or waits.position == self.from_position
            if not is_after and self.count is not None:
                is_after = self.count(since, waits.position) > 0
            return is_after and self.has_passed(waits)
        except LookupError:
            return False

    def place(self, waits: WaitingMessage, *, is_back: bool) -> tuple[int, int]:
        """Return the sort key within a key's queue: passed messages first, then those ahead."""
        if self.count is None:
            return int(is_back), waits.sequence
        is_passed = self.has_passed(waits)
        return 0 if is_passed else self.count(self.from_position, waits.position), waits.sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class MovePlan:
    """The plan of a move for parked messages and attempts; `apply` carries it out."""

    cursor: str
    #: How much is discarded; None when unknown, and all of it stays.
    discarded: int | None
    #: How much is restored.
    restored: int
    #: Positions of parked messages, and of attempts, that are discarded.
    parked: list[str]
    held: list[str]
    #: Ids of discarded rows that are deleted, and of those that are restored.
    settled: list[int]
    back: list[int]
    #: Positions that need a later sequence number, in this order.
    late: list[str]
    #: Keys whose queues change.
    keys: list[str]

    def apply(self, tx: Transaction, keep_for: int | None) -> None:
        """Apply the plan in the transaction that made it; keep discarded rows for this seek's undo.

        Without a seek the rows are deleted: no undo can need them.
        """
        crash_point("retries.forget.before_remove")
        self._take_out(tx, self.held, "attempt_delete", "forgotten_keep_attempts", keep_for)
        if self.back:
            tx.query("forgotten_restore_parked", ids=_text(self.back))
            tx.query("forgotten_restore_attempts", ids=_text(self.back))
            crash_point("retries.restore.after_insert")
        if self.settled:
            tx.query("forgotten_delete", ids=_text(self.settled))
        # After the restore: the cursor will read some of the restored messages again.
        self._take_out(tx, self.parked, "parked_delete", "forgotten_keep_parked", keep_for)
        crash_point("retries.forget.after_remove")
        for position in self.late:
            number = turn(tx, self.cursor, is_worker=False)
            tx.query("parked_renumber", cursor=self.cursor, position=position, sequence=number)
        for key in self.keys:
            line_up(tx, self.cursor, key)

    def _take_out(
        self, tx: Transaction, positions: list[str], delete: str, keep: str, keep_for: int | None
    ) -> None:
        which = {"cursor": self.cursor, "positions": _text(positions)}
        if positions and keep_for is not None:
            tx.query(keep, **which, history=keep_for)
        if positions:
            tx.query(delete, **which)


def plan_move(ask: Ask, shift: CursorMove) -> MovePlan:
    """Plan a move; changes nothing."""
    parked = [WaitingMessage(*row) for row in ask("parked_list", cursor=shift.cursor)]
    held = [WaitingMessage(*row) for row in ask("attempt_list", cursor=shift.cursor)]
    kept = (
        [WaitingMessage(*row) for row in ask("forgotten_list", history=shift.seek)]
        if shift.seek
        else []
    )
    back = _unread(shift, kept, parked, held) if shift.is_undo else []
    settled = _settled(ask, shift, kept)
    stays, leaves = _parted(shift, parked)
    # Restored messages that will be read again are discarded with the others; attempts stay,
    # since they count for that read.
    comes, passes = _parted(shift, [each for each in back if each.is_parked])
    is_known = shift.to_position is None or shift.count is not None or not parked
    return MovePlan(
        cursor=shift.cursor,
        # The message that blocks the cursor is the next one: read again, or skipped.
        discarded=len(leaves) + len(held) if is_known else None,
        restored=len(back) - len(passes),
        parked=[each.position for each in [*leaves, *passes]],
        held=[each.position for each in held],
        settled=[each.id for each in settled if each.id is not None],
        back=[each.id for each in back if each.id is not None],
        late=_late(shift, stays, comes),
        keys=_keys([*leaves, *comes]),
    )


def _settled(ask: Ask, shift: CursorMove, kept: list[WaitingMessage]) -> list[WaitingMessage]:
    """Return discarded rows to delete: those of the undone seek, and those that were read since.

    A message that was read since has a newer outcome, whichever seek discarded it.
    """
    others = [
        WaitingMessage(*row)
        for row in ask("forgotten_others", cursor=shift.cursor, history=shift.seek or 0)
    ]
    ((since,),) = ask("cursor_last_move", name=shift.cursor) or [(None,)]
    open_ = others if shift.is_undo else [*kept, *others]
    read = [each for each in open_ if shift.has_read(each, since)]
    return [*kept, *read] if shift.is_undo else read


def _parted(
    shift: CursorMove, rows: list[WaitingMessage]
) -> tuple[list[WaitingMessage], list[WaitingMessage]]:
    """Return the messages that stay, and those that the cursor will read again."""
    will_read = [shift.will_read(each) for each in rows]
    return (
        [each for each, will in zip(rows, will_read, strict=True) if not will],
        [each for each, will in zip(rows, will_read, strict=True) if will],
    )


def _unread(
    shift: CursorMove,
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
        if (each.position, each.is_parked) not in waiting_again and not shift.has_passed(each):
            # The first discarded row counts: its state at the seek, before later moves.
            found.setdefault((each.position, each.is_parked), each)
    return list(found.values())


def _late(shift: CursorMove, stays: list[WaitingMessage], back: list[WaitingMessage]) -> list[str]:
    """Return positions that need a later number, after messages read since the seek."""
    lines: dict[str, list[tuple[tuple[int, int], WaitingMessage]]] = {
        key: [] for key in _keys(back)
    }
    for rows, is_back in ((stays, False), (back, True)):
        for each in rows:
            if each.key in lines and not each.is_alone:
                lines[each.key].append((shift.place(each, is_back=is_back), each))
    late: list[str] = []
    for line in lines.values():
        line.sort(key=lambda each: each[0])
        numbers = [each.sequence for _, each in line]
        first = next((at for at in range(1, len(line)) if numbers[at] < numbers[at - 1]), len(line))
        late += [each.position for _, each in line[first:]]
    return late


def _keys(rows: Iterable[WaitingMessage]) -> list[str]:
    return sorted({each.key for each in rows if each.key is not None and not each.is_alone})


def _text(values: list[str] | list[int]) -> str:
    return orjson.dumps(values).decode()

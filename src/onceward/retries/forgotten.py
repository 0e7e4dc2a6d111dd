"""Forgotten: what becomes of what waits when its cursor is moved by hand.

A move forgets what the cursor will read again. It is kept for the undoing of a seek, which brings
back what nobody has read since. Positions are opaque; which comes first is known from
`count(a, b)`, which sources have: how many messages lie behind a, up to and with b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from onceward.crash import crash_point
from onceward.retries.dead import line_up, turn
from onceward.stores import Row, Transaction

#: How many messages lie behind the first position, up to and with the second; None is the start.
CountBetween = Callable[[str | None, str | None], int]
#: Runs one of our own queries by its name.
Ask = Callable[..., list[Row]]


class Waits(NamedTuple):
    """A parked message, or the attempts of one that holds its cursor."""

    position: str
    sequence: int
    key: str | None = None
    is_alone: bool = True
    #: Its number where forgotten ones are kept.
    id: int | None = None
    is_parked: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """A move of a cursor, as far as it matters to what waits there."""

    cursor: str
    from_position: str | None
    to_position: str | None
    count: CountBetween | None
    #: The last seek that was not undone before this move: an undo undoes it.
    seek: int | None
    is_undo: bool

    def will_read(self, waits: Waits) -> bool:
        """Say whether the cursor will come to it again; not when nobody can tell: it must stay."""
        if self.to_position is None:
            return True
        return self.count is not None and self.count(self.to_position, waits.position) > 0

    def has_passed(self, waits: Waits) -> bool:
        """Say whether the cursor has come to it since the seek; not when nobody can tell."""
        if self.from_position is None:
            return False
        if waits.position == self.from_position:
            return True
        return self.count is not None and self.count(waits.position, self.from_position) > 0

    def has_read(self, waits: Waits, since: str | None) -> bool:
        """Say whether the cursor has read it since the last move, which put it at `since`.

        Not when nobody can tell, or when it would have to be counted first: it only takes room.
        """
        if self.from_position == since:
            return False
        try:
            is_behind = since is None or waits.position == self.from_position
            if not is_behind and self.count is not None:
                is_behind = self.count(since, waits.position) > 0
            return is_behind and self.has_passed(waits)
        except LookupError:
            return False

    def place(self, waits: Waits, *, is_back: bool) -> tuple[int, int]:
        """Return what orders a line: what was passed, then what lies ahead."""
        if self.count is None:
            return int(is_back), waits.sequence
        is_passed = self.has_passed(waits)
        return 0 if is_passed else self.count(self.from_position, waits.position), waits.sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Following:
    """What a move means for what waits: thought through, until `apply` does it."""

    cursor: str
    #: How much is forgotten; None when nobody can tell, and all of it stays.
    forgotten: int | None
    #: How much comes back.
    restored: int
    #: Positions that leave the line, and positions whose attempts are forgotten.
    parked: list[str]
    held: list[str]
    #: Numbers of what is kept no longer, and of what comes back of it.
    settled: list[int]
    back: list[int]
    #: Positions that need a new number to stand behind those before them, in this order.
    late: list[str]
    #: Keys whose lines change.
    keys: list[str]

    def apply(self, tx: Transaction, keep_for: int | None) -> None:
        """Do it, in the transaction that thought of it; keep what leaves for this seek's undoing.

        Without such a seek it is forgotten for good: no undo can pass over it then.
        """
        crash_point("retries.forget.before_remove")
        self._take_out(tx, self.held, "attempt_delete", "forgotten_keep_attempts", keep_for)
        if self.back:
            tx.query("forgotten_restore_parked", ids=_text(self.back))
            tx.query("forgotten_restore_attempts", ids=_text(self.back))
            crash_point("retries.restore.after_insert")
        if self.settled:
            tx.query("forgotten_delete", ids=_text(self.settled))
        # Behind what comes back: some of that the cursor will read again as well.
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


def following(ask: Ask, shift: Shift) -> Following:
    """Think a move through; changes nothing."""
    parked = [Waits(*row) for row in ask("parked_list", cursor=shift.cursor)]
    held = [Waits(*row) for row in ask("attempt_list", cursor=shift.cursor)]
    kept = [Waits(*row) for row in ask("forgotten_list", history=shift.seek)] if shift.seek else []
    back = _unread(shift, kept, parked, held) if shift.is_undo else []
    settled = _settled(ask, shift, kept)
    stays, leaves = _parted(shift, parked)
    # What comes back and will be read again at once leaves with the others, not so attempts: they
    # are for that reading.
    comes, passes = _parted(shift, [each for each in back if each.is_parked])
    is_known = shift.to_position is None or shift.count is not None or not parked
    return Following(
        cursor=shift.cursor,
        # What holds the cursor stands right behind it: it is read again, or passed over for good.
        forgotten=len(leaves) + len(held) if is_known else None,
        restored=len(back) - len(passes),
        parked=[each.position for each in [*leaves, *passes]],
        held=[each.position for each in held],
        settled=[each.id for each in settled if each.id is not None],
        back=[each.id for each in back if each.id is not None],
        late=_late(shift, stays, comes),
        keys=_keys([*leaves, *comes]),
    )


def _settled(ask: Ask, shift: Shift, kept: list[Waits]) -> list[Waits]:
    """Return what need not be kept: what a seek that is undone had forgotten, and what was read.

    Whichever seek had forgotten it: what was read since has an outcome of its own.
    """
    others = [
        Waits(*row) for row in ask("forgotten_others", cursor=shift.cursor, history=shift.seek or 0)
    ]
    ((since,),) = ask("cursor_last_move", name=shift.cursor) or [(None,)]
    open_ = others if shift.is_undo else [*kept, *others]
    read = [each for each in open_ if shift.has_read(each, since)]
    return [*kept, *read] if shift.is_undo else read


def _parted(shift: Shift, rows: list[Waits]) -> tuple[list[Waits], list[Waits]]:
    """Return what stays where it is, and what the cursor will read again."""
    will_read = [shift.will_read(each) for each in rows]
    return (
        [each for each, will in zip(rows, will_read, strict=True) if not will],
        [each for each, will in zip(rows, will_read, strict=True) if will],
    )


def _unread(shift: Shift, kept: list[Waits], parked: list[Waits], held: list[Waits]) -> list[Waits]:
    """Return what a seek has forgotten and has had no outcome of its own since.

    What waits anew has one. Without a count that is all we know: the rest may be repeated.
    """
    anew = {(each.position, True) for each in parked} | {(each.position, False) for each in held}
    found: dict[tuple[str, bool], Waits] = {}
    for each in kept:
        if (each.position, each.is_parked) not in anew and not shift.has_passed(each):
            # First forgotten, first: as it was at the seek, whatever later moves did to it.
            found.setdefault((each.position, each.is_parked), each)
    return list(found.values())


def _late(shift: Shift, stays: list[Waits], back: list[Waits]) -> list[str]:
    """Return what must get a later number: what was read since the seek stands before it."""
    lines: dict[str, list[tuple[tuple[int, int], Waits]]] = {key: [] for key in _keys(back)}
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


def _keys(rows: Iterable[Waits]) -> list[str]:
    return sorted({each.key for each in rows if each.key is not None and not each.is_alone})


def _text(values: list[str] | list[int]) -> str:
    return orjson.dumps(values).decode()

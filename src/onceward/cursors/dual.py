"""Dual cursor: one read position, and a processed position per group that can be rolled back.

The read cursor moves as soon as messages are seen. A group's processed cursor moves when work on a
batch begins, with the rollback position recorded, and moves back when the work fails, unless output
was sent. Messages in between are found again, also after a crash. Positions are arrival numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from onceward.cursors.dual_models import (
    Arrival,
    BatchNumber,
    DualBatch,
    EndedBatch,
    Ending,
    PendingRange,
)
from onceward.errors import BatchInFlight, InvalidArgument, Superseded
from onceward.stores import Row, Store, Transaction
from onceward.system.crash_points import crash_point


class DualCursor:
    """One dual cursor in a store; every method is one transaction, or part of the open one."""

    def __init__(self, store: Store, name: str) -> None:
        """Use the dual cursor with this name; a new one begins at 0, before the first arrival."""
        self._store = store
        #: Name of the dual cursor.
        self.name = name

    def next_sequence(self, tx: Transaction, group: str | None = None) -> Arrival:
        """Assign the next arrival number to a message of this transaction.

        Other transactions wait here until it commits: numbers are in commit order, so a reader that
        has seen one has seen all before it. Call it late in long transactions.
        """
        ((drawn,),) = tx.query("dual_sequence", dual=self.name)
        position = Arrival(drawn)
        if group is not None:
            tx.query("dual_arrived", dual=self.name, group=group, position=position)
        crash_point("dual.sequence.after_draw")
        return position

    @property
    def read(self) -> Arrival:
        """Return the read position."""
        return self._positions()[1]

    def processed(self, group: str) -> Arrival:
        """Return the processed position of a group; provisional while a batch is in flight."""
        rows = self._store.read("dual_group", dual=self.name, group=group)
        return Arrival(rows[0][0] if rows else 0)

    def advance_global(self, position: int) -> Arrival:
        """Move the read position forward, as soon as messages are seen; never back."""
        arrived, _ = self._positions()
        _check_range("position", position, 0, arrived)

        def operation(tx: Transaction) -> Arrival:
            tx.query("dual_advance_read", dual=self.name, position=position)
            crash_point("dual.read.after_move")
            ((_, read),) = tx.query("dual_positions", dual=self.name)
            return Arrival(read)

        return self._store.write(operation)

    def advance_group(
        self,
        group: str,
        position: int,
        *,
        batch: Sequence[object] = (),
        extends: DualBatch | None = None,
    ) -> DualBatch:
        """Begin a batch of a group's messages up to `position`; `batch` is stored with it.

        `extends` adds the messages to a batch in flight. BatchInFlight when another batch is in
        flight, Superseded when the named batch no longer is.
        """

        def operation(tx: Transaction) -> DualBatch:
            processed, last = self._lock_group(tx, group)
            current = self._in_flight(tx, group)
            ((_, read),) = tx.query("dual_positions", dual=self.name)
            if extends is not None:
                current = self._fenced(group, extends, current)
            elif current is not None:
                raise BatchInFlight(group=group, number=current.number)
            _check_range("position", position, processed + 1, read)
            number = current.number if current else BatchNumber(last + 1)
            row = {"dual": self.name, "group": group, "number": number, "position": position}
            items = _items_text((*(current.items if current else ()), *batch))
            if current is not None:
                tx.query("dual_extend", **row, items=items)
            else:
                tx.query("dual_begin", **row, items=items, previous=processed)
            crash_point("dual.advance.after_batch")
            tx.query("dual_move", **row)
            made = self._in_flight(tx, group)
            assert made is not None
            return made

        return self._store.write(operation)

    def output_sent(self, batch: DualBatch | str) -> None:
        """Record that output of this batch is sent: messages up to here are not repeated.

        Call it before the output leaves, in the transaction that records it.
        """

        def operation(tx: Transaction) -> None:
            group, current = self._lock_batch(tx, batch)
            upto = _covered_position(batch, current)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_output", **place, position=upto)
            crash_point("dual.output.after_mark")

        self._store.write(operation)

    def output_unsent(self, batch: DualBatch, position: int | None) -> None:
        """Correct the position up to which output was sent, when some was not delivered."""

        def operation(tx: Transaction) -> None:
            group, current = self._lock_batch(tx, batch)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_output_set", **place, position=position)

        self._store.write(operation)

    def check(self, batch: DualBatch) -> None:
        """Raise Superseded unless this batch is in flight; locks it until the transaction ends."""

        def operation(tx: Transaction) -> None:
            self._lock_batch(tx, batch)

        self._store.write(operation)

    def commit_group(self, batch: DualBatch | str, *, is_literal: bool = False) -> Arrival:
        """End a batch that succeeded, and return the group's position.

        A handle covers the messages it was created with: follow-ups that were added to the batch
        since are handed out again, unless output was sent after them. With `is_literal` the batch
        is done up to its own position only, whatever was sent.
        """

        def operation(tx: Transaction) -> Arrival:
            group, current = self._lock_batch(tx, batch)
            sent = Arrival(0) if is_literal else current.output_position or Arrival(0)
            upto = max(_covered_position(batch, current), sent)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_move", **place, position=upto)
            tx.query("dual_end", **place)
            crash_point("dual.commit.after_end")
            return upto

        return self._store.write(operation)

    def rollback_group(
        self, batch: DualBatch | str, *, reason: str = "failed", actor: str = "onceward"
    ) -> EndedBatch:
        """End a batch that failed; the group moves back, so its messages are handed out again.

        When output was sent, only messages after the last output are handed out again.
        """

        def operation(tx: Transaction) -> EndedBatch:
            _, current = self._lock_batch(tx, batch)
            return self._end_failed(tx, current, reason, actor)

        return self._store.write(operation)

    def move_group(self, group: str, position: int, *, reason: str, actor: str) -> Arrival:
        """Set a group's position as an operator, and return the previous one.

        BatchInFlight while a batch is in flight. Recorded in the history, as rollbacks are.
        """

        def operation(tx: Transaction) -> Arrival:
            processed, last = self._lock_group(tx, group)
            current = self._in_flight(tx, group)
            if current is not None:
                fix = (
                    "commit the batch or roll it back, then call again; after a crash call "
                    "recover() once no other process works on it"
                )
                raise BatchInFlight(fix=fix, group=group, number=current.number)
            ((_, read),) = tx.query("dual_positions", dual=self.name)
            _check_range("position", position, 0, read)
            tx.query("dual_move", dual=self.name, group=group, number=last, position=position)
            tx.query(
                "dual_note",
                name=f"{self.name}/{group}",
                actor=actor,
                reason=reason,
                from_position=str(processed),
                to_position=str(position),
                number=last,
            )
            return Arrival(processed)

        return self._store.write(operation)

    def recover(self, *, actor: str = "onceward") -> list[EndedBatch]:
        """Roll back the batches that a crash left in flight; call it at start.

        A process that still works on one of them is fenced: it can neither commit nor roll back.
        """

        def operation(tx: Transaction) -> list[EndedBatch]:
            groups = [row[0] for row in tx.query("dual_batches", dual=self.name)]
            ended = []
            for group in sorted(groups):
                self._lock_group(tx, group)
                found = self._in_flight(tx, group)  # Read again: another process may have ended it.
                if found is not None:
                    ended.append(self._end_failed(tx, found, "recovered", actor))
            return ended

        return self._store.write(operation)

    def pending(self, group: str | None = None) -> list[PendingRange]:
        """Return messages read but not processed, and batches in flight; longest waiting first.

        A group is known once it was passed to `next_sequence` or `advance_group`. A group that is
        requested by name is always returned, possibly empty.
        """
        if group is None:
            rows = self._store.read("dual_groups", dual=self.name)
            return [
                PendingRange(group=name, after=after, upto=upto, batch=number)
                for name, after, upto, number in rows
            ]
        rows = self._store.read("dual_group", dual=self.name, group=group) or [(0, None)]
        ((after, number),) = rows
        return [PendingRange(group=group, after=after, upto=self.read, batch=number)]

    def in_flight(self) -> list[DualBatch]:
        """Return the batches in flight."""
        return [_batch(row) for row in self._store.read("dual_batches", dual=self.name)]

    def _positions(self) -> tuple[Arrival, Arrival]:
        ((arrived, read),) = self._store.read("dual_positions", dual=self.name)
        return Arrival(arrived), Arrival(read)

    def _lock_group(self, tx: Transaction, group: str) -> tuple[int, int]:
        """Lock a group until the transaction ends; return its position and last batch number."""
        ((processed, last),) = tx.query("dual_lock_group", dual=self.name, group=group)
        return processed, last

    def _in_flight(self, tx: Transaction, group: str) -> DualBatch | None:
        rows = tx.query("dual_batch", dual=self.name, group=group)
        return _batch(rows[0]) if rows else None

    def _lock_batch(self, tx: Transaction, batch: DualBatch | str) -> tuple[str, DualBatch]:
        """Lock the group and return its batch in flight, which must be the one named."""
        group = batch if isinstance(batch, str) else batch.group
        self._lock_group(tx, group)
        return group, self._fenced(group, batch, self._in_flight(tx, group))

    def _fenced(self, group: str, named: DualBatch | str, current: DualBatch | None) -> DualBatch:
        if current is None:
            message = f"no batch of {group!r} of {self.name} is in flight; nothing was changed"
            raise Superseded(message, group=group)
        if isinstance(named, DualBatch) and (named.group, named.number) != (group, current.number):
            message = (
                f"batch {named.number} of {named.group!r} has ended already; nothing was changed"
            )
            raise Superseded(message, group=group, number=named.number, current=current.number)
        return current

    def _end_failed(self, tx: Transaction, batch: DualBatch, reason: str, actor: str) -> EndedBatch:
        place = {"dual": self.name, "group": batch.group, "number": batch.number}
        tx.query("dual_move", **place, position=batch.rollback_position)
        crash_point("dual.rollback.after_move")
        tx.query("dual_end", **place)
        tx.query(
            "dual_note",
            name=f"{self.name}/{batch.group}",
            actor=actor,
            reason=reason,
            from_position=str(batch.position),
            to_position=str(batch.rollback_position),
            number=batch.number,
        )
        ending: Ending = "rolled back" if batch.output_position is None else "kept"
        return EndedBatch(batch=batch, ending=ending, position=batch.rollback_position)


def _covered_position(named: DualBatch | str, current: DualBatch) -> Arrival:
    """Return the position that a handle covers: the batch's when the handle was created."""
    return current.position if isinstance(named, str) else min(named.position, current.position)


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        message = f"{field}: {value} is not between {low} and {high}; nothing was changed"
        fix = f"pass {low} to {high}"
        if low > high:
            message = f"{field}: all messages up to {high} are processed; nothing was changed"
            fix = "advance the read position first, with advance_global()"
        raise InvalidArgument(message, fix=fix, field=field)


def _items_text(items: tuple[object, ...]) -> str:
    try:
        return orjson.dumps(items).decode()
    except TypeError as exc:
        message = f"batch: is not JSON: {exc}"
        fix = "pass plain JSON values, with UTF-8 text and integers of at most 64 bits"
        raise InvalidArgument(message, fix=fix, field="batch") from exc


def _batch(row: Row) -> DualBatch:
    group, number, previous, position, output, items, started_at = row
    if isinstance(started_at, str):
        started_at = datetime.fromisoformat(started_at)
    return DualBatch(
        group=group,
        number=number,
        previous=previous,
        position=position,
        output_position=output,
        items=tuple(orjson.loads(items)),
        started_at=started_at.astimezone(UTC),
    )

"""DualCursor: how far messages were read, and how far each group of them was processed.

The read cursor moves as soon as messages are seen. A group's processed cursor moves when work on a
batch begins, with the way back recorded, and goes back when it fails, unless output was sent. What
lies between is found again, also after a crash. Positions are arrival numbers, never times.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from onceward.crash import crash_point
from onceward.cursors.dual_models import Arrival, Batch, BatchNumber, Ended, Ending, Pending
from onceward.errors import BatchInFlight, InvalidArgument, Superseded
from onceward.stores import Row, Store, Transaction


class DualCursor:
    """One dual cursor in a store; every method is one transaction, or part of the open one."""

    def __init__(self, store: Store, name: str) -> None:
        """Name it; it begins at 0, before the first arrival."""
        self._store = store
        #: Its name.
        self.name = name

    def next_sequence(self, tx: Transaction, group: str | None = None) -> Arrival:
        """Draw the number of a message that arrives in this transaction.

        Others who draw wait until it commits: numbers are in the order of commits, so a reader that
        has seen one has seen all before it. Draw late in long transactions.
        """
        ((drawn,),) = tx.query("dual_sequence", dual=self.name)
        position = Arrival(drawn)
        if group is not None:
            tx.query("dual_arrived", dual=self.name, group=group, position=position)
        crash_point("dual.sequence.after_draw")
        return position

    @property
    def read(self) -> Arrival:
        """Return how far messages were read."""
        return self._positions()[1]

    def processed(self, group: str) -> Arrival:
        """Return how far a group is processed, by way of trial when a batch is in flight."""
        rows = self._store.read("dual_group", dual=self.name, group=group)
        return Arrival(rows[0][0] if rows else 0)

    def advance_global(self, position: int) -> Arrival:
        """Move the read cursor onward, as soon as messages were seen; never back."""
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
        extends: Batch | None = None,
    ) -> Batch:
        """Begin work on a group's messages up to `position`; `batch` is what to remember of them.

        With `extends` more messages are handed to work that goes on. BatchInFlight when there is
        work that was not named, Superseded when what was named is not in flight any more.
        """

        def operation(tx: Transaction) -> Batch:
            processed, last = self._turn(tx, group)
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

    def output_sent(self, batch: Batch | str) -> None:
        """Mark that output of this work goes out: what was handed over so far is not repeated.

        Call it before the output leaves, in the transaction that records it.
        """

        def operation(tx: Transaction) -> None:
            group, current = self._begun(tx, batch)
            upto = _upto(batch, current)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_output", **place, position=upto)
            crash_point("dual.output.after_mark")

        self._store.write(operation)

    def output_unsent(self, batch: Batch, position: int | None) -> None:
        """Say anew how far output of this work went out: some of it has reached nobody."""

        def operation(tx: Transaction) -> None:
            group, current = self._begun(tx, batch)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_output_set", **place, position=position)

        self._store.write(operation)

    def check(self, batch: Batch) -> None:
        """Raise Superseded unless this work is in flight; nobody ends it before the transaction."""

        def operation(tx: Transaction) -> None:
            self._begun(tx, batch)

        self._store.write(operation)

    def commit_group(self, batch: Batch | str, *, is_literal: bool = False) -> Arrival:
        """End work that succeeded, and return where the group stands.

        A handle speaks for what it names: follow-ups that somebody added to the batch since, and
        that this handle does not know of, come again, unless output was sent behind them.
        `is_literal`: whoever did the work says that it is done so far and no further, whatever was
        sent.
        """

        def operation(tx: Transaction) -> Arrival:
            group, current = self._begun(tx, batch)
            sent = Arrival(0) if is_literal else current.output_position or Arrival(0)
            upto = max(_upto(batch, current), sent)
            place = {"dual": self.name, "group": group, "number": current.number}
            tx.query("dual_move", **place, position=upto)
            tx.query("dual_end", **place)
            crash_point("dual.commit.after_end")
            return upto

        return self._store.write(operation)

    def rollback_group(
        self, batch: Batch | str, *, reason: str = "failed", actor: str = "onceward"
    ) -> Ended:
        """End work that failed; the group goes back to where it stood, so the messages come again.

        When output was sent it stays: only what was handed over after the last output comes again.
        """

        def operation(tx: Transaction) -> Ended:
            _, current = self._begun(tx, batch)
            return self._end_failed(tx, current, reason, actor)

        return self._store.write(operation)

    def move_group(self, group: str, position: int, *, reason: str, actor: str) -> Arrival:
        """Let a group stand elsewhere, as a person wants it; returns where it stood.

        BatchInFlight while somebody works on it. It is in the history, as every way back is.
        """

        def operation(tx: Transaction) -> Arrival:
            processed, last = self._turn(tx, group)
            current = self._in_flight(tx, group)
            if current is not None:
                raise BatchInFlight(group=group, number=current.number)
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

    def recover(self, *, actor: str = "onceward") -> list[Ended]:
        """End what a crash left in flight, as if it had failed; call it at start.

        Whoever still works on one of these batches is fenced: it can neither commit nor roll back.
        """

        def operation(tx: Transaction) -> list[Ended]:
            groups = [row[0] for row in tx.query("dual_batches", dual=self.name)]
            ended = []
            for group in sorted(groups):
                self._turn(tx, group)
                found = self._in_flight(tx, group)  # Read again: somebody may have ended it.
                if found is not None:
                    ended.append(self._end_failed(tx, found, "recovered", actor))
            return ended

        return self._store.write(operation)

    def pending(self, group: str | None = None) -> list[Pending]:
        """Return what was read and is not processed, and what is in flight; longest waiting first.

        A group is known once it was given to `next_sequence` or `advance_group`. One that is asked
        for by name is always in the answer, perhaps empty.
        """
        if group is None:
            rows = self._store.read("dual_groups", dual=self.name)
            return [
                Pending(group=name, after=after, upto=upto, batch=number)
                for name, after, upto, number in rows
            ]
        rows = self._store.read("dual_group", dual=self.name, group=group) or [(0, None)]
        ((after, number),) = rows
        return [Pending(group=group, after=after, upto=self.read, batch=number)]

    def in_flight(self) -> list[Batch]:
        """Return the batches whose end is not known."""
        return [_batch(row) for row in self._store.read("dual_batches", dual=self.name)]

    def _positions(self) -> tuple[Arrival, Arrival]:
        ((arrived, read),) = self._store.read("dual_positions", dual=self.name)
        return Arrival(arrived), Arrival(read)

    def _turn(self, tx: Transaction, group: str) -> tuple[int, int]:
        """Return where a group stands and its last batch; it is ours until the transaction ends."""
        ((processed, last),) = tx.query("dual_turn", dual=self.name, group=group)
        return processed, last

    def _in_flight(self, tx: Transaction, group: str) -> Batch | None:
        rows = tx.query("dual_batch", dual=self.name, group=group)
        return _batch(rows[0]) if rows else None

    def _begun(self, tx: Transaction, batch: Batch | str) -> tuple[str, Batch]:
        """Return the batch in flight; a handle must name that very one."""
        group = batch if isinstance(batch, str) else batch.group
        self._turn(tx, group)
        return group, self._fenced(group, batch, self._in_flight(tx, group))

    def _fenced(self, group: str, named: Batch | str, current: Batch | None) -> Batch:
        if current is None:
            message = f"nothing is in flight for {group!r} of {self.name}; nothing was changed"
            raise Superseded(message, group=group)
        if isinstance(named, Batch) and (named.group, named.number) != (group, current.number):
            message = f"batch {named.number} of {named.group!r} is over; nothing was changed"
            raise Superseded(message, group=group, number=named.number, current=current.number)
        return current

    def _end_failed(self, tx: Transaction, batch: Batch, reason: str, actor: str) -> Ended:
        place = {"dual": self.name, "group": batch.group, "number": batch.number}
        tx.query("dual_move", **place, position=batch.way_back)
        crash_point("dual.rollback.after_move")
        tx.query("dual_end", **place)
        tx.query(
            "dual_note",
            name=f"{self.name}/{batch.group}",
            actor=actor,
            reason=reason,
            from_position=str(batch.position),
            to_position=str(batch.way_back),
            number=batch.number,
        )
        ending: Ending = "rolled back" if batch.output_position is None else "kept"
        return Ended(batch=batch, ending=ending, position=batch.way_back)


def _upto(named: Batch | str, current: Batch) -> Arrival:
    """Return how far a handle speaks: to where its batch stood when it was given out."""
    return current.position if isinstance(named, str) else min(named.position, current.position)


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        message = f"{field}: {value} is not between {low} and {high}"
        fix = "read no further than what arrived, and process no further than what was read"
        raise InvalidArgument(message, fix=fix, field=field)


def _items_text(items: tuple[object, ...]) -> str:
    try:
        return orjson.dumps(items).decode()
    except TypeError as exc:
        message = f"batch: {exc}"
        raise InvalidArgument(message, fix="pass plain JSON values", field="batch") from exc


def _batch(row: Row) -> Batch:
    group, number, previous, position, output, items, started_at = row
    if isinstance(started_at, str):
        started_at = datetime.fromisoformat(started_at)
    return Batch(
        group=group,
        number=number,
        previous=previous,
        position=position,
        output_position=output,
        items=tuple(orjson.loads(items)),
        started_at=started_at.astimezone(UTC),
    )

"""Begun: the poison guard of a cursor. It notes which message runs where that outlives the process.

A process cannot record its own death. After several take-overs in a row, messages run one by one.
Each is noted before it is decoded or handled, and the note is removed with what became of it. A
note that a new worker finds is a death, and a failed attempt of that message. Workers that die
idle leave no note.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from onceward.cursors import Lease
from onceward.cursors.models import OWN_PREFIX
from onceward.handle import Onceward
from onceward.retries import FailedAttempt, Failure
from onceward.stores import Transaction

#: After so many take-overs in a row each message is noted before it begins.
DEATHS: Final = 3
#: What was done with the message: it was made of its bytes, or its handler ran.
Stage = Literal["decoding", "handling"]
#: A note is kept as an attempt of a cursor of our own, which no other query asks for.
_NUMBERS: Final[dict[Stage, int]] = {"decoding": 1, "handling": 2}
#: A message whose handler killed a worker is decoded again, to record that death by its key.
_DECODING_AGAIN: Final = 3
#: Who made the note of a death that is not recorded yet; no worker has this name.
_DEAD_WORKER: Final = ""


class WorkerDied(Exception):
    """A worker died while it was at this message."""

    def __init__(self, stage: Stage) -> None:
        """Say what it did with it."""
        super().__init__(f"a worker died while {stage} this message")


class PoisonMessage(Exception):
    """So many workers died at this message that it is a dead letter before its schedule ends."""

    def __init__(self, deaths: int, stage: Stage) -> None:
        """Say how many, and what the last one did with it."""
        workers = "a worker" if deaths == 1 else f"{deaths} workers"
        super().__init__(f"{workers} died at this message, the last while {stage} it")


#: How the history of a message tells a death.
_DEATHS: Final = frozenset(Failure.of(WorkerDied(stage)).summary for stage in _NUMBERS)


def deaths(failures: Iterable[FailedAttempt]) -> int:
    """Count the attempts of a message that ended with the death of a worker."""
    return sum(each.error in _DEATHS for each in failures)


class Begun:
    """The notes of one cursor."""

    def __init__(self, ow: Onceward, lease: Lease) -> None:
        """Find the notes that an earlier worker left."""
        self._ow = ow
        self._lease = lease
        self._name = f"{OWN_PREFIX}begun/{lease.name}"
        #: Positions that this worker noted.
        self._open: set[str] = set()
        #: What an earlier worker noted and did not remove, by position.
        self.left = self._found()
        last = ow.cursors.history(lease.name, limit=DEATHS)
        has_seen_deaths = sum(each.kind == "steal" for each in last) == DEATHS
        #: Whether workers died one after another, perhaps of what is parked.
        self.is_deadly = bool(self.left) or has_seen_deaths
        has_stood = all(each.to_position == lease.position for each in last)
        #: Whether they did without moving the cursor, perhaps of what comes next.
        self.is_deadly_here = bool(self.left) or (has_seen_deaths and has_stood)

    def _found(self) -> dict[str, Stage]:
        attempts, left = self._ow.retries.attempts, dict[str, Stage]()
        for position in attempts.positions(self._name):
            found = attempts.find(self._name, position)
            if found is None:
                continue
            is_own = found.failures[-1].error == self._lease.worker
            if is_own and found.attempt == _DECODING_AGAIN:
                # The store was away when it was decoded. The death is still that of before.
                left[position] = "handling"
                continue
            if is_own:
                # Our own: the store was away when it was to be removed. That is no death.
                self._open.add(position)
                continue
            is_handled = found.attempt == _NUMBERS["handling"]
            left[position] = "handling" if is_handled else "decoding"
        return left

    def noted(self) -> tuple[str, ...]:
        """Return the positions that this worker noted and has not passed."""
        return tuple(self._open)

    def begin(self, position: str, stage: Stage) -> None:
        """Note that a message begins, in a commit of its own.

        Where an earlier worker died, the note still tells of a death, whatever becomes of this one.
        """
        if position in self.left:
            self._note(position, _DECODING_AGAIN, self._lease.worker)
            return
        self._open.add(position)
        self._note(position, _NUMBERS[stage], self._lease.worker)

    def decoded(self, position: str) -> None:
        """Remove the note of a message that was decoded; one of a death tells what it told before.

        Else trouble with the store, before that death is recorded, would make it one of decoding.
        """
        if position in self.left:
            self._note(position, _NUMBERS[self.left[position]], _DEAD_WORKER)
        else:
            self.end(position)

    def _note(self, position: str, number: int, worker: str) -> None:
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            tx.query(
                "attempt_write",
                cursor=self._name,
                position=position,
                sequence=0,
                attempt=number,
                delay=0.0,
                error=worker,
                kept=1,
            )

    def end(self, position: str, tx: Transaction | None = None) -> None:
        """Remove the note of a message, with what became of it or in a commit of its own."""
        if position not in self._open and position not in self.left:
            return
        if tx is not None:
            # Known to be gone only when that is committed: see `ended`.
            tx.query("attempt_forget", cursor=self._name, position=position)
            return
        with self._ow.transaction() as own:
            self._lease.guard(own)
            self.end(position, own)
        self.ended(position)

    def ended(self, position: str) -> None:
        """Know that the note is gone: what `end` was part of is committed."""
        self._open.discard(position)
        self.left.pop(position, None)

    def forget(self) -> None:
        """Remove all notes: the cursor is drained, so what they were about is done with."""
        for position in (*self.left, *self._open):
            self.end(position)

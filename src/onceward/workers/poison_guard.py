"""Poison guard: record which message is running, to detect messages that kill their worker.

A process cannot record its own death. After several takeovers in a row, messages run one by one.
A note is written before a message is decoded or handled, and removed together with its outcome. A
note that the next worker finds means a worker died: it counts as a failed attempt of that message.
Workers that die idle leave no note. `message_processing` decides when a message is poison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.cursors.models import OWN_PREFIX
from onceward.retries import FailedAttempt, Failure
from onceward.stores import Transaction

#: After this many takeovers in a row, each message is noted before it runs.
TAKEOVERS_BEFORE_NOTES: Final = 3
#: What the worker was doing with the message.
ProcessingStage = Literal["decoding", "handling"]
#: A note is stored as an attempt of an internal cursor, which no other query reads.
_STAGE_NUMBERS: Final[dict[ProcessingStage, int]] = {"decoding": 1, "handling": 2}
#: A message whose handler killed a worker is decoded again, to record that death under its key.
_DECODING_AGAIN: Final = 3
#: The author of a note about a death that is not recorded yet; no worker has this name.
_DEAD_WORKER: Final = ""


class WorkerDied(Exception):
    """A worker died while it processed this message."""

    def __init__(self, stage: ProcessingStage) -> None:
        """Name the stage."""
        super().__init__(f"a worker died while {stage} this message")


class PoisonMessage(Exception):
    """Too many workers died at this message: it is a dead letter, whatever its schedule allows."""

    def __init__(self, count_deaths: int, stage: ProcessingStage) -> None:
        """Name the count and the stage of the last death."""
        workers = "a worker" if count_deaths == 1 else f"{count_deaths} workers"
        super().__init__(f"{workers} died at this message, the last while {stage} it")


#: How a death is written in the history of a message.
_DEATH_SUMMARIES: Final = frozenset(
    Failure.of(WorkerDied(stage)).summary for stage in _STAGE_NUMBERS
)


def count_deaths(failures: Iterable[FailedAttempt]) -> int:
    """Count the attempts of a message that ended with the death of a worker."""
    return sum(each.error in _DEATH_SUMMARIES for each in failures)


class PoisonGuard:
    """The notes of one cursor, written while its lease is held."""

    def __init__(self, ow: Onceward, lease: Lease) -> None:
        """Read the notes that an earlier worker left."""
        self._ow = ow
        self._lease = lease
        self._name = f"{OWN_PREFIX}begun/{lease.name}"
        #: Positions with a note of this worker.
        self._own_notes: set[str] = set()
        #: Stages that an earlier worker noted and did not remove, by position.
        self.abandoned = self._read_notes()
        last = ow.cursors.history(lease.name, limit=TAKEOVERS_BEFORE_NOTES)
        has_seen_deaths = sum(each.kind == "steal" for each in last) == TAKEOVERS_BEFORE_NOTES
        #: Whether workers died one after another, perhaps because of a parked message.
        self.has_deaths = bool(self.abandoned) or has_seen_deaths
        is_unmoved = all(each.to_position == lease.position for each in last)
        #: Whether they died at the same position, perhaps because of the next message.
        self.has_deaths_here = bool(self.abandoned) or (has_seen_deaths and is_unmoved)

    def _read_notes(self) -> dict[str, ProcessingStage]:
        attempts, left = self._ow.retries.attempts, dict[str, ProcessingStage]()
        for position in attempts.positions(self._name):
            found = attempts.find(self._name, position)
            if found is None:
                continue
            is_own = found.failures[-1].error == self._lease.worker
            if is_own and found.attempt == _DECODING_AGAIN:
                # The store failed while the message was decoded again: the earlier death counts.
                left[position] = "handling"
                continue
            if is_own:
                # A note of this worker: the store failed at its removal. No worker died.
                self._own_notes.add(position)
                continue
            is_handled = found.attempt == _STAGE_NUMBERS["handling"]
            left[position] = "handling" if is_handled else "decoding"
        return left

    def own_notes(self) -> tuple[str, ...]:
        """Return the positions that this worker noted and has not finished."""
        return tuple(self._own_notes)

    def note_start(self, position: str, stage: ProcessingStage) -> None:
        """Note in a separate commit that a message begins a stage.

        Where an earlier worker died, the note keeps recording that death.
        """
        if position in self.abandoned:
            self._note(position, _DECODING_AGAIN, self._lease.worker)
            return
        self._own_notes.add(position)
        self._note(position, _STAGE_NUMBERS[stage], self._lease.worker)

    def note_decoded(self, position: str) -> None:
        """Remove the note of a decoded message, or restore the one that records an earlier death.

        Otherwise a store error, before that death is recorded, would turn it into a death while
        decoding.
        """
        if position in self.abandoned:
            self._note(position, _STAGE_NUMBERS[self.abandoned[position]], _DEAD_WORKER)
        else:
            self.remove_note(position)

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

    def remove_note(self, position: str, tx: Transaction | None = None) -> None:
        """Remove the note of a message, in the transaction of its outcome or in a separate one."""
        if position not in self._own_notes and position not in self.abandoned:
            return
        if tx is not None:
            # Removed only once `tx` is committed: see `note_removed`.
            tx.query("attempt_forget", cursor=self._name, position=position)
            return
        with self._ow.transaction() as own:
            self._lease.guard(own)
            self.remove_note(position, own)
        self.note_removed(position)

    def note_removed(self, position: str) -> None:
        """Record that the transaction in which `remove_note` ran is committed."""
        self._own_notes.discard(position)
        self.abandoned.pop(position, None)

    def remove_all_notes(self) -> None:
        """Remove all notes: the cursor is drained, so their messages are finished."""
        for position in (*self.abandoned, *self._own_notes):
            self.remove_note(position)

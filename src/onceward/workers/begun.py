"""Begun: which message of a cursor is at work right now, noted where it outlives the process.

Nobody can say of itself that it died. Where workers died again and again, each message is noted
before it begins and struck out when it ends; what a new worker finds noted is what its
predecessor died of, or in the middle of. Idle deaths leave nothing.
"""

from __future__ import annotations

from typing import Final, Literal

from onceward.cursors import Lease
from onceward.cursors.models import OWN_PREFIX
from onceward.handle import Onceward
from onceward.stores import Transaction

#: After so many take-overs in a row each message is noted before it begins.
DEATHS: Final = 3
#: What was done with the message: it was made of its bytes, or its handler ran.
Stage = Literal["decoding", "handling"]
#: A note is kept as an attempt of a cursor of our own, which no other query asks for.
_NUMBERS: Final[dict[Stage, int]] = {"decoding": 1, "handling": 2}


class WorkerDied(Exception):
    """A worker died while it was at this message."""

    def __init__(self, stage: Stage) -> None:
        """Say what it did with it."""
        super().__init__(f"a worker died while {stage} this message")


class Begun:
    """The notes of one cursor."""

    def __init__(self, ow: Onceward, lease: Lease) -> None:
        """Find what an earlier worker left, where any died."""
        self._ow = ow
        self._lease = lease
        self._name = f"{OWN_PREFIX}begun/{lease.name}"
        #: What this worker began.
        self._open: set[str] = set()
        last = ow.cursors.history(lease.name, limit=DEATHS)
        steals = [each for each in last if each.kind == "steal"]
        #: What an earlier one began and did not end, by position.
        self.left = self._found() if steals else {}
        has_seen_deaths = len(steals) == DEATHS
        #: Whether workers died one after another, perhaps of what is parked.
        self.is_deadly = bool(self.left) or has_seen_deaths
        has_stood = all(each.to_position == lease.position for each in last)
        #: Whether they did without moving the cursor, perhaps of what comes next.
        self.is_deadly_here = bool(self.left) or (has_seen_deaths and has_stood)

    def _found(self) -> dict[str, Stage]:
        attempts, left = self._ow.retries.attempts, dict[str, Stage]()
        for position in attempts.positions(self._name):
            found = attempts.find(self._name, position)
            if found is not None:
                is_handled = found.attempt == _NUMBERS["handling"]
                left[position] = "handling" if is_handled else "decoding"
        return left

    def begin(self, position: str, stage: Stage) -> None:
        """Note that a message begins, in a commit of its own."""
        self._open.add(position)
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            tx.query(
                "attempt_write",
                cursor=self._name,
                position=position,
                sequence=0,
                attempt=_NUMBERS[stage],
                delay=0.0,
                error=stage,
                kept=1,
            )

    def end(self, position: str, tx: Transaction | None = None) -> None:
        """Strike a message out if it is noted, with what became of it or in a commit of its own."""
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
        """Know that it was struck out: what `end` was part of is committed."""
        self._open.discard(position)
        self.left.pop(position, None)

    def forget(self) -> None:
        """Strike out what is left: its cursor is drained, so whoever was meant is done with."""
        for position in tuple(self.left):
            self.end(position)

"""Dual models: batches in flight and pending messages of a dual cursor. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

#: A fencing token: the number of a group's batch; a stale handle has a lower one.
BatchNumber = NewType("BatchNumber", int)
#: An arrival number: assigned to messages in commit order.
Arrival = NewType("Arrival", int)

#: `rolled back`: to where the batch began. `kept`: output was sent, so only messages after the last
#: output are handed out again.
Ending = Literal["rolled back", "kept"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DualBatch:
    """Messages of one group that are being processed; also the handle to end the batch."""

    group: str
    #: The fencing token: only the batch with the group's latest number can be ended.
    number: BatchNumber
    #: The group's position before the batch; a failure moves back to it.
    previous: Arrival
    #: The group's provisional position.
    position: Arrival
    #: The group's position when output was last sent; None: nothing was sent.
    output_position: Arrival | None
    #: Data of the caller, such as the ids of the messages.
    items: tuple[object, ...]
    started_at: datetime

    @property
    def rollback_position(self) -> Arrival:
        """Return the position after a failure: at the last output, which is not repeated."""
        return self.previous if self.output_position is None else self.output_position


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingRange:
    """Messages of a group, read but not processed: `after < number <= upto`."""

    group: str
    #: Processed up to here; provisional while a batch is in flight.
    after: Arrival
    #: Read up to here.
    upto: Arrival
    #: The batch in flight.
    batch: BatchNumber | None

    @property
    def is_empty(self) -> bool:
        """Return whether no message is left to hand out."""
        return self.after >= self.upto


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedBatch:
    """A batch that was rolled back, completely or to its last output."""

    batch: DualBatch
    ending: Ending
    #: The group's position now.
    position: Arrival

"""Dual models: what a dual cursor has in flight, and what is left to do. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

#: The number of a group's batch; grows with each one, so that an old handle is recognised.
BatchNumber = NewType("BatchNumber", int)
#: An arrival number: messages have them in the order of their commits, without an end.
Arrival = NewType("Arrival", int)

#: `rolled back`: to where the batch began. `kept`: output was sent, so only what was handed over
#: after the last output comes again.
Ending = Literal["rolled back", "kept"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Messages of one group that somebody works on; also the token to end it with."""

    group: str
    #: The fence: only the batch with the group's latest number can be ended.
    number: BatchNumber
    #: Where the group stood before; a failure leads back here.
    previous: Arrival
    #: Where the group stands now, by way of trial.
    position: Arrival
    #: How far the group stood when output was last sent; None: nothing was sent.
    output_position: Arrival | None
    #: What the caller wants to remember, such as the ids of the messages.
    items: tuple[object, ...]
    started_at: datetime

    @property
    def way_back(self) -> Arrival:
        """Return where a failure leads: no further than the last output, which is not repeated."""
        return self.previous if self.output_position is None else self.output_position


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """What a group has read and not processed: arrivals with `after < number <= upto`."""

    group: str
    #: The group is processed up to here, by way of trial when a batch is in flight.
    after: Arrival
    #: Messages up to here were read.
    upto: Arrival
    #: The batch in flight, whose end is not known.
    batch: BatchNumber | None

    @property
    def is_empty(self) -> bool:
        """Say whether nothing is left to hand out."""
        return self.after >= self.upto


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a batch ended that did not succeed."""

    batch: Batch
    ending: Ending
    #: Where the group stands now.
    position: Arrival

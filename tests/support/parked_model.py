"""Parked model: what the state machine knows of parked messages, dead letters and seeks."""

from dataclasses import dataclass, field


@dataclass
class Row:
    """What the model knows of a parked message."""

    position: str
    key: str
    order: str
    sequence: int
    attempt: int
    due: float | None
    #: It was put back where it once stood: its place says nothing about the order of positions.
    is_redriven: bool = False


@dataclass
class Seek:
    """What the model knows of a seek that was not undone."""

    origin: int
    #: What its undoing brings back, unless it is read before.
    kept: list[Row] = field(default_factory=list)
    #: What will not be done, because an operator skipped it.
    skipped: set[int] = field(default_factory=set)


@dataclass
class Letter:
    """What the model knows of a dead letter."""

    id: int
    row: Row
    state: str = "dead"
    redrives: int = 0

"""Cells: one way to freeze a process each, and what was seen when it woke up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: Short, so that tests need not wait long for it to expire; long enough for a busy machine.
LEASE_SECONDS = 0.4
ENGINES = ("sqlite", "postgres")


@dataclass(kw_only=True)
class Seen:
    """What one frozen process and those who went on without it left."""

    #: From the freeze to the first thing that another one did instead; None when none could.
    takeover_seconds: float | None = None
    #: How the woken process was refused, in order.
    refused: list[str] = field(default_factory=list)
    #: Pieces of work that are there in the end.
    work: int = 0
    #: Acknowledged and not there; there twice.
    lost: int = 0
    doubled: int = 0
    #: Done again where that is allowed.
    repeated: int = 0
    #: Interesting states.
    reached: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a cell runs: a store, and a directory."""

    url: str
    directory: Path

    @property
    def engine(self) -> str:
        """Return the store's engine."""
        return "sqlite" if self.url.startswith("sqlite") else "postgres"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One way to freeze."""

    #: Unique, and the name of the cursor, key or group it works on.
    name: str
    #: Where: a crash point, or in words where no point is.
    point: str
    run: Callable[[Place], Seen]
    nth: int = 1
    #: Ids of the promises, as in GUARANTEES.md.
    claims: tuple[str, ...] = ("F1",)
    engines: tuple[str, ...] = ENGINES
    #: Engines on which it is part of every test run.
    quick_on: tuple[str, ...] = ()

    def row(self, place: Place, seen: Seen) -> dict[str, Any]:
        """Return it as a line of the report."""
        took = seen.takeover_seconds
        return {
            "cell": self.name,
            "point": self.point,
            "engine": place.engine,
            "nth": self.nth,
            "then": None,
            "recover_ms": None if took is None else round(1000 * took),
            "claims": self.claims,
            **asdict(seen),
        }

"""Table: how results are timed and shown. Ratios count; absolute times mean nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One comparison."""

    #: The work, the same on both sides.
    work: str
    #: What we got, with its unit.
    ours: str
    #: What the peer got, and who it is.
    peer: str
    ratio: float
    goal: float
    #: Whether a larger ratio is better, or a smaller one.
    better: Literal["above", "below"] = "above"

    @property
    def is_met(self) -> bool:
        """Say whether the goal was reached."""
        return self.ratio >= self.goal if self.better == "above" else self.ratio <= self.goal


def best(work: Callable[[], object], *, rounds: int = 5, calls: int = 1) -> float:
    """Return the seconds of one call in the fastest of several rounds."""
    fastest = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        fastest = min(fastest, (time.perf_counter() - began) / calls)
    return fastest


def interleaved(works: Sequence[Callable[[], object]], *, rounds: int = 5) -> list[float]:
    """Return the fastest seconds of each, taking turns so that a busy moment hits all alike."""
    fastest = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, work in enumerate(works):
            fastest[index] = min(fastest[index], best(work, rounds=1))
    return fastest


def print_table(rows: Sequence[Row]) -> None:
    """Print the comparisons, aligned."""
    cells = [["work", "Onceward", "beside", "ratio", "goal", ""]]
    for row in rows:
        sign = "≥" if row.better == "above" else "≤"
        verdict = "met" if row.is_met else "missed"
        goal = f"{sign} {row.goal:g}"
        cells.append([row.work, row.ours, row.peer, f"{row.ratio:.2f}", goal, verdict])
    widths = [max(len(row[column]) for row in cells) for column in range(6)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))

"""Time rounds of work in alternation, so that a busy moment of the machine slows all alike.

A round does its work many times and returns the seconds of one piece of it.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: Does one round; returns the seconds of a piece of work.
Round = Callable[[], float]
#: Seconds of a piece of work, one for each repetition.
Seconds = tuple[float, ...]


class Spread(NamedTuple):
    """What several repetitions came to."""

    median: float
    least: float
    most: float


def spread(values: Seconds) -> Spread:
    """Return the median, and how far the repetitions lie apart."""
    return Spread(statistics.median(values), min(values), max(values))


def turns(rounds: Mapping[str, Round], repetitions: int) -> dict[str, Seconds]:
    """Do each round once, then each once more, and so on; return what each came to."""
    found: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(repetitions):
        for name, round_ in rounds.items():
            found[name].append(round_())
    return {name: tuple(values) for name, values in found.items()}


def timed(work: Callable[[], object], pieces: int = 1) -> Round:
    """Return a round that calls this, which does so many pieces."""

    def round_() -> float:
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) / pieces

    return round_


def cpu(round_: Round) -> float:
    """Do one more round; return the seconds of CPU that this process took for a piece of work."""
    wall, used = time.perf_counter(), time.process_time()
    each = round_()
    pieces = (time.perf_counter() - wall) / each
    return (time.process_time() - used) / pieces


class Numbered:
    """Rounds of calls, each with a number that no call before had."""

    def __init__(self, work: Callable[[int], object], calls: int, *, first: int = 0) -> None:
        """Begin at `first`."""
        self._work = work
        self._calls = calls
        self._next = first

    def __call__(self) -> float:
        """Do one round."""
        first, self._next = self._next, self._next + self._calls
        began = time.perf_counter()
        for number in range(first, first + self._calls):
            self._work(number)
        return (time.perf_counter() - began) / self._calls


@dataclass(frozen=True, slots=True)
class Run:
    """How much is done: a whole run, or a quick one that only shows that everything works."""

    is_quick: bool = False

    def size(self, whole: int, *, quick: int) -> int:
        """Return how many."""
        return quick if self.is_quick else whole

    def repetitions(self, whole: int = 5) -> int:
        """Return how often each round is done."""
        assert whole >= 3
        return 2 if self.is_quick else whole

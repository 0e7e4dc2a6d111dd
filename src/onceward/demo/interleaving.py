"""Interleaving: several parts of the demo at the same time in one thread, and their reports.

An act is a generator: it yields whenever it would wait, and is asked again a moment later. In one
thread, because the kernel ties a process to the thread that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from onceward.system import Clock, Randomness, SystemClock, SystemRandomness

Act = Generator[None, None, None]
T = TypeVar("T")
#: How often acts are asked.
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEvent:
    """Something that happened, and was seen to happen."""

    #: Seconds since the story began.
    at: float
    #: Which part of the story: `leads`, `run`, `feedback`, `memory` or `chat`.
    part: str
    text: str
    #: Whether a process was killed or frozen.
    is_blow: bool = False


class Stage:
    """Prints the events of a demonstration."""

    def __init__(
        self,
        tell: Callable[[StageEvent], None],
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Tell what happens by this."""
        self.clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._tell = tell
        self._began = self.clock.monotonic()

    @property
    def passed(self) -> float:
        """Return the seconds since the story began."""
        return self.clock.monotonic() - self._began

    def tell(self, part: str, text: str, *, is_blow: bool = False) -> None:
        """Tell what has just happened."""
        self._tell(StageEvent(at=round(self.passed, 1), part=part, text=text, is_blow=is_blow))

    def play(self, *acts: Act) -> None:
        """Play these side by side, until the last one ends."""
        playing = list(acts)
        while playing:
            playing = [act for act in playing if _goes_on(act)]
            self.clock.sleep(LOOK_SECONDS)

    def pause(self, seconds: float) -> Act:
        """Wait."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            yield

    def until(self, condition: Callable[[], Any], seconds: float) -> Generator[None, None, bool]:
        """Wait until something is so, but not longer than this; say whether it is."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            if self.clock.monotonic() >= deadline:
                return False
            yield
        return True

    def see(
        self,
        part: str,
        text: str,
        condition: Callable[[], Any],
        seconds: float,
        *,
        is_blow: bool = False,
    ) -> Generator[None, None, bool]:
        """Wait until a condition holds, and print it, or that it was not seen in time."""
        is_so = yield from self.until(condition, seconds)
        self.tell(part, text if is_so else f"not seen: {text}", is_blow=is_so and is_blow)
        return is_so

    def one_of(self, things: Sequence[T]) -> T:
        """Choose by chance."""
        return things[int(self._randomness.fraction() * len(things))]

    def between(self, low: float, high: float) -> float:
        """Return a number by chance."""
        return low + self._randomness.fraction() * (high - low)


def counted(count: int, word: str) -> str:
    """Return a number and what it counts: `1 step`, `2 steps`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _goes_on(act: Act) -> bool:
    try:
        next(act)
    except StopIteration:
        return False
    return True

"""Interleaving: run several parts of the demo concurrently in one thread, and print their events.

An act is a generator that yields whenever it would wait, and is resumed a moment later. One thread,
because a child process ends with the thread that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from onceward.system import Clock, Randomness, SystemClock, SystemRandomness

Act = Generator[None, None, None]
T = TypeVar("T")
#: How often acts are resumed.
POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEvent:
    """Something that the demo has observed."""

    #: Seconds since the demo started.
    at: float
    #: The part of the demo: `leads`, `run`, `feedback`, `memory` or `chat`.
    part: str
    text: str
    #: Whether a process was killed or frozen, or failed.
    is_blow: bool = False


class Stage:
    """Runs the acts of a demo and prints their events."""

    def __init__(
        self,
        tell: Callable[[StageEvent], None],
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Pass events to `tell`."""
        self.clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._tell = tell
        self._began = self.clock.monotonic()

    @property
    def passed(self) -> float:
        """Return the seconds since the demo started."""
        return self.clock.monotonic() - self._began

    def tell(self, part: str, text: str, *, is_blow: bool = False) -> None:
        """Print an event."""
        self._tell(StageEvent(at=round(self.passed, 1), part=part, text=text, is_blow=is_blow))

    def run(self, *acts: Act) -> None:
        """Run these acts concurrently, until the last one ends."""
        playing = list(acts)
        while playing:
            playing = [act for act in playing if _is_unfinished(act)]
            self.clock.sleep(POLL_SECONDS)

    def pause(self, seconds: float) -> Act:
        """Wait."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            yield

    def until(self, condition: Callable[[], Any], seconds: float) -> Generator[None, None, bool]:
        """Wait until a condition holds, at most `seconds`; return whether it holds."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            if self.clock.monotonic() >= deadline:
                return False
            yield
        return True

    def await_event(
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
        self.tell(
            part,
            text if is_so else f"not seen in time: {text}",
            is_blow=is_so and is_blow,
        )
        return is_so

    def one_of(self, things: Sequence[T]) -> T:
        """Choose one at random."""
        return things[int(self._randomness.fraction() * len(things))]

    def between(self, low: float, high: float) -> float:
        """Return a random number."""
        return low + self._randomness.fraction() * (high - low)


def counted(count: int, word: str) -> str:
    """Return a number and what it counts: `1 step`, `2 steps`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _is_unfinished(act: Act) -> bool:
    try:
        next(act)
    except StopIteration:
        return False
    return True

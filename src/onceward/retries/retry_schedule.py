"""Retry schedules: compute the delay before the next attempt, or when to stop. Pure; no store.

A schedule is anything with `delay`. Two kinds are provided: fixed delays, and exponential backoff
up to a cap with full jitter, so that clients do not retry all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from onceward.errors import InvalidArgument
from onceward.system import Randomness

MINUTE_SECONDS: Final = 60.0
#: Limit of the exponent; every growing delay has reached its cap before.
_EXPONENT_MAX: Final = 64


class Schedule(Protocol):
    """Delays between attempts."""

    def delay(self, attempt: int, randomness: Randomness) -> float | None:
        """Return the seconds to wait after the `attempt`-th attempt failed; None: stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedDelays:
    """Fixed delays, one for each retry."""

    #: Seconds before each retry; there is no retry after the last.
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Reject negative and infinite delays."""
        for each in self.seconds:
            _check("seconds", each, "0 or more, and finite", is_fine=0 <= each < float("inf"))

    def delay(self, attempt: int, randomness: Randomness) -> float | None:  # noqa: ARG002 - not random
        """Return the delay after this attempt, or None after the last."""
        assert attempt >= 1, attempt
        return self.seconds[attempt - 1] if attempt <= len(self.seconds) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExponentialBackoff:
    """Exponential backoff: delays that grow by a factor up to a cap."""

    #: The first delay, before jitter.
    base_seconds: float
    #: The maximum delay.
    cap_seconds: float
    #: Ratio of each delay to the previous one.
    factor: float = 2.0
    #: Number of attempts, including the first; None: unlimited.
    attempts_max: int | None = None
    #: Full jitter: a random delay between 0 and the full delay.
    jitter: bool = True

    def __post_init__(self) -> None:
        """Reject delays that would shrink."""
        base, infinite = self.base_seconds, float("inf")
        _check("base_seconds", base, "0 or more, and finite", is_fine=0 <= base < infinite)
        limits = f"at least base_seconds, {base:g}, and finite"
        _check("cap_seconds", self.cap_seconds, limits, is_fine=base <= self.cap_seconds < infinite)
        _check("factor", self.factor, "1 or more, and finite", is_fine=1 <= self.factor < infinite)
        if self.attempts_max is not None:
            _check("attempts_max", self.attempts_max, "1 or more", is_fine=self.attempts_max >= 1)

    def delay(self, attempt: int, randomness: Randomness) -> float | None:
        """Return the delay after this attempt, or None after the last."""
        assert attempt >= 1, attempt
        if self.attempts_max is not None and attempt >= self.attempts_max:
            return None
        exponent = min(attempt - 1, _EXPONENT_MAX)
        longest = min(self.cap_seconds, self.base_seconds * self.factor**exponent)
        return longest * randomness.fraction() if self.jitter else longest


def _check(field: str, value: float, limits: str, *, is_fine: bool) -> None:
    if not is_fine:
        message = f"{field}: must be {limits}, not {value!r}"
        raise InvalidArgument(message, fix="pass a number in this range", field=field)


#: Messages of a cursor: five retries, then a dead letter.
MESSAGES: Final = FixedDelays(seconds=tuple(n * MINUTE_SECONDS for n in (1, 2, 5, 15, 60)))
#: Calls of a client to a service: three attempts in all.
CLIENT: Final = ExponentialBackoff(base_seconds=0.25, cap_seconds=4.0, attempts_max=3)
#: Chat messages to an agent that failed.
DISPATCH: Final = FixedDelays(seconds=(5.0, 10.0, 20.0, 40.0, 80.0))
#: Starting an agent process again.
AGENTS: Final = ExponentialBackoff(base_seconds=1.0, cap_seconds=60.0)

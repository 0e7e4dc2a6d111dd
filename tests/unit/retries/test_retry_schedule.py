"""Schedules: the waits, exactly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.errors import InvalidArgument
from onceward.retries import (
    AGENTS,
    CLIENT,
    DISPATCH,
    MESSAGES,
    ExponentialBackoff,
    FixedDelays,
    Schedule,
)
from onceward.system import Randomness, SeededRandomness


class Always:
    """Chance that always draws the same fraction."""

    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def fraction(self) -> float:
        return self._fraction

    def hex(self, digits: int) -> str:
        return "0" * digits


def waits(schedule: Schedule, chance: Randomness, attempts: int = 8) -> list[float | None]:
    return [schedule.delay(attempt, chance) for attempt in range(1, attempts + 1)]


def test_messages_wait_1_2_5_15_and_60_minutes() -> None:
    """Five retries, whatever chance says; then none."""
    expected = [60, 120, 300, 900, 3600, None, None, None]
    assert waits(MESSAGES, Always(0)) == waits(MESSAGES, Always(0.99)) == expected


def test_dispatch_waits_5_10_20_40_and_80_seconds() -> None:
    """Five retries, then none."""
    assert waits(DISPATCH, Always(0)) == [5, 10, 20, 40, 80, None, None, None]


def test_clients_make_three_attempts_with_full_jitter() -> None:
    """Up to 250 ms, then up to 500 ms, then the error stands."""
    assert waits(CLIENT, Always(1), 3) == [0.25, 0.5, None]
    assert waits(CLIENT, Always(0), 3) == [0, 0, None]
    longer = ExponentialBackoff(base_seconds=0.25, cap_seconds=4, attempts_max=9)
    assert waits(longer, Always(1), 8) == [0.25, 0.5, 1, 2, 4, 4, 4, 4]


def test_agents_are_started_again_for_ever_with_full_jitter() -> None:
    """Twice as long each time, up to a minute, without an end."""
    assert waits(AGENTS, Always(1)) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert waits(AGENTS, Always(0.5), 2) == [0.5, 1]
    assert AGENTS.delay(1_000_000, Always(1)) == 60


@given(attempt=st.integers(1, 10_000), seed=st.integers(0, 2**32))
def test_jitter_stays_between_nothing_and_the_whole_wait(attempt: int, seed: int) -> None:
    """Chance shortens a wait, and the same seed gives the same one."""
    longest = AGENTS.delay(attempt, Always(1))
    drawn = AGENTS.delay(attempt, SeededRandomness(seed))
    assert longest is not None
    assert drawn is not None
    assert 0 <= drawn <= longest
    assert drawn == AGENTS.delay(attempt, SeededRandomness(seed))


def test_a_schedule_of_ones_own_is_any_object_with_delay() -> None:
    """Users are not tied to the two kinds."""

    class Fibonacci:
        def delay(self, attempt: int, randomness: Randomness) -> float | None:  # noqa: ARG002
            return [1.0, 1.0, 2.0, 3.0][attempt - 1] if attempt < 5 else None

    schedule: Schedule = Fibonacci()
    assert waits(schedule, Always(0), 5) == [1, 1, 2, 3, None]


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("seconds", lambda: FixedDelays(seconds=(1.0, -1.0))),
        ("seconds", lambda: FixedDelays(seconds=(math.nan,))),
        ("base_seconds", lambda: ExponentialBackoff(base_seconds=-1, cap_seconds=1)),
        ("cap_seconds", lambda: ExponentialBackoff(base_seconds=2, cap_seconds=1)),
        ("cap_seconds", lambda: ExponentialBackoff(base_seconds=2, cap_seconds=math.inf)),
        ("factor", lambda: ExponentialBackoff(base_seconds=1, cap_seconds=1, factor=0.5)),
        ("attempts_max", lambda: ExponentialBackoff(base_seconds=1, cap_seconds=1, attempts_max=0)),
    ],
)
def test_impossible_waits_cannot_be_built(field: str, make: object) -> None:
    """The error names the field."""
    assert callable(make)
    with pytest.raises(InvalidArgument, match=field):
        make()

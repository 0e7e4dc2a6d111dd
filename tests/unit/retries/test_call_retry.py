"""`retrying`: tries again what may pass, in one layer, for `def` and `async def`."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.errors import InvalidArgument, OncewardError, StoreBusy
from onceward.retries import retrying
from onceward.system import ManualClock
from tests.unit.retries.test_retry_schedule import Always


class Flaky:
    """Raises these errors one after the other, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


class HttpError(Exception):
    """An error like those of HTTP clients."""

    def __init__(self, status: int, retry_after: str | None = None) -> None:
        headers = {"Retry-After": retry_after} if retry_after else {}
        self.response = SimpleNamespace(status_code=status, headers=headers)
        super().__init__(status)


@pytest.fixture(params=["def", "async def"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run a flaky function under `retrying`, plain or async."""

    def plain(flaky: Flaky, clock: ManualClock, **options: Any) -> str:
        return retrying(clock=clock, randomness=Always(1), **options)(flaky)()

    def awaited(flaky: Flaky, clock: ManualClock, **options: Any) -> str:
        @retrying(clock=clock, randomness=Always(1), **options)
        async def function() -> str:
            await asyncio.sleep(0)
            return flaky()

        return asyncio.run(function())

    return plain if request.param == "def" else awaited


def test_what_may_pass_is_tried_three_times(call: Callable[..., Any]) -> None:
    """Twice failed, once done, after 250 and 500 ms at most."""
    flaky, clock = Flaky(StoreBusy(), StoreBusy()), ManualClock()
    assert call(flaky, clock) == "done"
    assert (flaky.calls, clock.monotonic()) == (3, 0.75)


def test_the_third_failure_is_the_callers(call: Callable[..., Any]) -> None:
    """There is no fourth attempt."""
    flaky = Flaky(*[StoreBusy() for _ in range(9)])
    with pytest.raises(StoreBusy):
        call(flaky, ManualClock())
    assert flaky.calls == 3


@pytest.mark.parametrize(
    "error", [ValueError("mine"), InvalidArgument("bad"), OncewardError(), HttpError(503)]
)
def test_undeclared_errors_are_not_retried(call: Callable[..., Any], error: Exception) -> None:
    """Only retryable errors and those that were named are retried."""
    flaky = Flaky(error)
    with pytest.raises(type(error)):
        call(flaky, ManualClock())
    assert flaky.calls == 1


@pytest.mark.parametrize(("status", "calls"), [(400, 1), (404, 1), (422, 1), (500, 2), (503, 2)])
def test_client_errors_are_never_repeated(
    call: Callable[..., Any], status: int, calls: int
) -> None:
    """An answer of 4xx stays the same however often one asks, even where its class was named."""
    flaky = Flaky(HttpError(status))
    if calls == 1:
        with pytest.raises(HttpError):
            call(flaky, ManualClock(), on=(HttpError,))
    else:
        assert call(flaky, ManualClock(), on=(HttpError,)) == "done"
    assert flaky.calls == calls


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("7", 7),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.25),
        ("soon", 0.25),
        ("0", 0.25),
    ],
)
def test_retry_after_is_honoured(call: Callable[..., Any], asked: str, waited: float) -> None:
    """In seconds or as a date; what says nothing changes nothing."""
    flaky, clock = Flaky(HttpError(503, asked)), ManualClock()
    assert call(flaky, clock, on=(HttpError,)) == "done"
    assert clock.monotonic() == pytest.approx(waited)


def test_an_error_may_say_itself_when_to_come_back(call: Callable[..., Any]) -> None:
    """An attribute of that name counts like the header."""
    error = StoreBusy()
    error.retry_after = 3  # type: ignore[attr-defined]  # as users' errors may have it
    clock = ManualClock()
    assert call(Flaky(error), clock) == "done"
    assert clock.monotonic() == 3


def test_a_pause_that_is_too_long_is_the_callers_to_make(call: Callable[..., Any]) -> None:
    """Coming back early would be rude, and waiting for an hour would hang."""
    flaky, clock = Flaky(HttpError(503, "3600")), ManualClock()
    with pytest.raises(HttpError):
        call(flaky, clock, on=(HttpError,))
    assert (flaky.calls, clock.monotonic()) == (1, 0)


def test_only_one_layer_retries(call: Callable[..., Any]) -> None:
    """Inside another retrying function each try is one call: 3 calls, not 9."""
    flaky, clock = Flaky(*[StoreBusy() for _ in range(20)]), ManualClock()
    inner = retrying(clock=clock, randomness=Always(1))(flaky)
    with pytest.raises(StoreBusy):
        call(inner, clock)
    assert flaky.calls == 3


def test_a_function_keeps_its_name() -> None:
    """The decorator does not hide what it decorates."""

    @retrying()
    def fetch() -> int:
        """Fetch."""
        return 1

    assert (fetch.__name__, fetch.__doc__, fetch()) == ("fetch", "Fetch.", 1)


def test_the_real_clock_does_not_hold_up_the_event_loop() -> None:
    """While one call waits, others go on."""
    flaky, ticks = Flaky(StoreBusy()), []

    @retrying(randomness=Always(0.2))
    async def slow() -> str:
        return flaky()

    async def both() -> str:
        waiting = asyncio.ensure_future(slow())
        while not waiting.done():
            ticks.append(1)
            await asyncio.sleep(0)
        return await waiting

    assert asyncio.run(both()) == "done"
    assert len(ticks) > 2

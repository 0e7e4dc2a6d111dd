"""Call retry: call a service with backoff, in one layer only."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar, cast

from onceward.retries.retry_schedule import CLIENT, Schedule
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness

F = TypeVar("F", bound=Callable[..., Any])
#: A service that asks for a longer pause than this is not waited for: the error is the caller's.
RETRY_AFTER_SECONDS_MAX: Final = 60.0
_CLIENT_ERRORS: Final = range(400, 500)
_is_inside: ContextVar[bool] = ContextVar("retrying", default=False)


def retrying(
    *,
    schedule: Schedule = CLIENT,
    on: tuple[type[Exception], ...] = (),
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> Callable[[F], F]:
    """Make a `def` or `async def` function try again when it fails in a way that may pass.

    That is an error whose `retryable` is true, or one of `on`; never one that carries a 4xx status.
    `Retry-After` is honoured. Inside another retrying function it tries once; the outer repeats.
    """
    policy = _Policy(schedule, on, clock or SystemClock(), randomness or SystemRandomness())

    def decorate(function: F) -> F:
        made = _async_one(function, policy) if _is_async(function) else _sync_one(function, policy)
        return cast("F", functools.wraps(function)(made))

    return decorate


class _Policy:
    """What is retried, and when."""

    def __init__(
        self,
        schedule: Schedule,
        on: tuple[type[Exception], ...],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self.clock = clock
        self._schedule, self._on, self._randomness = schedule, on, randomness

    def wait_after(self, attempt: int, error: Exception) -> float | None:
        """Return the seconds to wait before the next attempt, or None: the error is final."""
        if not self._may_pass(error):
            return None
        seconds = self._schedule.delay(attempt, self._randomness)
        asked = _retry_after(error, self.clock)
        if seconds is None or asked > RETRY_AFTER_SECONDS_MAX:
            return None
        return max(seconds, asked)

    def _may_pass(self, error: Exception) -> bool:
        if _status(error) in _CLIENT_ERRORS:
            return False
        return getattr(error, "retryable", False) is True or isinstance(error, self._on)


def _sync_one(function: Callable[..., Any], policy: _Policy) -> Callable[..., Any]:
    def call(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - whatever the function returns
        if _is_inside.get():
            return function(*args, **kwargs)
        attempt = 0
        while True:
            attempt += 1
            try:
                with _inside():
                    return function(*args, **kwargs)
            except Exception as exc:
                seconds = policy.wait_after(attempt, exc)
                if seconds is None:
                    raise
            policy.clock.sleep(seconds)

    return call


def _async_one(function: Callable[..., Awaitable[Any]], policy: _Policy) -> Callable[..., Any]:
    async def call(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - the same
        if _is_inside.get():
            return await function(*args, **kwargs)
        attempt = 0
        while True:
            attempt += 1
            try:
                with _inside():
                    return await function(*args, **kwargs)
            except Exception as exc:
                seconds = policy.wait_after(attempt, exc)
                if seconds is None:
                    raise
            await _pause(policy.clock, seconds)

    return call


async def _pause(clock: Clock, seconds: float) -> None:
    """Wait without holding up the event loop; a test's own clock moves instead of waiting."""
    if isinstance(clock, SystemClock):
        await asyncio.sleep(seconds)
    else:
        clock.sleep(seconds)


@contextmanager
def _inside() -> Iterator[None]:
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def _status(error: Exception) -> int | None:
    """Return the HTTP status that an error carries, as the usual clients do."""
    response = getattr(error, "response", None)
    places = (error, response)
    found = (getattr(place, name, None) for place in places for name in ("status_code", "status"))
    return next((each for each in found if isinstance(each, int)), None)


def _retry_after(error: Exception, clock: Clock) -> float:
    """Return the seconds that the service asked us to stay away, 0 if it did not."""
    asked = getattr(error, "retry_after", None)
    if asked is None:
        headers: Any = getattr(getattr(error, "response", None), "headers", None)
        asked = headers.get("Retry-After") if hasattr(headers, "get") else None
    if isinstance(asked, (int, float)):
        return max(0.0, float(asked))
    if not isinstance(asked, str):
        return 0.0
    if asked.strip().isascii() and asked.strip().isdigit():
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - clock.now()).total_seconds())
    except (TypeError, ValueError):  # Neither seconds nor a date with a zone: not for us.
        return 0.0

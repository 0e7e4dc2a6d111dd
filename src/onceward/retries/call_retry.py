"""Call retry: a decorator that retries calls to a service with backoff, in one layer only."""

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
#: If `Retry-After` is longer than this, the call is not retried and its error is raised.
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
    """Retry a `def` or `async def` function when it raises a transient error.

    Transient errors are those whose `retryable` is true and those in `on`, but never one with a 4xx
    status. `Retry-After` is honoured. Inside another retrying function it is called once: only the
    outer one retries.
    """
    policy = _Policy(schedule, on, clock or SystemClock(), randomness or SystemRandomness())

    def decorate(function: F) -> F:
        made = (
            _retrying_async(function, policy)
            if _is_async(function)
            else _retrying_sync(function, policy)
        )
        return cast("F", functools.wraps(function)(made))

    return decorate


class _Policy:
    """Which errors are retried, and after which delay."""

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
        """Return the seconds to wait before the next attempt; None if there is none."""
        if not self._is_retryable(error):
            return None
        seconds = self._schedule.delay(attempt, self._randomness)
        requested = _retry_after(error, self.clock)
        if seconds is None or requested > RETRY_AFTER_SECONDS_MAX:
            return None
        return max(seconds, requested)

    def _is_retryable(self, error: Exception) -> bool:
        if _status(error) in _CLIENT_ERRORS:
            return False
        return getattr(error, "retryable", False) is True or isinstance(error, self._on)


def _retrying_sync(function: Callable[..., Any], policy: _Policy) -> Callable[..., Any]:
    def call(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - whatever the function returns
        if _is_inside.get():
            return function(*args, **kwargs)
        attempt = 0
        while True:
            attempt += 1
            try:
                with _inside_retry():
                    return function(*args, **kwargs)
            except Exception as exc:
                seconds = policy.wait_after(attempt, exc)
                if seconds is None:
                    raise
            policy.clock.sleep(seconds)

    return call


def _retrying_async(function: Callable[..., Awaitable[Any]], policy: _Policy) -> Callable[..., Any]:
    async def call(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 - the same
        if _is_inside.get():
            return await function(*args, **kwargs)
        attempt = 0
        while True:
            attempt += 1
            try:
                with _inside_retry():
                    return await function(*args, **kwargs)
            except Exception as exc:
                seconds = policy.wait_after(attempt, exc)
                if seconds is None:
                    raise
            await _pause(policy.clock, seconds)

    return call


async def _pause(clock: Clock, seconds: float) -> None:
    """Wait without blocking the event loop; a manual clock is advanced instead."""
    if isinstance(clock, SystemClock):
        await asyncio.sleep(seconds)
    else:
        clock.sleep(seconds)


@contextmanager
def _inside_retry() -> Iterator[None]:
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
    """Return the HTTP status of an error, as the common HTTP clients store it."""
    response = getattr(error, "response", None)
    places = (error, response)
    found = (getattr(place, name, None) for place in places for name in ("status_code", "status"))
    return next((each for each in found if isinstance(each, int)), None)


def _retry_after(error: Exception, clock: Clock) -> float:
    """Return the seconds of the `Retry-After` of an error; 0 without one."""
    requested = getattr(error, "retry_after", None)
    if requested is None:
        headers: Any = getattr(getattr(error, "response", None), "headers", None)
        requested = headers.get("Retry-After") if hasattr(headers, "get") else None
    if isinstance(requested, (int, float)):
        return max(0.0, float(requested))
    if not isinstance(requested, str):
        return 0.0
    if requested.strip().isascii() and requested.strip().isdigit():
        return float(requested)
    try:
        return max(0.0, (parsedate_to_datetime(requested) - clock.now()).total_seconds())
    except (TypeError, ValueError):  # Neither seconds nor a date with a zone.
        return 0.0

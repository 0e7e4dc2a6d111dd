"""Block a call until the test releases it, and send requests to the server meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio.to_thread
import httpx
import pytest

T = TypeVar("T")
Asked = Callable[[], Coroutine[Any, Any, httpx.Response]]


def sit_on(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> tuple[threading.Event, threading.Event]:
    """Let a method wait before it works; return what tells that it began, and what lets it go."""
    begun, done = threading.Event(), threading.Event()
    works = getattr(owner, name)

    def sit(*arguments: Any, **named: Any) -> object:
        begun.set()
        assert done.wait(120)
        return works(*arguments, **named)

    monkeypatch.setattr(owner, name, sit)
    return begun, done


def run_within(seconds: float, work: Callable[[], Awaitable[T]]) -> T:
    async def within() -> T:
        async with asyncio.timeout(seconds):
            return await work()

    return asyncio.run(within())


async def asked_meanwhile(
    sat: tuple[threading.Event, threading.Event],
    *,
    slow: Asked,
    quick: Asked,
    soon_seconds: float,
    times: int = 1,
) -> int:
    """Return the status of what is asked while so many others sit; it must come soon."""
    begun, done = sat
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    async with asyncio.TaskGroup() as group:
        for _ in range(times):
            group.create_task(slow())
        await asyncio.to_thread(begun.wait)
        try:
            async with asyncio.timeout(soon_seconds):
                return (await quick()).status_code
        finally:
            done.set()

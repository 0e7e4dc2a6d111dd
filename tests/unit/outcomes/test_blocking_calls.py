"""Threads that a cancelled task waits for: their end is known, then the cancellation goes on."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from onceward.outcomes.blocking_calls import DeferredCancellation, run_to_completion

WHO: ContextVar[str] = ContextVar("who")


async def cancelled_while(call: threading.Event, times: int, work: asyncio.Task[None]) -> None:
    """Cancel a task some times while its thread waits, then let the thread go on."""
    for _ in range(times):
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.sleep(0)
    call.set()
    await asyncio.gather(work, return_exceptions=True)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_what_a_thread_did_is_known_however_often_the_task_is_cancelled(times: int) -> None:
    """The result comes first; then the task ends, once, as asyncio asks for it."""
    seen: list[object] = []

    async def work() -> None:
        cancellation = DeferredCancellation()
        WHO.set("a task")
        seen.append(await cancellation.run(lambda: (go_on.wait(60), WHO.get())))
        seen.append(cancellation.is_requested)
        try:
            cancellation.raise_if_requested()
        finally:
            cancellation.raise_if_requested()
            seen.append("once")

    go_on = threading.Event()

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(work())
        await cancelled_while(go_on, times, task)
        return task

    assert asyncio.run(main()).cancelled() == bool(times)
    assert seen == [(True, "a task"), bool(times), "once"]


def test_a_cancellation_outweighs_a_concurrent_error() -> None:
    """The error is dropped."""

    def fail() -> None:
        go_on.wait(60)
        raise ZeroDivisionError

    go_on = threading.Event()

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(run_to_completion(fail))
        await cancelled_while(go_on, 1, task)
        return task

    assert asyncio.run(main()).cancelled()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_to_completion(fail, kind="ending"))

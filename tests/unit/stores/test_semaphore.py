"""The semaphore of transactions: threads and tasks in one queue, and no place is ever lost."""

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from onceward.stores.semaphore import FairSemaphore


def free(semaphore: FairSemaphore) -> int:
    """Return how many places can be taken at once."""
    taken = 0
    while semaphore.acquire(0):
        taken += 1
    for _ in range(taken):
        semaphore.release()
    return taken


def test_places_are_granted_in_the_order_of_requests() -> None:
    """Each release serves the oldest request that still waits."""
    semaphore = FairSemaphore(1)
    first, second, third = (semaphore._request() for _ in range(3))
    assert [each.done() for each in (first, second, third)] == [True, False, False]
    semaphore.release()
    assert [each.done() for each in (second, third)] == [True, False]


def test_a_request_that_is_withdrawn_is_skipped() -> None:
    """Before or after it was granted: the next request gets the place."""
    semaphore = FairSemaphore(1)
    requests: list[Future[None]] = [semaphore._request() for _ in range(5)]
    semaphore._withdraw(requests[1])
    semaphore.release()
    assert requests[2].done()
    semaphore.release()
    semaphore._withdraw(requests[3])
    assert requests[4].done()
    semaphore.release()
    assert free(semaphore) == 1


def test_a_request_that_was_cancelled_by_others_is_skipped() -> None:
    """As asyncio cancels it together with the task; the place goes to the next one."""
    semaphore = FairSemaphore(1)
    _, second, third = (semaphore._request() for _ in range(3))
    second.cancel()
    semaphore.release()
    assert third.done()


def test_a_thread_waits_no_longer_than_its_timeout() -> None:
    """It gets no place, and leaves no request of its own in the queue."""
    semaphore = FairSemaphore(1)
    assert semaphore.acquire(0)
    assert not semaphore.acquire(0.01)
    assert not semaphore._requests
    semaphore.release()
    assert free(semaphore) == 1


def test_threads_and_tasks_wait_in_one_queue() -> None:
    """A task that waits gets its place from a thread, and a thread from a task."""
    semaphore = FairSemaphore(1)
    order: list[str] = []
    assert semaphore.acquire(0)

    def in_thread() -> None:
        assert semaphore.acquire(60)
        order.append("thread")
        semaphore.release()

    async def in_task() -> None:
        await semaphore.acquire_async()
        order.append("task")
        semaphore.release()

    async def main() -> None:
        task = asyncio.create_task(in_task())
        await asyncio.sleep(0)
        thread = threading.Thread(target=in_thread)
        thread.start()
        while len(semaphore._requests) < 2:  # noqa: ASYNC110 - a queue has no event for joins
            await asyncio.sleep(0)
        await asyncio.to_thread(semaphore.release)
        await task
        await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert order == ["task", "thread"]
    assert free(semaphore) == 1


@pytest.mark.parametrize("is_granted", [False, True])
def test_a_cancelled_task_loses_no_place(*, is_granted: bool) -> None:
    """Cancelled while it waits, or in the moment in which its place is granted."""
    semaphore = FairSemaphore(1)
    assert semaphore.acquire(0)

    async def main() -> None:
        task = asyncio.create_task(semaphore.acquire_async())
        await asyncio.sleep(0)
        if is_granted:
            semaphore.release()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not is_granted:
            semaphore.release()

    asyncio.run(main())
    assert free(semaphore) == 1


def test_a_task_gives_up_when_no_place_is_released() -> None:
    """Nothing moves, so it may be the one that the others wait for; it leaves the queue."""
    semaphore = FairSemaphore(1)
    assert semaphore.acquire(0)
    assert not asyncio.run(semaphore.acquire_async(0.01))
    assert not semaphore._requests
    semaphore.release()
    assert free(semaphore) == 1


def test_a_task_waits_on_while_places_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often its time is over, as long as tasks before it get their places meanwhile."""
    semaphore = FairSemaphore(1)
    waits: list[int] = []
    wait = asyncio.wait

    async def released(futures: Any, **options: Any) -> Any:
        waits.append(len(semaphore._requests))
        semaphore.release()
        return await wait(futures, **options)

    assert semaphore.acquire(0)
    before = [semaphore._request() for _ in range(3)]
    monkeypatch.setattr(asyncio, "wait", released)
    assert asyncio.run(semaphore.acquire_async(0.01))
    assert waits == [4, 3, 2, 1]
    assert all(each.done() for each in before)


def test_a_task_of_a_closed_loop_loses_no_place() -> None:
    """Its coroutine is closed while it waits; the place goes to others."""
    semaphore = FairSemaphore(1)
    assert semaphore.acquire(0)

    async def main() -> None:
        waiting = semaphore.acquire_async()
        waiting.send(None)
        waiting.close()

    asyncio.run(main())
    assert not semaphore._requests
    semaphore.release()
    assert free(semaphore) == 1


def test_a_forked_child_gives_no_place_of_its_parent_back() -> None:
    """The mutex may have been locked at the fork: the child does not touch it."""
    semaphore = FairSemaphore(1)
    assert semaphore.acquire(0)
    semaphore._mutex.acquire()
    child = os.fork()
    if not child:  # pragma: no cover - not in this process
        semaphore.release()
        os._exit(0 if semaphore.is_of_the_parent else 1)
    semaphore._mutex.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""Hundreds of `async def` calls with `tx` at once: the event loop runs on, and every call ends."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from onceward.client import Onceward
from onceward.stores import Transaction
from tests.support.async_calls import (
    CALLBACK_SECONDS_MAX,
    CALLS,
    MORE_CALLS,
    TICKS,
    effects,
    insert,
    ow,
    places,
    queued,
    timed_callbacks,
    until,
    with_tx,
)

__all__ = ["ow"]

# --- hundreds at once -----------------------------------------------------------------------------


def test_h52_hundreds_of_calls_with_nested_calls_all_finish(
    ow: Onceward,
) -> None:
    """Each runs once, with a nested call of its own claim and one that joins; no long callback."""
    noted: list[int] = []

    @ow.once()
    async def note(number: int) -> int:
        await asyncio.sleep(0)
        noted.append(number)
        return number

    @with_tx(ow)
    async def store(number: int, tx: Transaction) -> int:
        await asyncio.sleep(0)
        insert(tx, number)
        return number

    @with_tx(ow)
    async def outer(number: int, tx: Transaction) -> int:
        assert tx is not None
        return await note(number) + await store(number)

    async def main() -> list[int]:
        return list(await asyncio.gather(*(outer(number) for number in range(CALLS))))

    with timed_callbacks() as longest:
        assert asyncio.run(main()) == [2 * number for number in range(CALLS)]
        assert asyncio.run(main()) == [2 * number for number in range(CALLS)]
    assert sorted(noted) == effects(ow) == list(range(CALLS))
    assert longest() < CALLBACK_SECONDS_MAX


def test_h52_hundreds_of_calls_that_open_a_transaction_inside_all_finish(ow: Onceward) -> None:
    """The outer calls have claims of their own, the inner ones wait for places."""

    @with_tx(ow)
    async def inner(number: int, tx: Transaction) -> int:
        insert(tx, number)
        return number

    @ow.once()
    async def outer(number: int) -> int:
        return await inner(number)

    async def main() -> list[int]:
        return list(await asyncio.gather(*(outer(number) for number in range(CALLS))))

    assert asyncio.run(main()) == effects(ow) == list(range(CALLS))


# --- waiting for a place --------------------------------------------------------------------------


def test_h52_the_loop_runs_while_calls_wait_for_a_place(ow: Onceward) -> None:
    """All places are taken and more calls wait: other tasks run, and only then the holders end."""
    entered: list[int] = []

    @with_tx(ow)
    async def hold(number: int, tx: Transaction) -> None:
        insert(tx, number)
        entered.append(number)
        await release.wait()

    release = asyncio.Event()

    async def main() -> None:
        calls = [asyncio.create_task(hold(number)) for number in range(MORE_CALLS)]
        await until(lambda: len(entered) == places(ow), calls)
        await until(lambda: queued(ow) == MORE_CALLS - places(ow), calls)
        for _ in range(TICKS):
            await asyncio.sleep(0)
        assert len(entered) == places(ow)
        release.set()
        await asyncio.gather(*calls)

    asyncio.run(main())
    assert effects(ow) == list(range(MORE_CALLS))


def test_a_cancelled_call_that_waits_for_a_place_leaves_the_queue(ow: Onceward) -> None:
    """Waiting calls end at once when cancelled; nothing of them stays, and no place is lost."""
    entered: list[int] = []

    @with_tx(ow)
    async def hold(number: int, tx: Transaction) -> None:
        insert(tx, number)
        entered.append(number)
        await release.wait()

    release = asyncio.Event()

    async def main() -> None:
        holders = [asyncio.create_task(hold(number)) for number in range(places(ow))]
        await until(lambda: len(entered) == places(ow), holders)
        waiting = [asyncio.create_task(hold(100 + number)) for number in range(MORE_CALLS)]
        await until(lambda: queued(ow) == MORE_CALLS, [*holders, *waiting])
        for task in waiting:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        assert queued(ow) == 0
        release.set()
        await asyncio.gather(*holders, *(hold(200 + number) for number in range(MORE_CALLS)))

    asyncio.run(main())
    new = [200 + number for number in range(MORE_CALLS)]
    assert effects(ow) == [*range(places(ow)), *new]


def test_a_cancelled_call_gives_its_place_back(ow: Onceward) -> None:
    """Calls that are cancelled in the middle are rolled back, and others get their places."""
    entered: list[int] = []

    @with_tx(ow)
    async def hold(number: int, tx: Transaction) -> None:
        insert(tx, number)
        entered.append(number)
        await asyncio.Event().wait()

    @with_tx(ow)
    async def store(number: int, tx: Transaction) -> None:
        insert(tx, number)

    async def main() -> None:
        holders = [asyncio.create_task(hold(number)) for number in range(places(ow))]
        await until(lambda: len(entered) == places(ow), holders)
        others = [asyncio.create_task(store(number)) for number in range(MORE_CALLS)]
        for task in holders:
            task.cancel()
        ended = await asyncio.gather(*holders, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        await asyncio.gather(*others)

    asyncio.run(main())
    assert effects(ow) == list(range(MORE_CALLS))


def test_calls_on_several_loops_share_the_places(ow: Onceward) -> None:
    """Three threads, each with an event loop: every call of each of them ends."""

    @with_tx(ow)
    async def store(number: int, tx: Transaction) -> None:
        insert(tx, number)

    async def gathered(first: int) -> None:
        await asyncio.gather(*(store(first + number) for number in range(MORE_CALLS)))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda first: asyncio.run(gathered(first)), (0, 1_000, 2_000)))
    assert len(effects(ow)) == 3 * MORE_CALLS

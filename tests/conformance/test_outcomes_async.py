"""@once on `async def`: the same behaviour, awaited, on SQLite and PostgreSQL."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import (
    KeyAmbiguous,
    RecordedFailure,
    Retryable,
    StoreUnavailable,
    WriterHeld,
)
from onceward.outcomes import OutcomeState
from onceward.outcomes.claims import Claims
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import Shop, only, shop

__all__ = ["shop"]


@pytest.fixture
def ticking(ow_url: str) -> Iterator[Onceward]:
    """A store whose time runs by itself: a manual clock would be moved by those who wait."""
    with open_handle(ow_url) as handle:
        yield handle


@pytest.mark.parametrize("style", ["def", "async def"])
def test_async_functions_behave_the_same(ow: Onceward, shop: Shop, style: str) -> None:
    """Run once, replay, record failures, free on Retryable, refuse reuse."""
    calls: list[str] = []

    def work(order: str) -> object:
        calls.append(order)
        if order == "bad":
            raise ValueError(order)
        if order == "later":
            raise Retryable
        return shop.charge(order)

    if style == "def":
        run = ow.once()(work)
    else:

        @ow.once()
        async def awaited(order: str) -> object:
            await asyncio.sleep(0)
            return work(order)

        def run(order: str) -> object:
            return asyncio.run(awaited(order))

    assert run("a") == run("a")
    for error in (ValueError, RecordedFailure):
        with pytest.raises(error):
            run("bad")
    for _ in range(2):
        with pytest.raises(Retryable):
            run("later")
    assert calls == ["a", "bad", "later", "later"]


def test_concurrent_async_callers_wait_without_blocking_the_loop(
    ticking: Onceward, shop: Shop
) -> None:
    """Eight tasks on one loop want the same work: one runs, seven get its result."""

    @ticking.once(wait=60)
    async def charge(order: int) -> object:
        await asyncio.sleep(0)
        return shop.charge(order)

    async def main() -> list[object]:
        return list(await asyncio.gather(*(charge(1) for _ in range(8))))

    results = asyncio.run(main())
    assert all(each == results[0] for each in results)
    assert shop.charged == [1]


def test_inside_a_writing_transaction_sqlite_rejects_it_at_once(ow: Onceward, shop: Shop) -> None:
    """A commit in another thread would wait for this one for ever."""

    @ow.once()
    async def charge(order: int) -> object:
        return shop.charge(order)

    async def main() -> None:
        with ow.transaction() as tx:
            tx.execute("create table effects (id bigint primary key)")
            if ow.store.engine == "sqlite":
                with pytest.raises(WriterHeld):
                    await asyncio.wait_for(charge(1), 20)
            else:
                await charge(1)

    asyncio.run(main())
    assert shop.charged == ([] if ow.store.engine == "sqlite" else [1])


def test_a_cancelled_task_leaves_it_open(ow: Onceward, ow_time: MovingTime, shop: Shop) -> None:
    """How far it came is unknown, so it is ambiguous when its lease expires."""
    begun = asyncio.Event()

    @ow.once()
    async def charge(order: int) -> None:
        shop.charge(order)
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(charge(1))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert only(ow) is OutcomeState.RUNNING
    ow_time.advance(seconds=61)
    with pytest.raises(KeyAmbiguous):
        asyncio.run(charge(1))
    assert shop.charged == [1]


def test_a_task_cancelled_while_it_claims_frees_the_key(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function has not begun, so nothing is ambiguous, and the next caller runs it."""
    asking, go_on = threading.Event(), threading.Event()
    write_query = ow.store.write_query

    def slow(name: str, /, **params: Any) -> Any:
        asking.set()
        assert go_on.wait(60)
        return write_query(name, **params)

    @ow.once()
    async def charge(order: int) -> object:
        return shop.charge(order)

    async def main() -> None:
        task = asyncio.create_task(charge(1))
        assert await asyncio.to_thread(asking.wait, 20)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(ow.store, "write_query", slow)
    asyncio.run(main())
    assert shop.charged == []
    assert only(ow) is OutcomeState.FREE
    assert asyncio.run(charge(1)) == {"order": 1, "amount": 10, "number": 1}


def test_a_loop_that_ends_while_it_claims_frees_the_key(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then every task is cancelled, whatever it waits for; the claim is undone all the same."""
    asking, go_on = threading.Event(), threading.Event()
    grant = Claims.grant

    def slow(*args: Any) -> Any:
        asking.set()
        assert go_on.wait(60)
        return grant(*args)

    @ow.once()
    async def charge(order: int) -> object:
        return shop.charge(order)

    async def main() -> asyncio.Task[object]:
        task = asyncio.create_task(charge(1))
        await asyncio.to_thread(asking.wait)
        # When the loop has cancelled everything, and not before.
        task.get_loop().call_soon(task.get_loop().call_soon, go_on.set)
        return task

    monkeypatch.setattr(Claims, "grant", slow)
    assert asyncio.run(main()).cancelled()
    assert shop.charged == []
    assert only(ow) is OutcomeState.FREE
    assert asyncio.run(charge(1)) == {"order": 1, "amount": 10, "number": 1}


def test_a_task_cancelled_while_the_store_is_down_is_cancelled(
    ow: Onceward, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the background work is not raised in any caller."""

    @ow.once()
    async def charge(order: int) -> object:
        return shop.charge(order)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(charge(1))

        def down(*_: Any) -> None:
            asyncio.run_coroutine_threadsafe(cancel(), loop).result()
            raise StoreUnavailable

        async def cancel() -> None:
            task.cancel()

        monkeypatch.setattr(Claims, "grant", down)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert shop.charged == []

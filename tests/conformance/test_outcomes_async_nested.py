"""Nested `async def` calls: a call never waits for tasks or threads that wait for it."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import StoreBusy, StoreUnavailable, WriterHeld
from onceward.outcomes import step_drivers
from onceward.outcomes.blocking_calls import THREADS_MAX
from onceward.outcomes.claims import Claims
from onceward.stores import Transaction
from onceward.stores.postgres import store as postgres_store
from onceward.stores.sqlite.write_lock import WriteLock
from tests.support.async_calls import (
    HANGING_SECONDS,
    MORE_CALLS,
    effects,
    insert,
    ow,
    places,
    until,
    with_tx,
)

__all__ = ["ow"]

FEW_CALLS = 8


def test_calls_that_update_one_row_do_not_stop_the_loop(ow: Onceward) -> None:
    """A statement on the loop may wait for a commit, which needs the loop no more by then."""

    @with_tx(ow)
    async def add(number: int, tx: Transaction) -> None:
        assert number >= 0
        if ow.store.engine == "postgres":
            # Where the commit does need the loop, fail rather than hang.
            tx.execute("set local lock_timeout = '5s'")
        tx.execute("update total set amount = amount + 1 where id = 1")

    async def main() -> None:
        await asyncio.gather(*(add(number) for number in range(FEW_CALLS)))

    asyncio.run(main())
    assert ow.store.select("select amount from total") == [(FEW_CALLS,)]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_write_on_the_loop_waits_for_a_commit_in_a_thread(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that commits needs the loop no more, so the write is not refused with WriterHeld."""
    committing, write = threading.Event(), threading.Event()
    finish_in, take = Claims.finish_in, WriteLock.acquire

    def paused(*args: Any, **options: Any) -> None:
        committing.set()
        assert write.wait(HANGING_SECONDS)
        finish_in(*args, **options)

    def noted(turns: WriteLock, is_inside: Callable[[], bool]) -> None:
        if committing.is_set():
            write.set()
        take(turns, is_inside)

    @with_tx(ow)
    async def store(number: int, tx: Transaction) -> None:
        insert(tx, number)

    async def main() -> None:
        call = asyncio.create_task(store(1))
        await asyncio.to_thread(committing.wait)
        with ow.transaction() as tx:
            insert(tx, 2)
        await call

    monkeypatch.setattr(Claims, "finish_in", paused)
    monkeypatch.setattr(WriteLock, "acquire", noted)
    asyncio.run(main())
    assert effects(ow) == [1, 2]


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_nested_calls_do_not_wait_for_the_pool_of_their_transaction(
    ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every connection of that pool taken, a nested call claims and finishes all the same."""
    monkeypatch.setattr(postgres_store, "TRANSACTIONS_MAX", 1)
    monkeypatch.setattr(postgres_store, "CONNECTIONS_SPARE", 1)
    with open_handle(ow_url) as ow:
        ow.store._connect_seconds = 20.0  # type: ignore[attr-defined]  # PostgreSQL's

        @ow.once()
        async def note(number: int) -> int:
            return number

        @with_tx(ow)
        async def outer(number: int, tx: Transaction) -> int:
            assert tx.execute("select 1") == [(1,)]
            taken, leave = threading.Event(), threading.Event()

            def read() -> None:
                with ow.store.snapshot():
                    ow.outcomes.list()
                    taken.set()
                    leave.wait()

            reader = threading.Thread(target=read)
            reader.start()
            try:
                await asyncio.to_thread(taken.wait)
                return await note(number)
            finally:
                leave.set()
                reader.join()

        assert asyncio.run(outer(1)) == 1


def test_calls_that_need_a_second_slot_are_rejected_and_do_not_hang(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places are held by calls that wait for tasks without a place: some get StoreBusy."""
    entered: list[int] = []
    failed: list[int] = []

    @with_tx(ow)
    async def inner(number: int, tx: Transaction) -> int:
        insert(tx, number)
        return number

    @with_tx(ow)
    async def outer(number: int, tx: Transaction) -> int:
        assert tx is not None
        entered.append(number)
        # A machine that stands still may refuse a connection: the others must not wait for it.
        await until(lambda: len(entered) + len(failed) >= places(ow), [])
        return await asyncio.create_task(inner(number), context=Context())

    async def tried(number: int) -> int:
        try:
            return await outer(number)
        except (StoreBusy, StoreUnavailable):
            failed.append(number)
            raise

    async def main() -> list[int | BaseException]:
        calls = (tried(number) for number in range(places(ow)))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    monkeypatch.setattr(step_drivers, "SLOT_WAIT_SECONDS_MAX", 0.5)
    ended = asyncio.run(main())
    assert failed
    assert len([each for each in ended if isinstance(each, BaseException)]) == len(failed)
    assert len(effects(ow)) == len(ended) - len(failed)


def test_a_nested_call_after_the_first_write_never_waits(ow: Onceward) -> None:
    """SQLite has one writer, so the claim is refused at once; PostgreSQL commits it apart."""

    @ow.once()
    async def note(number: int) -> int:
        return number

    @with_tx(ow)
    async def outer(number: int, tx: Transaction) -> int:
        insert(tx, number)
        return await note(number)

    async def main() -> list[int | BaseException]:
        calls = (outer(number) for number in range(MORE_CALLS))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    ended = asyncio.run(main())
    if ow.store.engine == "sqlite":
        assert {type(each) for each in ended} == {WriterHeld}
        assert effects(ow) == []
    else:
        assert ended == effects(ow) == list(range(MORE_CALLS))


def test_a_writing_call_ends_while_all_other_claims_wait_for_it(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that wait for the writer are not those that the writer needs to go on."""
    asked = threading.Semaphore(0)
    grant = Claims.grant

    def counted(*args: Any) -> Any:
        asked.release()
        return grant(*args)

    @ow.once()
    async def note(number: int) -> int:
        return number

    @ow.once()
    async def write(number: int) -> int:
        with ow.transaction() as joined:
            insert(joined, number)
        monkeypatch.setattr(Claims, "grant", counted)
        # Tasks in this context would be part of the transaction.
        others.extend(
            asyncio.create_task(note(each), context=Context()) for each in range(MORE_CALLS)
        )
        for _ in range(THREADS_MAX["waiting"]):
            assert await asyncio.to_thread(asked.acquire, timeout=HANGING_SECONDS)
        return number

    others: list[asyncio.Task[int]] = []

    @with_tx(ow)
    async def outer(number: int, tx: Transaction) -> int:
        opened.append(tx)
        return await write(number)

    opened: list[Any] = []

    async def main() -> list[int]:
        first = asyncio.create_task(outer(1))
        if not (await asyncio.wait([first], timeout=HANGING_SECONDS))[0]:
            opened[0].roll_back()  # Lets all threads go on, so that the test ends.
            pytest.fail("the writer waits for a thread")
        return [await first, *await asyncio.gather(*others)]

    assert asyncio.run(main()) == [1, *range(MORE_CALLS)]
    assert effects(ow) == [1]

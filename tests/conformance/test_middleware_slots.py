"""One writer on SQLite: who waits for a request's transaction, and who would wait for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import WriterHeld
from onceward.outcomes import Fresh
from onceward.outcomes.http_request import AsgiScope
from onceward.stores import Transaction
from tests.support.middleware_calls import Answer, Shop, ask

pytestmark = pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def claim(shop: Shop, key: str = "k") -> bool:
    """Ask for a key, which needs the writer."""
    return isinstance(shop.ow.outcomes.claim("s", key, fingerprint="", owner="w"), Fresh)


def insert(scope: AsgiScope) -> None:
    with scope["onceward"].transaction() as tx:
        tx.execute("insert into effects values ('in a thread')")


async def insert_in_loop(scope: AsgiScope) -> None:
    async with scope["onceward"].transaction() as tx:
        tx.execute("insert into effects values ('on the loop')")


def during(
    shop: Shop, write: Callable[[AsgiScope], Awaitable[None]], then: Callable[[], Awaitable[None]]
) -> None:
    """Let a handler write in its transaction, and something happen before it is committed."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        await write(scope)
        await then()
        return 200, [], b""

    async def scenario() -> None:
        assert (await ask(shop.once(handler))).status_code == 200
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(scenario())
    assert shop.effects() == 1


# --- who may wait ---------------------------------------------------------------------------------


def test_a_pool_thread_that_wrote_for_a_request_is_free_for_others(shop: Shop) -> None:
    """It has left its block: its next work, for another caller, waits for the commit."""
    with ThreadPoolExecutor(1) as pool:

        async def write(scope: AsgiScope) -> None:
            await asyncio.get_running_loop().run_in_executor(pool, insert, scope)

        async def then() -> None:
            waiting.append(pool.submit(Context().run, claim, shop))

        waiting: list[Any] = []
        during(shop, write, then)
        assert waiting[0].result()


def test_a_thread_that_ran_one_statement_is_free_for_others(shop: Shop) -> None:
    """The block is the task's: a thread that wrote in it once is not inside any more."""
    with ThreadPoolExecutor(1) as pool:

        async def write(scope: AsgiScope) -> None:
            async with scope["onceward"].transaction() as tx:
                sql = "insert into effects values ('one statement')"
                await asyncio.get_running_loop().run_in_executor(pool, tx.execute, sql)
                waiting.append(pool.submit(Context().run, claim, shop))

        async def then() -> None:
            pass

        waiting: list[Any] = []
        during(shop, write, then)
        assert waiting[0].result()


# --- who must not ---------------------------------------------------------------------------------


async def in_thread(scope: AsgiScope) -> None:
    await asyncio.to_thread(insert, scope)


@pytest.mark.parametrize("write", [in_thread, insert_in_loop])
def test_the_event_loop_is_refused_at_once(
    shop: Shop, write: Callable[[AsgiScope], Awaitable[None]]
) -> None:
    """The request ends on the loop, so a call that would block the loop is refused."""

    async def then() -> None:
        with pytest.raises(WriterHeld):
            Context().run(claim, shop)

    during(shop, write, then)


@pytest.mark.parametrize("write", [in_thread, insert_in_loop])
def test_the_request_itself_is_refused_at_once(
    shop: Shop, write: Callable[[AsgiScope], Awaitable[None]]
) -> None:
    """After its block, in any thread and task: the commit comes when the request has ended."""

    def transaction() -> None:
        with shop.ow.transaction() as tx:
            tx.execute("insert into effects values ('never')")

    async def then() -> None:
        for work in (lambda: claim(shop), transaction):
            with pytest.raises(WriterHeld):
                await asyncio.to_thread(work)
            with pytest.raises(WriterHeld):
                await asyncio.create_task(asyncio.to_thread(work))

    during(shop, write, then)


def test_a_thread_inside_a_transaction_is_refused_at_once(shop: Shop) -> None:
    """In whatever context it asks; another thread waits for the end, and is granted it."""
    with ThreadPoolExecutor(1) as pool:
        with shop.ow.transaction() as tx:
            tx.execute("insert into effects values ('x')")
            with pytest.raises(WriterHeld):
                claim(shop)
            with pytest.raises(WriterHeld):
                Context().run(claim, shop)
            waiting = pool.submit(claim, shop)
        assert waiting.result()


def test_another_task_on_the_same_loop_is_refused_at_once(shop: Shop) -> None:
    """Two tasks, one thread: the second one cannot wait for the first."""

    async def scenario() -> None:
        begun, release = asyncio.Event(), asyncio.Event()

        async def first() -> None:
            with shop.ow.transaction() as tx:
                tx.execute("insert into effects values ('x')")
                begun.set()
                await release.wait()

        async def second() -> None:
            await begun.wait()
            with pytest.raises(WriterHeld):
                claim(shop)
            release.set()

        task = asyncio.create_task(second(), context=Context())
        await asyncio.gather(first(), task)
        assert await asyncio.to_thread(claim, shop)

    asyncio.run(scenario())


def test_an_operation_inside_an_operation_is_refused_at_once(shop: Shop) -> None:
    """The thread that commits for others is the writer, in any group of operations."""

    def nested(_tx: Transaction) -> None:
        with pytest.raises(WriterHeld):
            claim(shop)

    for _ in range(2):
        shop.ow.store.write(nested)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(shop.ow.store.write, nested).result()
    assert claim(shop)

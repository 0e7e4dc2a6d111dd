"""Threads of the application: none waits for one that waits for it, none is left with a lock."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import StoreError
from onceward.outcomes import IdempotencyMiddleware, OutcomeState
from onceward.outcomes.http_request import AsgiScope
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.postgres.transaction import PostgresTransaction
from tests.support.middleware_calls import Answer, Shop, answering, ask


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def test_claims_leave_the_loops_own_threads_to_the_application(shop: Shop) -> None:
    """Requests that wait for a transaction's end do not take the threads which that end needs."""

    async def scenario() -> list[int]:
        wrote, asked = asyncio.Event(), threading.Event()

        async def handler(scope: AsgiScope, body: bytes) -> Answer:
            async with scope["onceward"].transaction() as tx:
                tx.execute("insert into effects values (?)", [body.decode()])
                wrote.set()
                if body == b"first":
                    await asyncio.to_thread(asked.wait, 60)
                    await asyncio.gather(*[asyncio.to_thread(int) for _ in range(40)])
                return 201, [], b""

        app = shop.once(handler)
        claim: Callable[..., Any] = app._outcomes.claim

        def noted(*args: Any, **options: Any) -> Any:
            if wrote.is_set():
                asked.set()
            return claim(*args, **options)

        app._outcomes.claim = noted  # type: ignore[method-assign]
        first = asyncio.create_task(ask(app, key="first", body=b"first"))
        await wrote.wait()
        others = [asyncio.create_task(ask(app, key=f"k{number}")) for number in range(40)]
        return [answer.status_code for answer in await asyncio.gather(first, *others)]

    assert set(asyncio.run(scenario())) == {201}
    assert shop.effects() == 41


@pytest.fixture
def long_statement(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A statement that goes on until its transaction is over: interrupted, or no longer needed."""
    if not isinstance(shop.ow.store, PostgresStore):
        numbers = "with recursive n(x) as (select 1 union all select x + 1 from n)"
        yield f"{numbers} select count(x) from n"
        return
    roll_back = PostgresTransaction.roll_back
    with shop.ow.store.connector()() as holder:
        holder.execute("select pg_advisory_lock(1)")

        def rolled_back(transaction: PostgresTransaction) -> None:
            if transaction._open_in_pid is None:  # It has ended, for every thread that knows of it.
                holder.execute("select pg_advisory_unlock_all()")
            roll_back(transaction)

        monkeypatch.setattr(PostgresTransaction, "roll_back", rolled_back)
        yield "select pg_advisory_xact_lock(1)"


def test_an_abandoned_thread_does_not_keep_the_transaction(shop: Shop, long_statement: str) -> None:
    """A timeout gives up a handler inside a statement: it is undone all the same."""

    async def scenario() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def work(scope: AsgiScope) -> None:
            with scope["onceward"].transaction() as tx:
                tx.execute("insert into effects values ('undone')")
                loop.call_soon_threadsafe(begun.set)
                tx.execute(long_statement)
                tx.execute("insert into effects values ('too late')")

        async def handler(scope: AsgiScope, _body: bytes) -> Answer:
            unawaited.append(loop.run_in_executor(None, work, scope))
            await begun.wait()
            return 504, [], b"it takes too long"

        unawaited: list[asyncio.Future[None]] = []
        assert (await ask(shop.once(handler))).status_code == 504
        (left,) = shop.ow.outcomes.list()
        assert left.state is OutcomeState.FREE
        assert (await ask(shop.once(shop.charge_in_tx))).status_code == 201
        with pytest.raises(StoreError):
            await unawaited[0]

    asyncio.run(scenario())
    assert shop.effects() == 1


def test_nothing_is_opened_for_a_request_that_is_over(shop: Shop) -> None:
    """A block that waited for its turn until the answer was given is refused, and holds nothing."""

    async def scenario() -> None:
        late: list[asyncio.Task[object]] = []
        holding, release = asyncio.Event(), asyncio.Event()

        async def holder(scope: AsgiScope, _body: bytes) -> Answer:
            async with scope["onceward"].transaction():
                holding.set()
                await release.wait()
            return 201, [], b""

        async def handler(scope: AsgiScope, _body: bytes) -> Answer:
            late.append(asyncio.create_task(scope["onceward"].transaction().__aenter__()))
            await asyncio.sleep(0)
            return 201, [], b""

        app = IdempotencyMiddleware(answering(handler), store=shop.ow, on_crash="rerun")
        first = asyncio.create_task(ask(shop.once(holder), key="first"))
        await holding.wait()
        await ask(app, key="second")
        release.set()
        await first
        await asyncio.gather(*late, return_exceptions=True)
        assert (await ask(shop.once(shop.charge_in_tx), key="third")).status_code == 201

    asyncio.run(scenario())

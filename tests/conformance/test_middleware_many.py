"""More requests than places for transactions: the event loop runs on, and every request ends."""

import asyncio

import pytest

from onceward.client import Onceward
from onceward.errors import StoreBusy
from onceward.outcomes.http_request import AsgiScope
from onceward.stores.postgres.store import TRANSACTIONS_MAX
from tests.support.middleware_calls import Answer, Shop, ask


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def places(shop: Shop) -> int:
    """Return how many requests have a transaction open at a time."""
    return 1 if shop.ow.store.engine == "sqlite" else TRANSACTIONS_MAX


def test_h52_requests_that_wait_for_a_transaction_block_no_other_request(shop: Shop) -> None:
    """With all places taken the holders go on, in a second block too, and the others follow."""
    entered: list[bytes] = []

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        async with scope["onceward"].transaction() as tx:
            tx.execute("insert into effects values (?)", [body.decode()])
            entered.append(body)
            await release.wait()
        async with scope["onceward"].transaction() as tx:
            tx.execute("insert into effects values (?)", [body.decode()])
        return 201, [], b""

    release = asyncio.Event()
    requests = 2 * places(shop) + 8

    async def scenario() -> None:
        app = shop.once(handler)
        asked = [
            asyncio.create_task(ask(app, key=f"k{number}", body=str(number).encode()))
            for number in range(requests)
        ]
        while len(entered) < places(shop):
            assert not any(task.done() for task in asked)
            await asyncio.sleep(0)
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert len(entered) == places(shop)
        release.set()
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {201}

    asyncio.run(scenario())
    assert shop.effects() == 2 * requests


def test_a_handler_on_the_loop_is_rejected_at_once_when_no_slot_is_free(shop: Shop) -> None:
    """With `with` it would block the loop, which the requests that have places need to end."""
    entered: list[bytes] = []

    async def holder(scope: AsgiScope, body: bytes) -> Answer:
        async with scope["onceward"].transaction():
            entered.append(body)
            await release.wait()
        return 201, [], b""

    async def blocking(scope: AsgiScope, _body: bytes) -> Answer:
        with pytest.raises(StoreBusy) as refused, scope["onceward"].transaction():
            pass
        assert "async with" in refused.value.fix
        return 503, [], b""

    release = asyncio.Event()

    async def scenario() -> None:
        app = shop.once(holder)
        holders = [
            asyncio.create_task(ask(app, key=f"k{number}")) for number in range(places(shop))
        ]
        while len(entered) < places(shop):
            assert not any(task.done() for task in holders)
            await asyncio.sleep(0)
        assert (await ask(shop.once(blocking), key="other")).status_code == 503
        release.set()
        await asyncio.gather(*holders)

    asyncio.run(scenario())

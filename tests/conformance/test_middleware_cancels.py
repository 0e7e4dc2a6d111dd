"""Requests that are cancelled at any await: no claim is left without a running request."""

import asyncio
import random
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import OutcomeUnknown, StoreUnavailable
from onceward.outcomes import IdempotencyMiddleware, OutcomeRecord, OutcomeState
from onceward.outcomes.http_request import AsgiMessage, AsgiScope
from tests.support.middleware_calls import Answer, Handler, Shop, call
from tests.support.task_cancellation import Interrupter

#: More awaits than a request has.
AWAITS_MAX = 200
SCOPE = {"type": "http", "method": "POST", "path": "/charges", "query_string": b""}
UNFINISHED = (OutcomeState.RUNNING, OutcomeState.AMBIGUOUS)


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


async def request(app: IdempotencyMiddleware, key: str) -> None:
    """Send one request as a server does, to a client that may be gone."""
    named = [(b"idempotency-key", key.encode()), (b"content-type", b"application/json")]

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": key.encode()}

    async def send(_: AsgiMessage) -> None:
        await asyncio.sleep(0)

    await app({**SCOPE, "headers": named}, receive, send)


def record(shop: Shop, key: str) -> OutcomeRecord | None:
    return shop.ow.outcomes.show("POST /charges", key)


def effects(shop: Shop, key: str) -> int:
    with shop.ow.transaction() as tx:
        return int(tx.execute("select count(*) from effects where note = ?", [key])[0][0])


def check_repeat(shop: Shop, app: IdempotencyMiddleware, key: str) -> None:
    """Send it again, and then once more: it has happened once."""
    for _ in range(2):
        assert call(app, key=key, body=key.encode()).status_code == 201
    assert effects(shop, key) == 1


# --- while the claim is made ----------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_claim_is_handed_back_when_its_request_is_cancelled(
    shop: Shop, moment: str, times: int
) -> None:
    """Cancelled while the claim commits: it frees the key, then the cancellation goes on."""
    app = shop.once()
    claim = app._outcomes.claim

    async def scenario() -> None:
        asked = asyncio.create_task(request(app, "k1"))
        loop = asyncio.get_running_loop()

        async def cancel() -> None:
            for _ in range(times):
                asked.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        def claim_slowly(*args: Any, **options: Any) -> Any:
            if moment == "before":
                asyncio.run_coroutine_threadsafe(cancel(), loop).result()
            found = claim(*args, **options)
            if moment == "after":
                asyncio.run_coroutine_threadsafe(cancel(), loop).result()
            return found

        app._outcomes.claim = claim_slowly  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await asked
        app._outcomes.claim = claim  # type: ignore[method-assign]

    asyncio.run(scenario())
    left = record(shop, "k1")
    assert left is not None
    assert left.state is OutcomeState.FREE
    check_repeat(shop, app, "k1")


@pytest.mark.parametrize("cancelled", ["the exchange", "both"])
def test_a_claim_is_handed_back_when_its_exchange_never_begins(shop: Shop, cancelled: str) -> None:
    """A loop that ends cancels tasks before their first step; their code never runs."""
    app = shop.once()

    async def scenario() -> None:
        tasks: list[asyncio.Task[None]] = []

        def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
            tasks.append(asyncio.Task(coroutine, loop=loop, **options))
            if len(tasks) == 2:
                for task in tasks[1:] if cancelled == "the exchange" else tasks:
                    task.cancel()
            return tasks[-1]

        asyncio.get_running_loop().set_task_factory(make)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(request(app, "k1"))
        assert len(tasks) == 2

    asyncio.run(scenario())
    left = record(shop, "k1")
    assert left is not None
    assert left.state is OutcomeState.FREE
    check_repeat(shop, app, "k1")


def test_a_cancellation_outweighs_a_store_that_is_down(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to hand back, and no client to answer."""
    app = shop.once()

    async def scenario() -> None:
        asked = asyncio.create_task(request(app, "k1"))
        loop = asyncio.get_running_loop()

        def down(*_: Any, **__: Any) -> None:
            loop.call_soon_threadsafe(asked.cancel)
            raise StoreUnavailable

        monkeypatch.setattr(app._outcomes, "claim", down)
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(scenario())


def test_a_claim_without_an_answer_is_asked_for_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed, and the answer was lost: the same owner is granted it again, and runs it."""
    app = shop.once()
    claim = app._outcomes.claim
    asked: list[object] = []

    def unreliable(*args: Any, **options: Any) -> Any:
        asked.append(claim(*args, **options))
        if len(asked) == 1:
            raise OutcomeUnknown
        return asked[-1]

    monkeypatch.setattr(app._outcomes, "claim", unreliable)
    check_repeat(shop, app, "k1")


# --- at every await -------------------------------------------------------------------------------


def both(shop: Shop) -> dict[str, Handler]:
    return {"plain": shop.charge, "tx": shop.charge_in_tx}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", ["plain", "tx"])
def test_a_request_cancelled_at_any_await_leaks_nothing(
    shop: Shop, kind: str, *, again: bool
) -> None:
    """Before the claim is granted it is undone; afterwards the handler runs to its end."""
    app = shop.once(both(shop)[kind])

    async def interrupted(nth: int) -> bool:
        tasks: list[asyncio.Task[None]] = []

        def cancel() -> None:
            tasks[0].cancel()

        interrupter = Interrupter(nth, cancel, again=again)
        tasks.append(asyncio.create_task(interrupter.drive(request(app, f"k{nth}"))))
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*app._running, return_exceptions=True)
        return interrupter.has_struck

    for nth in range(1, AWAITS_MAX):
        has_struck = asyncio.run(interrupted(nth))
        left = record(shop, f"k{nth}")
        assert left is None or left.state not in UNFINISHED
        check_repeat(shop, app, f"k{nth}")
        if not has_struck:
            return
    pytest.fail("there was always one more await")


def run_until(nth: int, app: IdempotencyMiddleware, key: str, *, again: bool) -> bool:
    """End an event loop in the middle of a request, at the nth await of any of its tasks."""

    async def main() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()

        def strike() -> None:
            over.set()
            if again:
                for task in (asked, *app._running):
                    task.cancel()

        interrupters.append(Interrupter(nth, strike, again=again))
        loop.set_task_factory(interrupters[0].task)
        asked = loop.create_task(request(app, key))
        asked.add_done_callback(lambda _: over.set())
        await over.wait()

    interrupters: list[Interrupter] = []
    asyncio.run(main())
    return interrupters[0].has_struck


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", ["plain", "tx"])
def test_a_loop_that_ends_at_any_await_leaves_no_claim_running(
    shop: Shop, kind: str, *, again: bool
) -> None:
    """Effects in the transaction are undone, or done; others are unknown once they began."""
    begun: list[str] = []

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        begun.append(body.decode())
        return await both(shop)[kind](scope, body)

    app = shop.once(handler)
    for nth in range(1, AWAITS_MAX):
        key = f"k{nth}"
        has_struck = run_until(nth, app, key, again=again)
        left = record(shop, key)
        state = OutcomeState.FREE if left is None else left.state
        assert state is not OutcomeState.RUNNING
        if state is OutcomeState.AMBIGUOUS:
            assert kind == "plain"
            assert key in begun
        else:
            assert effects(shop, key) == (state is OutcomeState.DONE)
            check_repeat(shop, app, key)
        if not has_struck:
            return
    pytest.fail("there was always one more await")


def test_a_handler_that_is_cancelled_by_itself_is_settled_at_once(shop: Shop) -> None:
    """A cancellation that comes from within is like any other interruption of the handler."""

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        if body == b"tx":
            async with scope["onceward"].transaction() as tx:
                tx.execute("insert into effects values ('undone')")
                raise asyncio.CancelledError
        raise asyncio.CancelledError

    app = shop.once(handler)
    for key, state in (("tx", OutcomeState.FREE), ("plain", OutcomeState.AMBIGUOUS)):
        with pytest.raises(asyncio.CancelledError):
            call(app, key=key, body=key.encode())
        left = record(shop, key)
        assert left is not None
        assert left.state is state
    assert shop.effects() == 0


@pytest.mark.parametrize("is_swallowed", [True, False])
def test_a_timeout_of_the_applications_own_does_not_lose_the_answer(
    shop: Shop, *, is_swallowed: bool
) -> None:
    """Cancelled while the answer is recorded, it goes on: then the answer is given as recorded."""

    async def app(_scope: AsgiScope, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            async with asyncio.timeout(0):
                await send({"type": "http.response.body", "body": b"done"})
        except TimeoutError:
            if not is_swallowed:
                raise

    once = IdempotencyMiddleware(app, store=shop.ow)
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": b""}

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    try:
        asyncio.run(once({**SCOPE, "headers": [(b"idempotency-key", b"k1")]}, receive, send))
    except TimeoutError:
        assert not is_swallowed
    assert [each.get("body") for each in sent] == [None, b"done"]
    left = record(shop, "k1")
    assert left is not None
    assert left.state is OutcomeState.DONE


# --- at random ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_random_cancellations_leak_nothing(shop: Shop, seed: int) -> None:
    """Many requests for few keys, most of them cancelled some time: each key happens once."""
    chance = random.Random(seed)
    keys = [f"k{number}" for number in range(8)]

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        kind = "tx" if int(body[1:]) % 2 else "plain"
        return await both(shop)[kind](scope, body)

    app = shop.once(handler)

    async def impatient(key: str) -> None:
        patience = chance.choice([0.0, 0.001, 0.003, 0.01, 0.03, 10.0])
        try:
            await asyncio.wait_for(request(app, key), patience)
        except TimeoutError:
            await asyncio.sleep(0)

    async def scenario() -> None:
        for _ in range(12):
            await asyncio.gather(*(impatient(key) for key in chance.choices(keys, k=8)))
        while app._running:
            await asyncio.gather(*app._running, return_exceptions=True)

    asyncio.run(scenario())
    assert [each for each in shop.ow.outcomes.list() if each.state in UNFINISHED] == []
    for key in keys:
        check_repeat(shop, app, key)

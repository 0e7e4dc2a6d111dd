"""The claim's transaction: effects and the recorded answer of a request, both or neither."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request

from onceward.client import Onceward
from onceward.errors import FenceLost, StoreUnavailable
from onceward.outcomes import IdempotencyMiddleware, OutcomeState
from onceward.outcomes.http_request import AsgiScope
from onceward.stores import Transaction
from tests.support.middleware_calls import Answer, Shop, ask, call


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def transaction(request: Request) -> Iterator[Transaction]:
    """Give a handler the transaction as FastAPI gives dependencies."""
    with request.scope["onceward"].transaction() as tx:
        yield tx


def fastapi_app(shop: Shop) -> FastAPI:
    """Return an application with each way to use the transaction."""
    app = FastAPI()
    app.add_middleware(IdempotencyMiddleware, store=shop.ow)
    insert = "insert into effects values (?)"

    @app.post("/async")
    async def in_loop(request: Request, fail: str = "") -> dict[str, int]:
        async with request.scope["onceward"].transaction() as tx:
            tx.execute(insert, ["async"])
            await asyncio.sleep(0)
            return answer(tx, fail)

    @app.post("/sync")
    def in_thread(request: Request, fail: str = "") -> dict[str, int]:
        with request.scope["onceward"].transaction() as tx:
            tx.execute(insert, ["sync"])
            return answer(tx, fail)

    @app.post("/depends")
    def depending(tx: Annotated[Transaction, Depends(transaction)], fail: str = "") -> Any:
        tx.execute(insert, ["depends"])
        return answer(tx, fail)

    def answer(tx: Transaction, fail: str) -> dict[str, int]:
        if fail == "raise":
            raise ZeroDivisionError
        if fail:
            raise HTTPException(int(fail))
        return {"count": int(tx.execute("select count(*) from effects")[0][0])}

    return app


PATHS = ["/async", "/sync", "/depends"]


@pytest.mark.parametrize("path", PATHS)
def test_effects_and_answer_are_one_commit(shop: Shop, path: str) -> None:
    """The handler's rows are there when its answer is, and a repeat adds none."""
    app = fastapi_app(shop)
    first, again = call(app, path), call(app, path)
    assert first.json() == again.json() == {"count": 1}
    assert again.headers["idempotent-replayed"] == "true"
    assert shop.effects() == 1


@pytest.mark.parametrize("path", PATHS)
def test_an_exception_rolls_back_and_frees_the_key(shop: Shop, path: str) -> None:
    """Nothing has happened, so the same key may run again."""
    app = fastapi_app(shop)
    with pytest.raises(ZeroDivisionError):
        call(app, f"{path}?fail=raise")
    assert shop.effects() == 0
    (record,) = shop.ow.outcomes.list()
    assert record.state is OutcomeState.FREE
    with pytest.raises(ZeroDivisionError):
        call(app, f"{path}?fail=raise")


@pytest.mark.parametrize("path", PATHS)
def test_a_server_error_rolls_back_and_frees_the_key(shop: Shop, path: str) -> None:
    """A 5xx is given but not recorded: with nothing done, a retry may help."""
    app = fastapi_app(shop)
    answers = [call(app, f"{path}?fail=503") for _ in range(2)]
    assert [each.status_code for each in answers] == [503, 503]
    assert "idempotent-replayed" not in answers[1].headers
    assert shop.effects() == 0
    assert shop.ow.outcomes.list()[0].state is OutcomeState.FREE


@pytest.mark.parametrize("path", PATHS)
def test_a_refusal_rolls_back_and_is_recorded(shop: Shop, path: str) -> None:
    """A 4xx raised in the block undoes the effects; it is a decision, so it is replayed."""
    app = fastapi_app(shop)
    answers = [call(app, f"{path}?fail=402") for _ in range(2)]
    assert [each.status_code for each in answers] == [402, 402]
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert shop.effects() == 0


def test_a_server_error_that_is_returned_rolls_back_too(shop: Shop) -> None:
    """It is the status that counts, not how the block was left; the retry then runs."""
    app = shop.once(shop.charge_in_tx)
    shop.status = 500
    assert call(app).status_code == 500
    assert shop.effects() == 0
    shop.status = 201
    assert call(app).status_code == 201
    assert shop.effects() == 1


def test_transactions_of_the_handle_join(shop: Shop) -> None:
    """Code that opens `ow.transaction()` inside the block becomes part of the same commit."""

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        async with scope["onceward"].transaction() as tx:
            await asyncio.to_thread(shop.leave, "in a thread")
            async with scope["onceward"].transaction() as inner:
                assert inner is tx
            shop.leave(body.decode())
            return 500 if body == b"fail" else 200, [], b""

    app = shop.once(handler)
    call(app, body=b"fail", key="a")
    assert shop.effects() == 0
    call(app, key="b")
    assert shop.effects() == 2


def test_the_answer_is_held_back_until_the_commit(shop: Shop) -> None:
    """When another caller has settled the key, nothing is kept and the client gets an error."""

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        claim = scope["onceward"]
        assert (claim.scope, claim.key) == ("POST /charges", "k1")
        answer = await shop.charge_in_tx(scope, body)
        claim.fence = replace(claim.fence, number=claim.fence.number - 1)
        return answer

    answer = call(shop.once(handler))
    assert (answer.status_code, answer.json()["code"]) == (409, FenceLost.code)
    assert shop.effects() == 0


def test_a_claim_that_was_answered_opens_nothing(shop: Shop) -> None:
    """A background task cannot add to what was committed."""
    refused: list[Exception] = []

    async def app(scope: AsgiScope, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"done"})
        try:
            async with scope["onceward"].transaction():
                pass
        except Exception as exc:  # noqa: BLE001 - looked at below
            refused.append(exc)

    assert call(IdempotencyMiddleware(app, store=shop.ow)).content == b"done"
    assert "this request and its transaction have ended" in str(refused[0])


def test_many_requests_are_serialized(shop: Shop) -> None:
    """Handlers in threads and on the event loop, all in transactions: no deadlock, no loss."""
    app = fastapi_app(shop)

    async def scenario() -> list[int]:
        asked = [ask(app, PATHS[number % 3], key=f"k{number}") for number in range(24)]
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert set(asyncio.run(scenario())) == {200}
    assert shop.effects() == 24


def test_a_plain_block_on_the_event_loop_does_not_wait(shop: Shop) -> None:
    """Where waiting would stop everything, SQLite's second writer is refused, and may retry."""
    if shop.ow.store.engine != "sqlite":
        return  # PostgreSQL has many writers.
    opened = asyncio.Event()

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        if body == b"first":
            async with scope["onceward"].transaction():
                opened.set()
                await release.wait()
        else:
            with scope["onceward"].transaction():
                pass
        return 200, [], b""

    async def scenario() -> None:
        app = shop.once(handler)
        first = asyncio.create_task(ask(app, body=b"first", key="a"))
        await opened.wait()
        refused = await ask(app, key="b")
        assert (refused.status_code, refused.json()["code"]) == (503, StoreUnavailable.code)
        release.set()
        assert (await first).status_code == 200
        assert (await ask(app, key="b")).status_code == 200

    release = asyncio.Event()
    asyncio.run(scenario())

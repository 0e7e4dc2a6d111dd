"""Clients that go away, stores that are down, handlers that take long, workers that share keys."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import InvalidArgument
from onceward.outcomes import Fresh, IdempotencyMiddleware, OutcomeState, Replay
from onceward.outcomes.http_request import AsgiMessage, AsgiScope, Receive, Send
from onceward.outcomes.http_response import result_of
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.sqlite.store import SqliteStore
from onceward.testing.moving_time import MovingTime
from onceward.testing.postgres import PostgresServer
from tests.support.middleware_calls import Answer, Shop, answering, ask, call
from tests.support.postgres_servers import own_server

__all__ = ["own_server"]

REQUEST: AsgiScope = {
    "type": "http",
    "method": "POST",
    "path": "/charges",
    "query_string": b"",
    "headers": [(b"idempotency-key", b"k1")],
}


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def receiving(*messages: AsgiMessage) -> Receive:
    """Return what a server gives, and then that the client has gone."""
    left = list(messages)

    async def receive() -> AsgiMessage:
        return left.pop(0) if left else {"type": "http.disconnect"}

    return receive


async def nowhere(_: AsgiMessage) -> None:
    """Send to a client that is not there."""


def test_a_client_that_goes_away_does_not_stop_the_handler(shop: Shop) -> None:
    """The server cancels the request; the effect and its answer are recorded all the same."""

    async def scenario() -> None:
        begun, release = asyncio.Event(), asyncio.Event()

        async def handler(scope: AsgiScope, body: bytes) -> Answer:
            begun.set()
            await release.wait()
            return await shop.charge(scope, body)

        app = shop.once(handler)
        request = asyncio.create_task(
            app(REQUEST, receiving({"type": "http.request", "body": b"x"}), nowhere)
        )
        await begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        release.set()
        await asyncio.gather(*app._running)

    asyncio.run(scenario())
    (record,) = shop.ow.outcomes.list()
    assert record.state is OutcomeState.DONE
    assert shop.effects() == 1


def test_a_handler_does_not_see_the_client_disconnect(shop: Shop) -> None:
    """After the body it hears nothing until the answer is given."""
    heard: list[str] = []

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])
        listening = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        assert not listening.done()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})
        heard.append((await listening)["type"])

    once = IdempotencyMiddleware(app, store=shop.ow)
    asyncio.run(once(REQUEST, receiving({"type": "http.request", "body": b""}), nowhere))
    assert heard == ["http.request", "http.disconnect"]


def test_half_a_body_is_no_request(shop: Shop) -> None:
    """A client that goes away before the end of its body has asked for nothing."""
    half = {"type": "http.request", "body": b'{"amo', "more_body": True}
    asyncio.run(shop.once()(REQUEST, receiving(half), nowhere))
    assert shop.effects() == 0
    assert shop.ow.outcomes.list() == []


def test_a_client_that_is_gone_when_the_answer_is_given(shop: Shop) -> None:
    """The server refuses the bytes; the answer is recorded already."""

    async def gone(_: AsgiMessage) -> None:
        raise OSError

    receive = receiving({"type": "http.request", "body": b"x"})
    with pytest.raises(OSError):  # noqa: PT011 - as bare as a server raises it
        asyncio.run(shop.once()(REQUEST, receive, gone))
    (record,) = shop.ow.outcomes.list()
    assert record.state is OutcomeState.DONE


def test_a_stream_is_given_when_it_is_complete(shop: Shop) -> None:
    """No byte leaves before the whole answer is recorded."""
    sent: list[AsgiMessage] = []

    async def app(_scope: AsgiScope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        assert sent == []
        await send({"type": "http.response.body"})

    async def send(message: AsgiMessage) -> None:
        assert shop.ow.outcomes.list()[0].state is OutcomeState.DONE
        sent.append(message)

    receive = receiving({"type": "http.request", "body": b""})
    asyncio.run(IdempotencyMiddleware(app, store=shop.ow)(REQUEST, receive, send))
    assert sent[1]["body"] == b"ab"


def test_an_application_without_a_response_leaves_the_key_ambiguous(shop: Shop) -> None:
    """It returned and sent nothing, so its effects are unknown."""

    async def app(*_: Any) -> None:
        return None

    receive = receiving({"type": "http.request", "body": b""})
    asyncio.run(IdempotencyMiddleware(app, store=shop.ow)(REQUEST, receive, nowhere))
    assert shop.ow.outcomes.list()[0].state is OutcomeState.AMBIGUOUS


def test_a_long_handler_keeps_its_claim(shop: Shop) -> None:
    """The claim is renewed while the handler runs."""
    renewed = threading.Event()

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        assert await asyncio.to_thread(renewed.wait, 60)
        return await shop.charge(scope, body)

    app = shop.once(handler, lease_seconds=0.3)
    renew = app._outcomes.renew

    def noted(*args: Any, **kwargs: Any) -> None:
        renew(*args, **kwargs)
        renewed.set()

    app._outcomes.renew = noted  # type: ignore[method-assign]
    assert call(app).status_code == 201


def test_a_worker_gets_what_the_handler_did(shop: Shop) -> None:
    """With one scope, a key that HTTP has used is done for workers, and its answer is readable."""

    async def handler(_scope: AsgiScope, _body: bytes) -> Answer:
        return 201, [(b"content-type", b"application/json")], b'{"charge":7}'

    call(shop.once(handler, scope="charge", fingerprint=None), key="order-1")
    found = shop.ow.outcomes.claim("charge", "order-1", fingerprint="", owner="worker")
    assert isinstance(found, Replay)

    @shop.ow.once(scope="charge", key=lambda order: order, fingerprint=None)
    def charge(order: str) -> Any:
        raise AssertionError(order)

    assert result_of(charge("order-1")) == {"charge": 7}
    assert result_of({"plain": 1}) == {"plain": 1}


def test_a_handler_gets_what_the_worker_did(shop: Shop) -> None:
    """A worker's result is the body of the answer; its failure is a 409, without its words."""

    @shop.ow.once(scope="charge", key=lambda order: order, fingerprint=None)
    def charge(order: str) -> Any:
        if order == "order-2":
            message = "internal words"
            raise ZeroDivisionError(message)
        return {"charge": order}

    charge("order-1")
    with pytest.raises(ZeroDivisionError):
        charge("order-2")
    app = shop.once(scope="charge", fingerprint=None)
    answer = call(app, key="order-1")
    assert (answer.status_code, answer.json()) == (200, {"charge": "order-1"})
    assert answer.headers["content-type"] == "application/json"
    failed = call(app, key="order-2")
    assert (failed.status_code, failed.json()["code"]) == (409, "RECORDED_FAILURE")
    assert failed.headers["idempotent-replayed"] == "true"
    assert "internal words" not in failed.text
    assert shop.effects() == 0


def test_a_worker_at_work_is_in_flight_for_http(shop: Shop) -> None:
    """Neither side runs what the other is running."""
    claim = shop.ow.outcomes.claim("charge", "order-1", fingerprint="", owner="worker")
    assert isinstance(claim, Fresh)
    app = shop.once(scope="charge", fingerprint=None)
    assert call(app, key="order-1").json()["code"] == "IN_FLIGHT"
    shop.ow.outcomes.finish(claim.fence, b"7")
    assert call(app, key="order-1").content == b"7"


def test_options_are_checked(ow: Onceward) -> None:
    """A misspelt option is refused when the application starts, not at the first crash."""
    with pytest.raises(InvalidArgument, match="on_crash"):
        IdempotencyMiddleware(answering(Shop.charge), store=ow, on_crash="retry")  # type: ignore[arg-type]


def test_a_file_that_cannot_be_opened_is_503(tmp_path: Path) -> None:
    """A store that is down says nothing about the key: try again later."""
    app = IdempotencyMiddleware(answering(unreached), store=SqliteStore(tmp_path / "no" / "x.db"))
    check_down(call(app))


async def unreached(_scope: AsgiScope, _body: bytes) -> Answer:
    raise AssertionError


def check_down(answer: Any) -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0
    assert "127.0.0.1" not in answer.text


def test_a_server_that_is_killed_is_503_until_it_is_back(own_server: PostgresServer) -> None:
    """Down before the claim, in a transaction or before the end: never a second effect."""
    with open_handle(own_server.url) as ow:
        assert isinstance(ow.store, PostgresStore)
        ow.store._connect_seconds = 0.5
        shop = Shop(ow)

        async def dying(scope: AsgiScope, body: bytes) -> Answer:
            async with scope["onceward"].transaction() as tx:
                tx.execute("insert into effects values ('lost')")
                await asyncio.to_thread(own_server.kill)
                tx.execute("insert into effects values (?)", [body.decode()])
            raise AssertionError

        async def dying_after(scope: AsgiScope, body: bytes) -> Answer:
            answer = await shop.charge(scope, body)
            await asyncio.to_thread(own_server.kill)
            return answer

        check_down(call(shop.once(dying)))
        check_down(call(shop.once()))
        own_server.start()
        ow.store._connect_seconds = 30.0
        MovingTime(ow.store).advance(seconds=61)
        assert call(shop.once(shop.charge_in_tx)).status_code == 201
        assert shop.effects() == 1
        ow.store._connect_seconds = 0.5
        lost = call(shop.once(dying_after), key="k2")
        assert (lost.status_code, lost.json()["code"]) == (503, "OUTCOME_UNKNOWN")
        own_server.start()
        ow.store._connect_seconds = 30.0
        MovingTime(ow.store).advance(seconds=122)
        assert call(shop.once(), key="k2").json()["code"] == "AMBIGUOUS"
        assert shop.effects() == 2


def test_concurrent_replays_write_nothing(shop: Shop) -> None:
    """A replay leaves the record as it was."""
    app = shop.once()
    call(app)
    before = shop.ow.outcomes.list()

    async def scenario() -> set[bytes]:
        return {answer.content for answer in await asyncio.gather(*[ask(app) for _ in range(10)])}

    assert asyncio.run(scenario()) == {b"\xff order 1"}
    assert shop.ow.outcomes.list() == before

"""Denials: 401, 403 and 407 say who asked, not what happened: they are passed on, not recorded."""

import asyncio

import pytest

from onceward.client import Onceward
from onceward.errors import FenceLost
from onceward.outcomes import Fresh, OutcomeState
from onceward.outcomes.http_request import AsgiScope
from tests.support.middleware_calls import Answer, Shop, ask, call

DENIALS = (401, 403, 407)
ADA = {"cookie": "session=ada"}


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


@pytest.mark.parametrize("status", DENIALS)
def test_h57_a_denial_is_not_replayed_after_logging_in(shop: Shop, status: int) -> None:
    """The same key with credentials runs, though it was denied without them."""

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        if b"cookie" in dict(scope["headers"]):
            return await shop.charge(scope, body)
        return status, [(b"www-authenticate", b"Bearer")], b"who are you?"

    app = shop.once(handler)
    denied = call(app)
    assert (denied.status_code, denied.content) == (status, b"who are you?")
    assert denied.headers["www-authenticate"] == "Bearer"
    assert call(app, headers=ADA).status_code == 201
    assert "idempotent-replayed" in call(app, headers=ADA).headers
    assert call(app).status_code == 422
    assert shop.effects() == 1


@pytest.mark.parametrize("status", DENIALS)
def test_a_denial_undoes_the_transaction(shop: Shop, status: int) -> None:
    """What the handler wrote in the claim's transaction is rolled back."""
    app = shop.once(shop.charge_in_tx)
    shop.status = status
    answers = [call(app) for _ in range(2)]
    assert [each.status_code for each in answers] == [status, status]
    assert "idempotent-replayed" not in answers[1].headers
    assert shop.effects() == 0
    shop.status = 201
    assert call(app, body=b"other").status_code == 201
    assert shop.effects() == 1


def test_a_denied_key_is_free_for_any_request(shop: Shop) -> None:
    """Nothing of the denied request is kept that a later one is compared with."""
    app = shop.once()
    shop.status = 403
    call(app, headers=ADA)
    (record,) = shop.ow.outcomes.list()
    assert (record.state, record.fingerprint, record.result) == (OutcomeState.FREE, None, None)
    assert record.failure is not None
    assert record.failure.message == "answered 403"


def test_a_denial_that_is_too_long_is_not_recorded_either(shop: Shop) -> None:
    """Its body is not given, but the key is free."""
    app = shop.once(response_bytes_max=4)
    shop.status = 401
    assert call(app).json()["code"] == "RESPONSE_TOO_LARGE"
    assert shop.ow.outcomes.list()[0].state is OutcomeState.FREE


def test_a_denial_is_in_flight_for_others_until_it_is_given(shop: Shop) -> None:
    """While the handler decides, the key is taken; afterwards the next request runs."""

    async def scenario() -> list[int]:
        begun, release = asyncio.Event(), asyncio.Event()

        async def handler(_scope: AsgiScope, _body: bytes) -> Answer:
            begun.set()
            await release.wait()
            return 401, [], b""

        app = shop.once(handler)
        first = asyncio.create_task(ask(app))
        await begun.wait()
        statuses = [(await ask(app)).status_code]
        release.set()
        return [*statuses, (await first).status_code, (await ask(app)).status_code]

    assert asyncio.run(scenario()) == [409, 401, 401]


def test_only_the_holder_releases_a_key(shop: Shop) -> None:
    """A release may be repeated; after another owner was granted the key it is refused."""
    outcomes = shop.ow.outcomes
    first = outcomes.claim("s", "k", fingerprint="a", owner="one")
    assert isinstance(first, Fresh)
    for _ in range(2):
        outcomes.release(first.fence, RuntimeError("denied"))
    second = outcomes.claim("s", "k", fingerprint="b", owner="two")
    assert isinstance(second, Fresh)
    with pytest.raises(FenceLost):
        outcomes.release(first.fence, RuntimeError("denied"))
    outcomes.finish(second.fence, b"1")

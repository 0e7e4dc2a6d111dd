"""Principals: with `caller=` every principal has keys of its own, whatever its credentials are."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, TooLarge
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.http_caller import caller_scope
from onceward.outcomes.http_request import AsgiScope
from onceward.outcomes.http_response import result_of
from tests.support.middleware_calls import Answer, Shop, answering, call, problem

ADA, BOB = {"x-user": "ada"}, {"x-user": "bob"}


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def user(scope: AsgiScope) -> str | None:
    """Return the user whom an authentication in front of the middleware has found."""
    value = dict(scope["headers"]).get(b"x-user")
    return None if value is None else value.decode()


async def user_async(scope: AsgiScope) -> str | None:
    await asyncio.sleep(0)
    return user(scope)


@pytest.mark.parametrize("caller", [user, user_async])
def test_h57_every_principal_has_keys_of_its_own(shop: Shop, caller: Callable[..., Any]) -> None:
    """The same key of two principals is two pieces of work; a repeat of each is a replay."""
    app = shop.once(caller=caller)
    for headers in (ADA, BOB, {}):
        first, again = call(app, headers=headers), call(app, headers=headers)
        assert again.content == first.content
        assert "idempotent-replayed" in again.headers
    assert shop.effects() == 3
    scopes = {record.scope for record in shop.ow.outcomes.list()}
    assert scopes == {f"POST /charges as {each}" for each in ("ada", "bob", "*")}


def test_a_principal_may_change_its_credentials(shop: Shop) -> None:
    """Token, cookie and key may all be new: the principal alone counts."""
    app = shop.once(caller=user)
    for number in "123":
        credentials = {"authorization": number, "cookie": f"id={number}", "x-api-key": number}
        assert call(app, headers={**ADA, **credentials}).content == b"\xff order 1"
    assert shop.effects() == 1
    problem(call(app, headers=ADA, body=b"other"), 422, "KEY_REUSED")


@pytest.mark.parametrize("principal", [None, ""])
def test_requests_without_a_principal_are_separated_by_credentials(
    shop: Shop, principal: str | None
) -> None:
    """A function that finds no principal, such as before authentication, leaks no answer."""
    app = shop.once(caller=lambda _: principal)
    call(app, headers={"authorization": "Bearer ada"})
    rejected = problem(call(app, headers={"authorization": "Bearer bob"}), 422, "KEY_REUSED")
    assert "another caller" in rejected["detail"]
    problem(call(app), 422, "KEY_REUSED")
    assert call(app, headers={"authorization": "Bearer ada"}).status_code == 201
    assert shop.effects() == 1


@pytest.mark.parametrize(
    "odd", ["a b", "ä", "\0", "\ud800", "x" * 9999, "*", "%2A", "sha256:0", " "]
)
def test_any_text_is_a_principal(shop: Shop, odd: str) -> None:
    """Odd and long principals have keys of their own, and replays."""
    app = shop.once(caller=lambda scope: odd + (user(scope) or ""))
    for headers in ({}, BOB):
        assert call(app, headers=headers).status_code == 201
        assert "idempotent-replayed" in call(app, headers=headers).headers
    assert shop.effects() == 2
    assert shop.ow.outcomes.show(caller_scope("POST /charges", odd), "k1") is not None


def test_scope_and_principal_cannot_be_confused(shop: Shop) -> None:
    """No principal in one scope has the keys of another principal in another scope."""
    pairs = [("a", "b as c"), ("a as b", "c"), ("a", "b"), ("a as b", None), ("a as b as c", None)]
    pairs += [("a", "*"), ("a as *", None), ("a", None)]
    for scope, principal in pairs:
        app = shop.once(scope=scope, fingerprint=None, caller=lambda _, given=principal: given)
        assert "idempotent-replayed" not in call(app).headers
    assert shop.effects() == len(pairs)


def test_a_scope_and_a_principal_fit_together(shop: Shop) -> None:
    """The longest path and the longest principal still make a name that can be stored."""
    app = shop.once(caller=lambda _: "ä" * 5000)
    assert call(app, "/" + "long/" * 400).status_code == 201


@pytest.mark.parametrize(
    ("error", "status"), [(TooLarge("no"), 413), (InvalidArgument("no"), 400), (None, 0)]
)
def test_an_error_of_the_function_runs_nothing(
    shop: Shop, error: Exception | None, status: int
) -> None:
    """Our own errors have the status of their code, any other goes to the server."""

    def caller(_: AsgiScope) -> str:
        raise error or ZeroDivisionError

    app = shop.once(caller=caller)
    if error is None:
        with pytest.raises(ZeroDivisionError):
            call(app)
    else:
        assert call(app).status_code == status
    assert shop.effects() == 0
    assert shop.ow.outcomes.list() == []


def test_a_principal_that_is_no_text_is_a_mistake(shop: Shop) -> None:
    """A number or an object is not taken for a name; nothing runs."""
    with pytest.raises(TypeError, match="caller must return a string or None, not int"):
        call(shop.once(caller=lambda _: 7))
    assert shop.effects() == 0


@pytest.mark.parametrize("option", ["caller_cookies", "caller_headers"])
def test_one_name_in_place_of_a_list_is_rejected(shop: Shop, option: str) -> None:
    """A text in place of a list would count its letters, so that no credential counts."""
    with pytest.raises(InvalidArgument, match=option):
        IdempotencyMiddleware(answering(shop.charge), store=shop.ow, **{option: "session"})  # type: ignore[arg-type]


def test_a_worker_shares_the_keys_of_a_principal(shop: Shop) -> None:
    """With the principal in its scope a worker gets what the handler did, and the other way."""

    async def handler(scope: AsgiScope, _body: bytes) -> Answer:
        await shop.charge(scope, b"")
        return 200, [], b'"web"'

    app = shop.once(handler, scope="charge", fingerprint=None, caller=user)

    @shop.ow.once(scope=caller_scope("charge", "ada"), key=lambda order: order, fingerprint=None)
    def charge(order: str) -> str:
        shop.leave(order)
        return "worker"

    call(app, key="order-1", headers={**ADA, "authorization": "Bearer 1"})
    assert result_of(charge("order-1")) == "web"
    charge("order-2")
    answer = call(app, key="order-2", headers={**ADA, "authorization": "Bearer 2"})
    assert answer.json() == "worker"
    assert shop.effects() == 2
    call(app, key="order-2", headers=BOB)
    assert shop.effects() == 3

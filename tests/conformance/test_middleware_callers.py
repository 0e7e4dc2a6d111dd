"""Callers: a recorded answer is replayed to the caller who sent the key first, and to no other."""

import asyncio
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import KeyReused
from onceward.outcomes.http_request import AsgiScope
from onceward.testing.moving_time import MovingTime
from tests.support.middleware_calls import Answer, Headers, Shop, ask, call, problem

SECRET = b"card 4242 of ada"
#: Credentials of two callers, of each kind that requests carry.
KINDS = {
    "bearer": ({"authorization": "Bearer ada-1"}, {"authorization": "Bearer bob-1"}),
    "proxy": ({"proxy-authorization": "Basic ada"}, {"proxy-authorization": "Basic bob"}),
    "cookie": ({"cookie": "session=ada-1"}, {"cookie": "session=bob-1"}),
    "api-key": ({"x-api-key": "ada-1"}, {"x-api-key": "bob-1"}),
    "token": ({"x-auth-token": "ada-1"}, {"x-auth-token": "bob-1"}),
    "anonymous": ({"authorization": "Bearer ada-1"}, {}),
    "log-in": ({}, {"authorization": "Bearer bob-1"}),
    "another-kind": ({"x-api-key": "ada-1"}, {"cookie": "x-api-key=ada-1"}),
}


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def secret_app(shop: Shop, **options: Any) -> Any:
    """Return an application whose answer only its first caller may see."""

    async def handler(scope: AsgiScope, body: bytes) -> Answer:
        await shop.charge(scope, body)
        return 201, [(b"x-card", SECRET)], SECRET

    return shop.once(handler, **options)


def principal(scope: AsgiScope) -> str | None:
    """Return the user of a token such as `Bearer ada-2`, whose end changes at each refresh."""
    token = dict(scope["headers"]).get(b"authorization", b"").decode()
    return token.removeprefix("Bearer ").partition("-")[0] or None


def check_refused(shop: Shop, answer: Any, *, effects: int = 1) -> dict[str, Any]:
    """Check that another caller was refused, and learned nothing."""
    rejected = problem(answer, 422, "KEY_REUSED")
    assert "another caller" in rejected["detail"]
    assert "caller=" in rejected["fix"]
    assert "caller_cookies=" in rejected["fix"]
    assert SECRET not in answer.content
    assert SECRET.decode() not in str(answer.headers)
    assert "idempotent-replayed" not in answer.headers
    assert shop.effects() == effects
    return rejected


# --- without `caller=`: credentials are compared --------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_h57_another_caller_never_gets_the_answer(shop: Shop, kind: str) -> None:
    """The same key from another caller is 422: nothing is replayed, nothing runs."""
    ada, bob = KINDS[kind]
    app = secret_app(shop)
    assert call(app, headers=ada).content == SECRET
    check_refused(shop, call(app, headers=bob))
    assert call(app, headers=ada).content == SECRET
    assert shop.effects() == 1


def test_h57_a_refreshed_credential_has_no_second_effect(shop: Shop) -> None:
    """Without `caller=` a new token is 422 that names `caller=`; with it, a replay."""
    ada, refreshed = ({"authorization": f"Bearer ada-{number}"} for number in (1, 2))
    app = secret_app(shop)
    call(app, headers=ada)
    rejected = check_refused(shop, call(app, headers=refreshed))
    assert "may have been carried out" in rejected["fix"]
    app = secret_app(shop, caller=principal)
    call(app, key="k2", headers=ada)
    again = call(app, key="k2", headers=refreshed)
    assert (again.content, again.headers["idempotent-replayed"]) == (SECRET, "true")
    assert shop.effects() == 2


def test_a_changed_cookie_is_another_caller_unless_it_does_not_count(shop: Shop) -> None:
    """`caller_cookies` names those that count; without it every cookie does."""
    first, again = "session=ada; visits=1", "session=ada; visits=2"
    app = secret_app(shop)
    call(app, headers={"cookie": first})
    check_refused(shop, call(app, headers={"cookie": again}))
    app = secret_app(shop, caller_cookies=["session"])
    call(app, key="k2", headers={"cookie": first})
    assert call(app, key="k2", headers={"cookie": again}).content == SECRET
    check_refused(shop, call(app, key="k2", headers={"cookie": "session=bob"}), effects=2)
    check_refused(shop, call(app, key="k2", headers={"cookie": "visits=1"}), effects=2)


def test_no_cookie_counts_when_none_is_named(shop: Shop) -> None:
    """With `caller_cookies=()` cookies are no credentials; the other headers still are."""
    app = secret_app(shop, caller_cookies=())
    call(app, headers={"cookie": "a=1"})
    assert call(app, headers={"cookie": "a=2"}).content == SECRET
    assert call(app).content == SECRET
    check_refused(shop, call(app, headers={"x-api-key": "bob"}))


@pytest.mark.parametrize(
    "spelled",
    [
        [("cookie", "a=1"), ("cookie", "b=2"), ("x-api-key", "ada")],
        [("x-api-key", "ada"), ("cookie", "b=2; a=1")],
        [("X-API-Key", "  ada "), ("Cookie", " a=1 ;b=2; ")],
        [("x-api-key", "ada"), ("cookie", "a=1; b=2"), ("authorization", " ")],
    ],
)
def test_a_caller_is_the_same_however_it_is_spelled(shop: Shop, spelled: Headers) -> None:
    """Neither order, white space, letter case, split cookies nor empty headers change a caller."""
    app = secret_app(shop)
    call(app, headers=[("x-api-key", "ada"), ("cookie", "a=1; b=2")])
    assert call(app, headers=spelled).content == SECRET
    assert shop.effects() == 1


def test_a_header_that_is_named_counts(shop: Shop) -> None:
    """`caller_headers` adds to the headers that tell callers apart."""
    app = secret_app(shop, caller_headers=["X-Tenant"])
    call(app, headers={"x-tenant": "a", "x-other": "1"})
    assert call(app, headers={"x-tenant": "a", "x-other": "2"}).content == SECRET
    check_refused(shop, call(app, headers={"x-tenant": "b"}))


def test_another_payload_of_another_caller_reveals_nothing_of_the_payload(shop: Shop) -> None:
    """Whether the payload was the same is not revealed to another caller."""
    app = secret_app(shop)
    ada, bob = KINDS["bearer"]
    call(app, headers=ada)
    same, other = (call(app, headers=bob, body=body) for body in (b'{"amount":5}', b"other"))
    assert same.content == other.content
    check_refused(shop, other)
    rejected = problem(call(app, headers=ada, body=b"other"), 422, "KEY_REUSED")
    assert "caller" not in rejected["detail"]


def test_a_caller_is_compared_when_no_payload_is(shop: Shop) -> None:
    """`fingerprint=None` leaves out the payload, not the caller."""
    ada, bob = KINDS["bearer"]
    app = secret_app(shop, scope="charge", fingerprint=None)
    call(app, headers=ada)
    assert call(app, headers=ada, body=b"other").content == SECRET
    check_refused(shop, call(app, headers=bob))


def test_a_payload_cannot_pass_for_a_caller(shop: Shop) -> None:
    """A fingerprint made of the client's own words never equals another caller's."""
    app = secret_app(shop, fingerprint=lambda _scope, body: body.decode())
    call(app, headers=KINDS["bearer"][0], body=b"x")
    (record,) = shop.ow.outcomes.list()
    forged = (record.fingerprint or "").encode()
    assert forged != b"x"
    check_refused(shop, call(app, body=forged))


def test_another_caller_is_rejected_while_the_first_is_running_or_ambiguous(
    shop: Shop, ow_time: MovingTime
) -> None:
    """Neither 409 nor how to reconcile is for another caller."""
    ada, bob = KINDS["bearer"]
    app = secret_app(shop)
    call(app, key="other", headers=ada)
    fingerprint = shop.ow.outcomes.list()[0].fingerprint or ""
    shop.ow.outcomes.claim("POST /charges", "k1", fingerprint=fingerprint, owner="a dead server")
    problem(call(app, headers=ada), 409, "IN_FLIGHT")
    check_refused(shop, call(app, headers=bob))
    ow_time.advance(seconds=61)
    problem(call(app, headers=ada), 409, "AMBIGUOUS")
    check_refused(shop, call(app, headers=bob))


def test_callers_at_the_same_moment_have_one_effect(shop: Shop) -> None:
    """Of ten callers who send one key at once, one gets the answer and nine are refused."""

    async def scenario() -> list[Any]:
        app = secret_app(shop)
        headers = [{"x-api-key": str(number)} for number in range(10)]
        answers = await asyncio.gather(*[ask(app, headers=each) for each in headers])
        # On a slow machine the first is still at work when the others ask: they ask again.
        return [
            await ask(app, headers=each) if answer.status_code == 409 else answer
            for each, answer in zip(headers, answers, strict=True)
        ]

    answers = asyncio.run(scenario())
    assert sorted(each.status_code for each in answers) == [201, *[422] * 9]
    for each in answers:
        if each.status_code == 422:
            check_refused(shop, each)


def test_credentials_are_not_stored(shop: Shop) -> None:
    """The store holds a digest of them, in neither scope nor fingerprint more than that."""
    app = shop.once()
    call(app, headers={"authorization": "Bearer s3cret", "cookie": "id=s3cret"})
    assert "s3cret" not in str(shop.ow.outcomes.list())


# --- workers that share the keys ------------------------------------------------------------------


def test_a_worker_is_a_caller_without_credentials(shop: Shop) -> None:
    """Neither side gets what a caller with credentials has, or gives it; nothing runs twice."""
    ada, _ = KINDS["bearer"]
    app = secret_app(shop, scope="charge", fingerprint=None)

    @shop.ow.once(scope="charge", key=lambda order: order, fingerprint=None)
    def charge(order: str) -> str:
        shop.leave(order)
        return order

    call(app, key="order-1", headers=ada)
    with pytest.raises(KeyReused, match="another caller") as refused:
        charge("order-1")
    assert "caller=" in refused.value.fix
    charge("order-2")
    check_refused(shop, call(app, key="order-2", headers=ada), effects=2)
    assert call(app, key="order-2").json() == "order-2"

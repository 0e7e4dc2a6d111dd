"""The middleware: a request with a key happens once, on SQLite and PostgreSQL alike."""

import asyncio
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import Retryable
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.http_request import AsgiScope, Receive, Send
from onceward.testing.moving_time import MovingTime
from tests.support.middleware_calls import Answer, Shop, ask, call, problem


@pytest.fixture
def shop(ow: Onceward) -> Shop:
    return Shop(ow)


def test_a_repeat_gets_the_recorded_answer(shop: Shop) -> None:
    """Status, headers and bytes come again, marked as a replay; the effect does not."""
    app = shop.once()
    first, again = call(app), call(app)
    assert (first.status_code, first.content) == (201, b"\xff order 1")
    assert "idempotent-replayed" not in first.headers
    assert again.content == first.content
    assert again.status_code == 201
    assert again.headers.raw == [*first.headers.raw, (b"idempotent-replayed", b"true")]
    assert shop.effects() == 1


def test_headers_come_again_but_for_cookies_and_the_connection(shop: Shop) -> None:
    """Repeated headers keep their order; what belongs to one session or connection stays out."""

    async def handler(_scope: AsgiScope, _body: bytes) -> Answer:
        link = [(b"link", b"</1>"), (b"Link", b"</2>"), (b"x-latin", b"\xe9")]
        return 200, [*link, (b"set-cookie", b"secret=1"), (b"keep-alive", b"5")], b""

    app = shop.once(handler)
    assert "set-cookie" in call(app).headers
    kept = [(b"link", b"</1>"), (b"Link", b"</2>"), (b"x-latin", b"\xe9")]
    assert call(app).headers.raw == [*kept, (b"idempotent-replayed", b"true")]
    (record,) = shop.ow.outcomes.list()
    assert b"secret" not in (record.result or b"")


def test_a_quoted_key_is_the_bare_key(shop: Shop) -> None:
    """Both spellings name the same work."""
    app = shop.once()
    assert call(app, key="a b").content == call(app, key='"a b"').content
    assert call(app, key='"x\\"y\\\\"').content == call(app, key='x"y\\').content
    assert shop.effects() == 2


def test_a_malformed_key_is_rejected(shop: Shop) -> None:
    """What is not 1 to 255 printable characters is 400, and nothing runs."""
    for key in [b"", b'""', b'"', b'"a', b'"a"b"', b"\xe9", b"a\x7fb", b"a\tb", b"x" * 256]:
        rejected = problem(call(shop.once(), key=key), 400, "INVALID_ARGUMENT")
        assert "Idempotency-Key" in rejected["detail"]
        assert shop.effects() == 0


def test_two_keys_are_no_key(shop: Shop) -> None:
    """A request that brings the header twice is 400."""
    headers = {"idempotency-key": "other"}
    problem(call(shop.once(), headers=headers), 400, "INVALID_ARGUMENT")


def test_a_key_of_255_characters_is_taken(shop: Shop) -> None:
    """The longest key works, and so does another name for the header."""
    app = shop.once(header="X-Request-Key")
    headers = {"x-request-key": "~" * 255}
    assert (
        call(app, key=None, headers=headers).content == call(app, key=None, headers=headers).content
    )
    assert shop.effects() == 1


def test_a_missing_key_is_rejected_where_it_is_required(shop: Shop) -> None:
    """`required` is a yes, or a function of the request; elsewhere a request just runs."""
    problem(call(shop.once(required=True), key=None), 400, "INVALID_ARGUMENT")
    some = shop.once(required=lambda scope: scope["path"] == "/charges")
    problem(call(some, key=None), 400, "INVALID_ARGUMENT")
    assert shop.effects() == 0
    assert [call(some, "/pings", key=None).status_code for _ in range(2)] == [201, 201]
    assert shop.effects() == 2


def test_other_methods_pass_by(shop: Shop) -> None:
    """Only POST and PATCH are handled, unless configured otherwise."""
    app = shop.once()
    for _ in range(2):
        call(app, method="PUT")
    assert shop.effects() == 2
    app = shop.once(methods=["put"])
    for _ in range(2):
        call(app, method="PUT")
    assert shop.effects() == 3


def test_a_running_concurrent_request_is_in_flight(shop: Shop) -> None:
    """Ten equal requests at once: one effect, and its answer for all who come back for it."""

    async def scenario() -> None:
        release = asyncio.Event()

        async def handler(scope: AsgiScope, body: bytes) -> Answer:
            await release.wait()
            return await shop.charge(scope, body)

        app = shop.once(handler)
        asked = [asyncio.create_task(ask(app)) for _ in range(10)]
        waiting = set(asked)
        while len(waiting) > 1:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                problem(each.result(), 409, "IN_FLIGHT")
                assert int(each.result().headers["retry-after"]) > 0
        release.set()
        (winner,) = waiting
        answers = [await winner, *[await ask(app) for _ in range(9)]]
        assert {(each.status_code, each.content) for each in answers} == {(201, b"\xff order 1")}

    asyncio.run(scenario())
    assert shop.effects() == 1


@pytest.mark.parametrize(
    "other",
    [
        {"body": b'{"amount":6}'},
        {"path": "/charges?dry=1"},
        {"headers": {"content-type": "text/plain"}},
    ],
)
def test_another_payload_is_rejected(shop: Shop, other: dict[str, Any]) -> None:
    """The same key for another request is 422, and nothing runs."""
    app = shop.once()
    call(app)
    problem(call(app, **other), 422, "KEY_REUSED")
    assert shop.effects() == 1


def test_a_form_may_have_another_boundary(shop: Shop) -> None:
    """Clients draw a new boundary at each attempt; the same form is the same payload."""
    app = shop.once()
    for boundary, amount in (("aa", 5), ("bb", 5), ("cc", 6)):
        part = f'Content-Disposition: form-data; name="amount"\r\n\r\n{amount}\r\n'
        answer = call(
            app,
            body=f"--{boundary}\r\n{part}--{boundary}--\r\n".encode(),
            headers={"content-type": f"multipart/form-data; boundary={boundary}"},
        )
        assert answer.status_code == (201 if amount == 5 else 422)
    assert shop.effects() == 1


def test_routes_have_keys_of_their_own(shop: Shop) -> None:
    """The same key for another route is other work, however long or odd its path."""
    app = shop.once()
    for path in ("/charges", "/refunds", "/" + "long/" * 400, "/%00"):
        call(app, path)
        assert "idempotent-replayed" in call(app, path).headers
    assert shop.effects() == 4


def test_an_exception_leaves_the_key_ambiguous(shop: Shop) -> None:
    """What it did before it failed is unknown: 409 with the way to reconcile, then its verdict."""
    app = shop.once()
    shop.error = ZeroDivisionError("after the effect")
    with pytest.raises(ZeroDivisionError):
        call(app)
    shop.error = None
    rejected = problem(call(app), 409, "AMBIGUOUS")
    assert "onceward outcomes reconcile 'POST /charges' k1" in rejected["fix"]
    assert shop.effects() == 1
    by: Any = {"actor": "ada", "reason": "saw it in the bank's list"}
    shop.ow.outcomes.reconcile("POST /charges", "k1", done={"order": 1}, **by)
    answer = call(app)
    assert (answer.status_code, answer.json()) == (200, {"order": 1})
    assert answer.headers["idempotent-replayed"] == "true"


def test_what_was_not_done_runs_again(shop: Shop, ow_time: MovingTime) -> None:
    """A claim that fell silent is ambiguous; found not done, the same request runs."""
    app = shop.once()
    call(app, key="other")
    fingerprint = shop.ow.outcomes.list()[0].fingerprint or ""
    shop.ow.outcomes.claim("POST /charges", "k1", fingerprint=fingerprint, owner="a dead server")
    problem(call(app), 409, "IN_FLIGHT")
    ow_time.advance(seconds=61)
    rejected = problem(call(app), 409, "AMBIGUOUS")
    assert "a dead server" not in str(rejected)
    by: Any = {"actor": "ada", "reason": "the bank knows nothing of it"}
    shop.ow.outcomes.reconcile("POST /charges", "k1", not_done=True, **by)
    assert call(app).status_code == 201
    assert shop.effects() == 2


@pytest.mark.parametrize("error", [Retryable("nothing happened"), ZeroDivisionError()])
def test_errors_that_are_harmless_free_the_key(shop: Shop, error: Exception) -> None:
    """A Retryable error, or any one where reruns were declared harmless, lets a repeat run."""
    app = shop.once(on_crash="ambiguous" if isinstance(error, Retryable) else "rerun")
    shop.error = error
    with pytest.raises(type(error)):
        call(app)
    shop.error = None
    assert call(app).status_code == 201
    assert shop.effects() == 2


def test_a_key_whose_response_expired_is_rejected(shop: Shop, ow_time: MovingTime) -> None:
    """After its time 410, not a second effect."""
    app = shop.once(ttl_seconds=3600)
    call(app)
    ow_time.advance(seconds=3601)
    problem(call(app), 410, "KEY_EXPIRED")
    assert shop.effects() == 1


def test_a_body_that_is_too_large_is_rejected(shop: Shop) -> None:
    """413 by its declared length or by what arrives; nothing runs."""
    app = shop.once(body_bytes_max=100)
    problem(call(app, body=b"x" * 101), 413, "TOO_LARGE")
    problem(call(app, body=b"x", headers={"content-length": "9" * 5000}), 413, "TOO_LARGE")
    assert call(app, body=b"x" * 100).status_code == 201
    assert shop.effects() == 1


def test_decided_and_broken_answers_are_recorded(shop: Shop) -> None:
    """Without a transaction every answer counts, 5xx too: its effects have happened."""
    app = shop.once()
    for status in (402, 500, 503):
        shop.status = status
        assert {call(app, key=str(status)).status_code for _ in range(2)} == {status}
    assert shop.effects() == 3


def test_an_answer_that_is_too_long_is_not_given(shop: Shop) -> None:
    """All callers get the same 500, and the effect stays the only one."""
    app = shop.once(response_bytes_max=8)
    for _ in range(2):
        problem(call(app), 500, "RESPONSE_TOO_LARGE")
    assert shop.effects() == 1
    app = shop.once(shop.charge_in_tx, response_bytes_max=8)
    problem(call(app, key="k2"), 500, "RESPONSE_TOO_LARGE")
    assert shop.effects() == 1
    assert call(shop.once(shop.charge_in_tx), key="k2").status_code == 201


def test_websockets_and_lifespans_pass_by(ow: Onceward) -> None:
    """What is no HTTP request reaches the application untouched."""
    seen: list[AsgiScope] = []

    async def app(scope: AsgiScope, _receive: Receive, _send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: object) -> None:
        return None

    scopes: list[AsgiScope] = [{"type": "websocket", "path": "/"}, {"type": "lifespan"}]
    for scope in scopes:
        asyncio.run(IdempotencyMiddleware(app, store=ow.store)(scope, nothing, nothing))  # type: ignore[arg-type]  # never called
    assert seen == scopes

"""Error responses: errors of the framework have our JSON format and name the field."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from pydantic import BaseModel

from onceward import errors
from onceward.http.errors import install_error_handlers
from tests.support.guarded_requests import TOKEN, ask, error_of


class Rating(BaseModel):
    overall: int


class Ratings(BaseModel):
    ratings: list[Rating]


def sample() -> FastAPI:
    """Return an application with routes the console does not have yet."""
    app = FastAPI(redirect_slashes=False)
    install_error_handlers(app)
    router = APIRouter(prefix="/api/feedback")

    @router.post("")
    async def add(body: Ratings) -> int:
        return len(body.ratings)

    @router.get("")
    async def read(limit: int = 1) -> int:
        return limit

    @app.put("/api/feedback")
    async def replace() -> None:
        raise errors.InvalidCursor

    @app.get("/crash")
    async def crash() -> None:
        message = "secret cause"
        raise RuntimeError(message)

    @app.get("/http/{status}")
    async def http(status: int) -> None:
        raise HTTPException(status, "as it says", headers={"retry-after": "1"})

    app.include_router(router)
    return app


CHANGE = {"x-cm-lab-token": TOKEN, "content-type": "application/json"}


def test_405_names_the_methods_of_all_routes_at_the_address() -> None:
    """Routes of several routers that share an address are all named."""
    response = ask(sample(), "DELETE", "/api/feedback", CHANGE)
    assert error_of(response)["code"] == "METHOD_NOT_ALLOWED"
    assert response.headers["allow"] == "GET, POST, PUT"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"ratings":[{"overall":1},{"overall":"x"}]}', "ratings[1].overall"),
        (b'{"ratings":[{}]}', "ratings[0].overall"),
        (b'{"ratings":null}', "ratings"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"", "body"),
    ],
)
def test_an_invalid_body_is_answered_with_the_name_of_the_field(body: bytes, field: str) -> None:
    """The caller learns which field is wrong, and gets 400 rather than the framework's 422."""
    response = ask(sample(), "POST", "/api/feedback", CHANGE, body)
    error = error_of(response)
    assert (response.status_code, error["code"]) == (400, "INVALID_ARGUMENT")
    assert error["context"]["field"] == field
    assert error["message"].startswith(f"{field}: ")


def test_an_invalid_parameter_is_named_too() -> None:
    """The query is checked like the body."""
    error = error_of(ask(sample(), "GET", "/api/feedback?limit=x"))
    assert error["context"]["field"] == "limit"


@pytest.mark.parametrize("body", [b"{", b'{"a":}', b"\xff\xfe\xfd", b"[" * 100_000], ids=repr)
def test_broken_json_is_called_that(body: bytes) -> None:
    """Cut off, badly encoded or nested without end: 400, never 500."""
    response = ask(sample(), "POST", "/api/feedback", CHANGE, body)
    assert (response.status_code, error_of(response)["code"]) == (400, "INVALID_JSON")


def test_an_error_of_ours_keeps_its_code() -> None:
    """What a route raises is what the caller reads."""
    response = ask(sample(), "PUT", "/api/feedback", CHANGE)
    assert (response.status_code, error_of(response)["code"]) == (400, "INVALID_CURSOR")


def test_a_crash_in_a_route_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The caller reads INTERNAL, the log names the cause, once."""
    response = ask(sample(), "GET", "/crash")
    assert (response.status_code, error_of(response)["code"]) == (500, "INTERNAL")
    assert b"secret" not in response.content
    assert caplog.text.count("RuntimeError: secret cause") == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHORIZED"),
        (403, "FORBIDDEN"),
        (404, "NOT_FOUND"),
        (413, "TOO_LARGE"),
        (415, "UNSUPPORTED_MEDIA_TYPE"),
        (418, "INVALID_ARGUMENT"),
        (502, "INTERNAL"),
    ],
)
def test_errors_of_the_framework_take_our_shape(status: int, code: str) -> None:
    """Whatever status the framework raises, the caller reads one of our codes."""
    assert error_of(ask(sample(), "GET", f"/http/{status}"))["code"] == code

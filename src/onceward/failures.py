"""Failures: makes a FastAPI application answer whatever goes wrong in our one shape.

Owns the translation of the framework's own errors, and how the OpenAPI document tells of errors;
the shape and the statuses are the gate's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from onceward import errors
from onceward.gate import SEE_LOG, answer, as_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_KIND_OF_STATUS: Final[Mapping[int, type[errors.OncewardError]]] = {
    401: errors.Unauthorized,
    403: errors.RequestRefused,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
}


_FIXES: Final = {
    "FILE_NOT_FOUND": "check the path",
    "INVALID_ARGUMENT": "correct the request",
    "UNAVAILABLE": "try again later, or look into the server's log",
}
#: How much of a name that somebody sent is repeated to them.
_NAME_CHARACTERS_MAX: Final = 200
#: How a check of a whole body says which field it means.
_NAMED: Final = re.compile(r"([A-Za-z]\w*): (.+)", re.DOTALL)


class Problem(BaseModel, frozen=True):
    """What went wrong, and what to do about it."""

    #: Stable name of this kind of failure.
    code: str
    message: str
    #: The facts; `fix` says what to do.
    context: dict[str, Any]


class Failure(BaseModel, frozen=True):
    """The one shape of every answer that is not a success."""

    error: Problem


_SCHEMAS: Final = "#/components/schemas/"


def failure(description: str) -> dict[str, Any]:
    """Return what a route documents of one answer that is not a success.

    It names the shape: from a class the framework would make a validator for every answer of every
    route, which nobody uses and every start would wait for.
    """
    content = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{Failure.__name__}"}}}
    return {"description": description, "content": content}


#: Answers by status, as routes document them.
Documented = dict[int | str, dict[str, Any]]
#: The gate can give these on every address, so every documented route lists them.
GATE_ANSWERS: Final[Documented] = {
    400: failure("The request is malformed; the error names the place."),
    401: failure("The token is missing or wrong."),
    403: failure("The request comes from a page of another site."),
    413: failure("The body is larger than this server takes."),
    421: failure("The Host header does not name this server."),
    500: failure("The server failed; its log names the cause."),
}


def documented(descriptions: Mapping[int, str], *statuses: int) -> Documented:
    """Return what a route documents besides its success: the gate's answers, and these, and 503."""
    chosen: Documented = {status: failure(descriptions[status]) for status in (*statuses, 503)}
    return {**GATE_ANSWERS, **chosen}


def wire_errors(app: FastAPI) -> None:
    """Replace the framework's error answers by ours, and what its document says of them."""
    app.add_exception_handler(errors.OncewardError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_crash)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        return app.openapi_schema or _with_ours(described())

    # As the framework documents it.
    app.openapi = openapi  # type: ignore[method-assign]


def _with_ours(document: dict[str, Any]) -> dict[str, Any]:
    """Put our shape into the framework's document, and take its 422 out: that is our 400."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    shape = Failure.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
    schemas.update({**shape.pop("$defs"), Failure.__name__: shape})
    for path in document["paths"].values():
        for operation in path.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


async def _on_error(_: Request, exc: Exception) -> Response:
    error = as_error(exc)
    # What comes from the system's own errors brings no advice along, and everybody expects some.
    error.context.setdefault("fix", _FIXES.get(error.code, SEE_LOG))
    return answer(error)


async def _on_crash(_: Request, __: Exception) -> Response:
    # The framework raises the exception once more after this answer, and the gate logs it.
    return answer(errors.Internal(fix=SEE_LOG))


async def _on_invalid(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    problem = exc.errors()[0]
    where, *path = problem["loc"]
    if problem["type"] == "json_invalid":
        message = f"the body is not JSON: {problem['ctx']['error']}"
        return answer(errors.InvalidJson(message, fix="send one JSON value", position=path[0]))
    spelled = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    name = ("".join(spelled).removeprefix(".") or str(where))[:_NAME_CHARACTERS_MAX]
    said = problem["msg"].removeprefix("Value error, ")
    named = _NAMED.match(said)
    if not path and named:  # A check of the whole body, which names the field itself.
        name, said = named.groups()
    message = f"{name}: {said}"
    return answer(errors.InvalidArgument(message, fix=f"correct {name}", field=name))


async def _on_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    if exc.status_code == 405:
        allowed = ", ".join(_allowed_methods(request))
        return answer(errors.MethodNotAllowed(fix=f"use {allowed}"), {"allow": allowed})
    if exc.status_code == 404:
        if _is_reader(request):
            return cast("Response", await request.app.state.lost(request))
        return answer(errors.NotFound(fix="check the address; `/` lists what this server has"))
    if isinstance(exc.__cause__, (ValueError, RecursionError)):
        # Bytes that are not UTF-8, a number of thousands of digits, or nested without end.
        return answer(errors.InvalidJson(fix="send one JSON value, encoded as UTF-8"))
    if exc.status_code >= 500:
        return answer(as_error(exc), exc.headers)
    kind = _KIND_OF_STATUS.get(exc.status_code, errors.InvalidArgument)
    return answer(kind(str(exc.detail), fix="correct the request"), exc.headers)


def _is_reader(request: Request) -> bool:
    """Say whether somebody with a browser is lost, where the application has a page for them."""
    has_page = hasattr(request.app.state, "lost")
    is_page = not request.url.path.startswith("/api") and request.method in {"GET", "HEAD"}
    return has_page and is_page and "text/html" in request.headers.get("accept", "")


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes at this address; the framework names only one route's."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]

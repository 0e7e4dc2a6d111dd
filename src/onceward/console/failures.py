"""Failures: makes a FastAPI application answer whatever goes wrong in our one shape.

Owns the translation of the framework's own errors; the shape and the statuses are the gate's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi.exceptions import RequestValidationError
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


def wire_errors(app: FastAPI) -> None:
    """Replace the framework's error answers by ours."""
    app.add_exception_handler(errors.OncewardError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_crash)


async def _on_error(_: Request, exc: Exception) -> Response:
    return answer(as_error(exc))


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
    name = "".join(spelled).removeprefix(".") or str(where)
    message = f"{name}: {problem['msg']}"
    return answer(errors.InvalidArgument(message, fix=f"correct {name}", field=name))


async def _on_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    if exc.status_code == 405:
        allowed = ", ".join(_allowed_methods(request))
        return answer(errors.MethodNotAllowed(fix=f"use {allowed}"), {"allow": allowed})
    if exc.status_code == 404:
        return answer(errors.NotFound(fix="check the address; `/` lists what this server has"))
    if isinstance(exc.__cause__, (UnicodeDecodeError, RecursionError)):
        # Bytes that are not UTF-8, or nested too deeply to be read.
        return answer(errors.InvalidJson(fix="send one JSON value, encoded as UTF-8"))
    if exc.status_code >= 500:
        return answer(as_error(exc), exc.headers)
    kind = _KIND_OF_STATUS.get(exc.status_code, errors.InvalidArgument)
    return answer(kind(str(exc.detail), fix="correct the request"), exc.headers)


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

"""Error responses: one JSON format for every error of a FastAPI application.

Translates the framework's own errors, and documents errors in the OpenAPI document. Which status
an error code has is in `errors.http_status`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from onceward import errors
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.http.guard import SEE_LOG, error_response, to_public_error
from onceward.http.response_schemas import add_schemas, json_doc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_CLASS_OF_STATUS: Final[Mapping[int, type[errors.OncewardError]]] = {
    401: errors.Unauthorized,
    403: errors.RequestRefused,
    413: errors.TooLarge,
    415: errors.UnsupportedMediaType,
}


_FIXES: Final = {
    400: "correct the request",
    404: "check the name or the path",
    503: "try again later; if it keeps failing, check the server's log",
}
#: How many characters of a field name from the request are repeated in the message.
_NAME_CHARACTERS_MAX: Final = 200
#: Splits the message of a body validator into the field it names and the problem.
_FIELD_PREFIX: Final = re.compile(r"([A-Za-z]\w*): (.+)", re.DOTALL)


class ErrorDetail(BaseModel, frozen=True):
    """One error: what happened, and how to fix it."""

    #: Stable name of this kind of error.
    code: str
    message: str
    #: Facts about the error; `fix` says what to do.
    context: dict[str, Any]


class ErrorResponse(BaseModel, frozen=True):
    """The JSON body of every error response."""

    error: ErrorDetail


def error_doc(description: str) -> dict[str, Any]:
    """Return the OpenAPI description of one error response of a route."""
    return json_doc(ErrorResponse, description)


#: Responses by status, as routes document them in the OpenAPI document.
ResponseDocs = dict[int | str, dict[str, Any]]
#: Responses of the request guard; it can give them at every address, so every route lists them.
GUARD_RESPONSES: Final[ResponseDocs] = {
    400: error_doc("The request is malformed; the error names the field."),
    401: error_doc("The token is missing or wrong."),
    403: error_doc("The request was sent by a page of another site."),
    413: error_doc("The body is larger than this server accepts."),
    421: error_doc("The Host header does not name this server."),
    500: error_doc("The server failed; its log has the cause."),
}


def response_docs(
    descriptions: Mapping[int, str], *statuses: int, model: type | None = None
) -> ResponseDocs:
    """Return the documented responses of a route: its model, the guard's, these statuses, 503."""
    chosen: ResponseDocs = {status: error_doc(descriptions[status]) for status in (*statuses, 503)}
    success: ResponseDocs = {} if model is None else {200: json_doc(model, "Successful Response")}
    return {**success, **GUARD_RESPONSES, **chosen}


def install_error_handlers(app: FastAPI) -> None:
    """Give every error of an application the common JSON format, and document it in OpenAPI."""
    app.add_exception_handler(errors.OncewardError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_crash)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        return app.openapi_schema or _with_schemas(described())

    # As the framework documents it.
    app.openapi = openapi  # type: ignore[method-assign]


def _with_schemas(document: dict[str, Any]) -> dict[str, Any]:
    """Add our schemas to the OpenAPI document, and remove the framework's 422: ours is 400."""
    for path in document["paths"].values():
        for operation in path.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
    add_schemas(document)
    return document


async def _on_error(_: Request, exc: Exception) -> Response:
    error = to_public_error(exc)
    # Errors of the operating system carry no fix, and clients expect one.
    error.context.setdefault("fix", _FIXES.get(STATUS_OF_CODE.get(error.code, 500), SEE_LOG))
    return error_response(error)


async def _on_crash(_: Request, __: Exception) -> Response:
    # The framework raises the exception again after this response, and the guard logs it.
    return error_response(errors.Internal(fix=SEE_LOG))


async def _on_invalid(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    problem = exc.errors()[0]
    where, *path = problem["loc"]
    if problem["type"] == "json_invalid":
        message = f"the body is not JSON: {problem['ctx']['error']}"
        return error_response(
            errors.InvalidJson(message, fix="send one JSON value", position=path[0])
        )
    path_parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    name = ("".join(path_parts).removeprefix(".") or str(where))[:_NAME_CHARACTERS_MAX]
    problem_text = problem["msg"].removeprefix("Value error, ")
    named = _FIELD_PREFIX.match(problem_text)
    if not path and named:  # A validator of the body, whose message names the field.
        name, problem_text = named.groups()
    message = f"{name}: {problem_text}"
    return error_response(errors.InvalidArgument(message, fix=f"correct {name}", field=name))


async def _on_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    if exc.status_code == 405:
        allowed = ", ".join(_allowed_methods(request))
        return error_response(errors.MethodNotAllowed(fix=f"use {allowed}"), {"allow": allowed})
    if exc.status_code == 404:
        if _wants_page(request):
            return cast("Response", await request.app.state.not_found_page(request))
        return error_response(errors.NotFound(fix="check the address, or start from `/`"))
    if isinstance(exc.__cause__, (ValueError, RecursionError)):
        # Bytes that are not UTF-8, a number of thousands of digits, or unlimited nesting.
        return error_response(errors.InvalidJson(fix="send one JSON value, encoded as UTF-8"))
    if exc.status_code >= 500:
        return error_response(to_public_error(exc), exc.headers)
    kind = _CLASS_OF_STATUS.get(exc.status_code, errors.InvalidArgument)
    return error_response(kind(str(exc.detail), fix="correct the request"), exc.headers)


def _wants_page(request: Request) -> bool:
    """Return whether a browser expects an HTML page, and the application has one for 404."""
    has_page = hasattr(request.app.state, "not_found_page")
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

"""Models: what the console's own addresses answer, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel


class Health(BaseModel, frozen=True):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str


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


#: The gate can give these on every address, so every documented route lists them.
GATE_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Failure, "description": "The Content-Length header is not a number."},
    401: {"model": Failure, "description": "The token is missing or wrong."},
    403: {"model": Failure, "description": "The request comes from a page of another site."},
    413: {"model": Failure, "description": "The body is larger than this server takes."},
    421: {"model": Failure, "description": "The Host header does not name this server."},
    500: {"model": Failure, "description": "The server failed; its log names the cause."},
}

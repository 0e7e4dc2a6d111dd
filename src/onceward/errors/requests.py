"""Request errors: refused at the gate, or failed without a name behind it."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class RequestRefused(OncewardError):
    """The request was refused before it reached the application."""

    code = "FORBIDDEN"


class Unauthorized(RequestRefused):
    """The token is missing or wrong; send the one this server printed or hands out."""

    code = "UNAUTHORIZED"


class NotFound(RequestRefused):
    """There is nothing at this address."""

    code = "NOT_FOUND"


class MethodNotAllowed(RequestRefused):
    """This address does not take that method."""

    code = "METHOD_NOT_ALLOWED"


class Misdirected(RequestRefused):
    """The Host header does not name this server."""

    code = "MISDIRECTED"


class TooLarge(RequestRefused):
    """The request body is larger than this server takes."""

    code = "TOO_LARGE"


class UnsupportedMediaType(RequestRefused):
    """The request body must be application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RangeNotSatisfiable(RequestRefused):
    """The range begins behind the end of the content."""

    code = "RANGE_NOT_SATISFIABLE"


class Internal(OncewardError):
    """The server failed to answer; the log names the cause."""

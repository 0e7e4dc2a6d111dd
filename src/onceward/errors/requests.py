"""Request errors: rejected by the request guard or by HTTP routing, or failed unexpectedly."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class RequestRefused(OncewardError):
    """The request was rejected before it reached the application; nothing was changed."""

    code = "FORBIDDEN"


class Unauthorized(RequestRefused):
    """The token is missing or wrong; nothing was changed."""

    code = "UNAUTHORIZED"


class NotFound(RequestRefused):
    """There is no resource at this address."""

    code = "NOT_FOUND"


class MethodNotAllowed(RequestRefused):
    """This address does not support that method."""

    code = "METHOD_NOT_ALLOWED"


class Misdirected(RequestRefused):
    """The Host header does not name this server; nothing was changed."""

    code = "MISDIRECTED"


class TooLarge(RequestRefused):
    """The request body is larger than this server accepts; nothing was changed."""

    code = "TOO_LARGE"


class UnsupportedMediaType(RequestRefused):
    """The request body must be application/json; nothing was changed."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RangeNotSatisfiable(RequestRefused):
    """The range begins after the end of the content."""

    code = "RANGE_NOT_SATISFIABLE"


class Internal(OncewardError):
    """The server failed in this request, which may have been carried out; its log has the cause."""

    code = "INTERNAL"

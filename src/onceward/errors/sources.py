"""Source errors: the source of a cursor's messages could not be read."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class SourceError(OncewardError):
    """A source could not be read."""

    code = "SOURCE_ERROR"

    def __init__(
        self,
        message: str = "",
        *,
        fix: str = "",
        status: int | None = None,
        retry_after: str | None = None,
        **context: object,
    ) -> None:
        """Set the message, and the HTTP response of the source if there was one."""
        #: The HTTP status, if there was a response.
        self.status = status
        #: The Retry-After header of the response.
        self.retry_after = retry_after
        super().__init__(message, fix=fix, **context)


class SourceUnavailable(SourceError):
    """The source is not available now; try again later."""

    code = "SOURCE_UNAVAILABLE"
    retryable = True
    default_fix = "check that the service is running, then try again"


class SourceRefused(SourceError):
    """The source cannot be read: messages would be lost, or access is denied."""

    code = "SOURCE_NOT_READABLE"
    #: SQL statements that make a table readable without loss; empty if a person has to decide.
    statements: tuple[str, ...] = ()

"""Source errors: where a cursor's messages come from could not be read."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class SourceError(OncewardError):
    """A source could not be read."""

    code = "UNAVAILABLE"

    def __init__(
        self,
        message: str = "",
        *,
        fix: str = "",
        status: int | None = None,
        retry_after: str | None = None,
        **context: object,
    ) -> None:
        """Keep what a service answered, if one did."""
        #: The HTTP status, if there was an answer.
        self.status = status
        #: What the service said about coming back.
        self.retry_after = retry_after
        super().__init__(message, fix=fix, **context)


class SourceUnavailable(SourceError):
    """The source cannot be read now; try again later."""

    retryable = True
    default_fix = "check that the service is running, then try again"


class SourceRefused(SourceError):
    """The source cannot be read as it is: messages would be lost, or it does not let us."""

    code = "INVALID_ARGUMENT"
    #: SQL that makes a table readable and loses nothing, statement by statement; empty when a
    #: person has to decide.
    statements: tuple[str, ...] = ()

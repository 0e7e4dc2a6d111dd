"""Errors: every exception a user of Onceward can catch, in one tree.

The docstring of a class is its default message. `code` is stable and part of the API, `retryable`
says whether the same call can succeed later without a change by the caller, and `context` carries
the facts, `fix` among them. Knows neither HTTP statuses nor exit codes.
"""

from __future__ import annotations

from typing import ClassVar


class OncewardError(Exception):
    """Something in Onceward failed."""

    #: Stable name of this kind of failure, the same in Python, on the command line and over HTTP.
    code: ClassVar[str] = "INTERNAL"
    #: Whether the same call, unchanged, may succeed later.
    retryable: ClassVar[bool] = False
    #: What to do about it when the raiser knows nothing better.
    default_fix: ClassVar[str] = ""

    def __init__(self, message: str = "", *, fix: str = "", **context: object) -> None:
        """Keep the message, how to fix it, and the facts by name."""
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.fix = fix or self.default_fix
        self.context: dict[str, object] = {**({"fix": self.fix} if self.fix else {}), **context}
        super().__init__(self.message)

    def to_dict(self) -> dict[str, object]:
        """Return the one shape in which errors leave this system."""
        error = {"code": self.code, "message": self.message, "context": self.context}
        return {"error": error}


# --- what the caller sent is not acceptable; nothing was changed ---------------------------------


class InvalidArgument(OncewardError):
    """An argument is missing, malformed or out of range; correct it and call again."""

    code = "INVALID_ARGUMENT"


class NotCanonical(InvalidArgument):
    """A value has no canonical JSON form; send plain JSON values only."""

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Name the place, such as `inputs.items[3].price`, and what is wrong there."""
        #: Where the value stands, written like code that would reach it.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class InvalidJson(InvalidArgument):
    """The text is not acceptable JSON; correct it and send it again."""

    code = "INVALID_JSON"


class InvalidCursor(InvalidArgument):
    """The cursor does not fit this file; start again from "0"."""

    code = "INVALID_CURSOR"
    default_fix = 'reset `since` to "0"'


# --- the machine refused ------------------------------------------------------------------------


class StorageError(OncewardError):
    """The operating system refused a file operation; see the cause."""

    code = "UNAVAILABLE"
    retryable = True


class FileMissing(StorageError):
    """The file does not exist."""

    code = "FILE_NOT_FOUND"
    retryable = False


class DiskFull(StorageError):
    """The disk or the quota is full; nothing was written. Free some space, then try again."""

    default_fix = "free some space, then try again"


class NotWritable(StorageError):
    """The file or its directory may not be written; check owner, mode and mount options."""

    retryable = False
    default_fix = "check the owner, the mode and whether the file system is mounted read-only"


class WrongPath(StorageError):
    """The path does not lead to a file that can be used here."""

    code = "INVALID_ARGUMENT"
    retryable = False
    default_fix = "name a file, not a directory, a link in its place or a pipe"


class FileRefused(StorageError):
    """An earlier fsync of this file failed, so this process trusts it no more."""

    retryable = False
    default_fix = "check the disk, restart the process and run `onceward journal verify`"


class OutcomeUnknown(StorageError):
    """The operation may or may not have happened; look before repeating it."""

    code = "OUTCOME_UNKNOWN"
    retryable = False


# --- a request was refused at the gate ----------------------------------------------------------


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


class Internal(OncewardError):
    """The server failed to answer; the log names the cause."""

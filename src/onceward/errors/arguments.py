"""Argument errors: what the caller sent is not acceptable; nothing was changed."""

from __future__ import annotations

from onceward.errors.base import OncewardError


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

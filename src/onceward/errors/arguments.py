"""Argument errors: the caller passed something invalid; nothing was changed."""

from __future__ import annotations

from typing import NoReturn

from onceward.errors.base import OncewardError


class InvalidArgument(OncewardError):
    """An argument is missing, malformed or out of range; correct it and call again."""

    code = "INVALID_ARGUMENT"


def reject_field(field: str, problem: str, fix: str) -> NoReturn:
    """Raise InvalidArgument for one field, with its path at the start of the message."""
    message = f"{field}: {problem}"
    raise InvalidArgument(message, fix=fix, field=field)


class NotCanonical(InvalidArgument):
    """A value has no canonical JSON form; pass plain JSON values only."""

    code = "NOT_CANONICAL"

    def __init__(self, path: str, problem: str, *, fix: str = "") -> None:
        """Set the path, such as `inputs.items[3].price`, and the problem there."""
        #: Path of the value, written like code that accesses it.
        self.path = path
        super().__init__(f"{path}: {problem}", fix=fix, path=path)


class InvalidJson(InvalidArgument):
    """The text is not valid JSON; correct it and send it again."""

    code = "INVALID_JSON"


class PortInUse(InvalidArgument):
    """Another process listens on this port. Nothing was started."""

    code = "PORT_IN_USE"


class InvalidCursor(InvalidArgument):
    """The cursor does not match this file; start again from "0"."""

    code = "INVALID_CURSOR"
    default_fix = (
        'pass a cursor that this file gave, or "0" for the start: known records are repeated'
    )

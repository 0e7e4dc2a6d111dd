"""Base errors: the root class of all errors, and errors that any operation may raise."""

from typing import ClassVar, Final

_PUBLIC: Final = "onceward.errors"


class OncewardError(Exception):
    """Base class of all errors. Only its subclasses are raised."""

    #: The public import path, in tracebacks and recorded failures; internal modules may change.
    __module__ = _PUBLIC
    #: Stable name of this error, the same in Python, on the command line and over HTTP.
    code: ClassVar[str] = "OPERATION_FAILED"
    #: Whether the same call, unchanged, may succeed later.
    retryable: ClassVar[bool] = False
    #: What to do about it, unless the raiser passes `fix`.
    default_fix: ClassVar[str] = ""

    def __init__(self, message: str = "", *, fix: str = "", **context: object) -> None:
        """Set the message, the fix, and the facts by name."""
        self.message = message or (type(self).__doc__ or "").splitlines()[0]
        self.fix = fix or self.default_fix
        self.context: dict[str, object] = {**({"fix": self.fix} if self.fix else {}), **context}
        super().__init__(self.message)

    def __init_subclass__(cls, **options: object) -> None:
        """Set the public import path of our own classes, but not of others' subclasses."""
        super().__init_subclass__(**options)
        if cls.__module__.startswith(f"{_PUBLIC}."):
            cls.__module__ = _PUBLIC

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form of an error, the same on every interface."""
        error = {"code": self.code, "message": self.message, "context": self.context}
        return {"error": error}


class Conflict(OncewardError):
    """The request conflicts with the current state; nothing was changed."""

    code = "CONFLICT"


class Retryable(OncewardError):
    """Nothing was changed, and a retry may succeed; raised by your function, it frees the key."""

    code = "RETRYABLE"
    retryable = True

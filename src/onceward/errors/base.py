"""Base: the root of the tree, and the kinds of errors that belong to no room of their own."""

from typing import ClassVar, Final

_PUBLIC: Final = "onceward.errors"


class OncewardError(Exception):
    """Something in Onceward failed."""

    #: Where it is imported from, in tracebacks and recorded failures; rooms inside may change.
    __module__ = _PUBLIC
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

    def __init_subclass__(cls, **options: object) -> None:
        """Name the public place of our own kinds; those of others stay where they are."""
        super().__init_subclass__(**options)
        if cls.__module__.startswith(f"{_PUBLIC}."):
            cls.__module__ = _PUBLIC

    def to_dict(self) -> dict[str, object]:
        """Return the one shape in which errors leave this system."""
        error = {"code": self.code, "message": self.message, "context": self.context}
        return {"error": error}


class Conflict(OncewardError):
    """Something is there already, and it stays; nothing was changed."""

    code = "CONFLICT"


class Retryable(OncewardError):
    """Nothing happened and a retry may help; raised by your function, it frees the key."""

    code = "UNAVAILABLE"
    retryable = True

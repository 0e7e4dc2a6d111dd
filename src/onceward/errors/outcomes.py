"""Outcome errors: a key has an outcome, or is about to get one."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class KeyReused(OncewardError):
    """The key was used before, for other work or by another caller; nothing was done."""

    code = "KEY_REUSED"
    default_fix = "use a new key for new work"


class KeyInFlight(OncewardError):
    """Somebody is at this work now; try again when they are done."""

    code = "IN_FLIGHT"
    retryable = True
    default_fix = "try again later, or pass wait= to wait for the result"


class KeyAmbiguous(OncewardError):
    """The work was begun, then silence: it may have happened, so it is not run again."""

    code = "AMBIGUOUS"
    default_fix = "find out whether it happened, then run `onceward outcomes reconcile`"


class KeyExpired(OncewardError):
    """The key was used long ago and its result has run out; nothing was done."""

    code = "KEY_EXPIRED"
    default_fix = "use a new key for new work"


class FenceLost(OncewardError):
    """Somebody else was granted this work, or settled it; stop, do not retry."""

    code = "CONFLICT"
    default_fix = "call again to get the outcome that counts"


class NotReconcilable(OncewardError):
    """There is nothing to decide: the key is unknown, at work, or settled."""

    code = "CONFLICT"
    default_fix = "look at it with `onceward outcomes show`"


class RecordedFailure(OncewardError):
    """The work failed before, for good; this is that failure again."""

    code = "RECORDED_FAILURE"
    default_fix = "use a new key to try anew, or run `onceward outcomes forget`"

    def __init__(self, type: str, message: str, data: object = None) -> None:  # noqa: A002 - its name
        """Keep the class, the message and the data of the first failure."""
        #: Name of the class that was raised the first time.
        self.type = type
        #: What it said.
        self.failure_message = message
        #: What it carried, if that was JSON.
        self.data = data
        #: Whether it is the cause of a replayed error of a class in `raises=`.
        self.is_cause = False
        # With a new key, work that ended so would be done again.
        fix = ResultNotStored.default_fix if type.endswith(".ResultNotStored") else ""
        super().__init__(f"{type}: {message}", fix=fix, type=type, data=data)


class ResultNotStored(OncewardError):
    """The work was done, but its result could not be stored; it does not run again."""

    code = "RESULT_NOT_STORED"
    default_fix = (
        "look up the effect where it took place; for later work annotate the return type, "
        "or return plain JSON"
    )

    def __init__(self, message: str = "", *, value: object = None, **context: object) -> None:
        """Keep what the function returned, for its own caller; later callers get None."""
        #: What the function returned; None for every later caller.
        self.value = value
        super().__init__(message, **context)  # type: ignore[arg-type]  # the facts, by name

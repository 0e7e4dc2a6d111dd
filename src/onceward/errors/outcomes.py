"""Outcome errors: a key has an outcome, or is about to get one."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class KeyReused(OncewardError):
    """The key was used before, for other work; nothing was done."""

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
        super().__init__(f"{type}: {message}", type=type, data=data)

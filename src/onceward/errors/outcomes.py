"""Outcome errors: a key is in use, settled or ambiguous, or its result cannot be replayed."""

from __future__ import annotations

from onceward.errors.base import OncewardError


class KeyReused(OncewardError):
    """The key was used before, for other work or by another caller; nothing was done."""

    code = "KEY_REUSED"
    default_fix = "use a new key for new work"


class KeyInFlight(OncewardError):
    """Another caller is running this key; nothing was done. Try again later."""

    code = "IN_FLIGHT"
    retryable = True
    default_fix = "try again later, or pass wait= to @once to wait for the result"


class KeyAmbiguous(OncewardError):
    """The call started but never reported a result; it may have completed. It was not run again."""

    code = "AMBIGUOUS"
    default_fix = "find out whether it happened, then run `onceward outcomes reconcile`"


class KeyExpired(OncewardError):
    """The result of this key has expired; nothing was done."""

    code = "KEY_EXPIRED"
    default_fix = "use a new key for new work"


class FenceLost(OncewardError):
    """The claim is stale: the key was taken over, settled or forgotten. Nothing was recorded."""

    code = "FENCE_LOST"
    default_fix = (
        "call again with the same key: it returns the recorded outcome, or runs if there is none; "
        "while another caller runs it, KeyInFlight is raised: call again later; what this call did "
        "outside the store is not undone"
    )


class NotReconcilable(OncewardError):
    """There is nothing to reconcile: the key is unknown, running or settled."""

    code = "NOT_RECONCILABLE"
    default_fix = "see its state with `onceward outcomes show SCOPE KEY`"


class RecordedFailure(OncewardError):
    """The call failed permanently before; this is the recorded failure."""

    code = "RECORDED_FAILURE"
    default_fix = (
        "nothing was done this time; use a new key to try again, or run `onceward outcomes forget`"
    )

    def __init__(self, type: str, message: str, data: object = None) -> None:  # noqa: A002 - its name
        """Keep the class, the message and the data of the first failure."""
        #: Name of the class that was raised the first time.
        self.type = type
        #: Its message.
        self.failure_message = message
        #: Its data, if that was JSON.
        self.data = data
        #: Whether it is the cause of a replayed error of a class in `raises=`.
        self.is_cause = False
        # A new key would run completed work again.
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

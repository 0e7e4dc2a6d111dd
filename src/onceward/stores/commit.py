"""Commit: the end of a user's transaction, the same on every engine, between two crash points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from onceward.crash import crash_point
from onceward.errors import OutcomeUnknown


class Committing(Protocol):
    """What can be made durable."""

    #: Whom to tell when nobody knows whether it is.
    unknown: list[Callable[[], None]]

    def commit(self) -> None:
        """Make it durable."""

    def check_nested(self) -> None:
        """Raise while a call is still running in it."""


def commit(transaction: Committing) -> None:
    """Make a user's transaction durable."""
    transaction.check_nested()
    crash_point("transaction.before_commit")
    commit_telling(transaction)
    crash_point("transaction.after_commit")


def commit_telling(transaction: Committing) -> None:
    """Make it durable; whoever must know is told when nobody knows whether it is."""
    try:
        transaction.commit()
    except BaseException as exc:
        if is_unknown(exc):
            for call in transaction.unknown:
                call()
        raise


def is_unknown(exc: BaseException) -> bool:
    """Say whether a commit that raised this may have happened: an interrupt, too, may come late."""
    return isinstance(exc, OutcomeUnknown) or not isinstance(exc, Exception)

"""Commit: commit a user's transaction on either engine, and report ambiguous commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from onceward.errors import OutcomeUnknown
from onceward.system.crash_points import crash_point


class Committable(Protocol):
    """A transaction that can be committed."""

    #: Called when the commit is ambiguous.
    unknown_callbacks: list[Callable[[], None]]

    def commit(self) -> None:
        """Commit."""

    def check_nested(self) -> None:
        """Raise while a nested call is still running in the transaction."""


def commit(transaction: Committable) -> None:
    """Commit a user's transaction, between two crash points."""
    transaction.check_nested()
    crash_point("transaction.before_commit")
    commit_reporting_unknown(transaction)
    crash_point("transaction.after_commit")


def commit_reporting_unknown(transaction: Committable) -> None:
    """Commit; run the registered callbacks if it is ambiguous whether the commit happened."""
    try:
        transaction.commit()
    except BaseException as exc:
        if is_unknown(exc):
            for call in transaction.unknown_callbacks:
                call()
        raise


def is_unknown(exc: BaseException) -> bool:
    """Return whether a commit that raised this is ambiguous; an interrupt may come after it."""
    return isinstance(exc, OutcomeUnknown) or not isinstance(exc, Exception)

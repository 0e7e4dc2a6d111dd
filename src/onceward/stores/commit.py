"""Commit: the end of a user's transaction, the same on every engine, between two crash points."""

from __future__ import annotations

from typing import Protocol

from onceward.crash import crash_point


class Committing(Protocol):
    """What can be made durable."""

    def commit(self) -> None:
        """Make it durable."""


def commit(transaction: Committing) -> None:
    """Make a user's transaction durable."""
    crash_point("transaction.before_commit")
    transaction.commit()
    crash_point("transaction.after_commit")

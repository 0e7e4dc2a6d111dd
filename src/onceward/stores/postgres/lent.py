"""Lent: a second psycopg connection object over the session of a first one.

The user's database layer gets one over our session, and our statements run through one over the
session of a framework. The settings of each object (row factory, adapters, cursors) stay its own.
A second object is of no use once it is detached, whoever has the session then.
"""

from __future__ import annotations

from typing import Any, Self

import psycopg

from onceward.stores import forks
from onceward.stores.lending import Lending, is_read
from onceward.stores.postgres.pooler import note_missing


class SecondConnection(psycopg.Connection[Any]):
    """A connection object that shares the session, the lock and the prepared statements."""

    #: The process that may use it.
    _born: int | None = None

    @classmethod
    def over(cls, first: psycopg.Connection[Any]) -> Self:
        """Return one over the session of the first."""
        session = first.pgconn
        handlers = session.notice_handler, session.notify_handler
        second = cls(session)
        second._born = forks.number
        session.notice_handler, session.notify_handler = handlers
        second.lock = first.lock
        second._prepared = first._prepared  # noqa: SLF001 - names are of the session
        return second

    def detach(self) -> None:
        """Let this object and its cursors reach the session no more."""
        self._born = None

    @property
    def closed(self) -> bool:
        """Return whether it was detached, or belongs to the parent of a forked child."""
        return self._born != forks.number or super().closed

    def _check_attached(self) -> None:
        if self._born != forks.number:
            message = "the transaction that lent this connection has ended"
            raise psycopg.OperationalError(message)

    def close(self) -> None:
        """Do nothing: the session belongs to the first connection."""

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one step of a conversation with the server, as every method does."""
        self._check_attached()
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.InvalidSqlStatementName as exc:
            note_missing(self._prepared, exc)
            raise


class LentCursor(psycopg.Cursor[Any]):
    """A cursor of the user's; what only reads does not count as a write."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - as psycopg has them
        """Run one statement."""
        lent = self.connection
        assert isinstance(lent, LentConnection)
        writes = lent.writes
        super().execute(query, *args, **kwargs)
        if isinstance(query, str) and is_read(query):
            lent.writes = writes
        return self


class LentConnection(SecondConnection):
    """What the user gets: its commits stay inside our transaction."""

    lending: Lending
    #: How often the user has talked to the server, without statements that only read.
    writes = 0

    @classmethod
    def over(cls, first: psycopg.Connection[Any]) -> Self:
        """Return one over the session of the first."""
        lent = super().over(first)
        lent.cursor_factory = LentCursor
        return lent

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one step of a conversation with the server, and count it."""
        self.writes += 1
        return super().wait(gen, *args, **kwargs)

    def commit(self) -> None:
        """Keep what was written so far; the transaction commits it at its end."""
        self._check_attached()
        self.lending.commit()

    def rollback(self) -> None:
        """Undo what was written since the last commit, or since the connection was lent."""
        self._check_attached()
        self.lending.roll_back()

    @property
    def autocommit(self) -> bool:
        """Return False; setting it does nothing."""
        return False

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        """Do nothing: the transaction is open."""

    def set_autocommit(self, value: bool) -> None:  # noqa: FBT001 - psycopg's
        """Do nothing: the transaction is open."""

"""Shared connection: a second psycopg connection object on the session of an open connection.

The user's ORM gets one for our session, and our statements run through one for a framework's
session. Each object keeps separate settings (row factory, adapters, cursors). Once detached, a
second object cannot reach the session.
"""

from __future__ import annotations

from typing import Any, Self

import psycopg

from onceward.stores import fork_safety
from onceward.stores.postgres.pooler import record_missing_statement
from onceward.stores.shared_savepoints import LentSavepoints, is_read


class SecondConnection(psycopg.Connection[Any]):
    """A connection object that shares the session, the lock and the prepared statements."""

    #: The process that may use it.
    _fork_number: int | None = None

    @classmethod
    def over(cls, first: psycopg.Connection[Any]) -> Self:
        """Return a second object for the session of `first`."""
        session = first.pgconn
        handlers = session.notice_handler, session.notify_handler
        second = cls(session)
        second._fork_number = fork_safety.number
        session.notice_handler, session.notify_handler = handlers
        second.lock = first.lock
        second._prepared = first._prepared  # noqa: SLF001 - names belong to the session
        return second

    def detach(self) -> None:
        """Cut this object and its cursors off from the session."""
        self._fork_number = None

    @property
    def closed(self) -> bool:
        """Return whether it was detached, or belongs to the parent of this forked process."""
        return self._fork_number != fork_safety.number or super().closed

    def _check_attached(self) -> None:
        if self._fork_number != fork_safety.number:
            message = "the transaction that lent this connection has ended"
            raise psycopg.OperationalError(message)

    def close(self) -> None:
        """Do nothing: the session belongs to the first connection."""

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one protocol exchange with the server; every method uses it."""
        self._check_attached()
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.errors.InvalidSqlStatementName as exc:
            record_missing_statement(self._prepared, exc)
            raise


class LentCursor(psycopg.Cursor[Any]):
    """A user cursor; statements that only read do not count as writes."""

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
    """The connection lent to the user; its commits stay inside our transaction."""

    lending: LentSavepoints
    #: Number of the user's exchanges with the server, except statements that only read.
    writes = 0

    @classmethod
    def over(cls, first: psycopg.Connection[Any]) -> Self:
        """Return a connection to lend, for the session of `first`."""
        lent = super().over(first)
        lent.cursor_factory = LentCursor
        return lent

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as psycopg has them
        """Run one protocol exchange with the server, and count it."""
        self.writes += 1
        return super().wait(gen, *args, **kwargs)

    def commit(self) -> None:
        """Keep the writes so far; our transaction commits them at its end."""
        self._check_attached()
        self.lending.commit()

    def rollback(self) -> None:
        """Undo the writes since the last commit, or since the connection was lent."""
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

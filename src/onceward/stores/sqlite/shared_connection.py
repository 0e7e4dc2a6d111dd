"""Shared connection: lend our `sqlite3` connection to the user's ORM inside our transaction.

`with connection:`, `executescript` and `isolation_level` commit in C, where no subclass can stop
them. So an authorizer denies BEGIN, COMMIT and ROLLBACK while a connection is lent. A connection
that was lent is closed when the transaction ends: a reused one would keep the user's settings, and
the user could write into the next transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Final, Literal, NamedTuple

from onceward.stores import fork_safety
from onceward.stores.base import Params, Row
from onceward.stores.shared_savepoints import LentSavepoints

#: Actions allowed after an SQLite error has ended the transaction: a write would commit.
_READING: Final = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
#: Transaction control; also ATTACH, since a WAL commit to two files may reach only one of them.
_CONTROL: Final = (sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
#: The schema tables: every schema change writes to them.
_SCHEMAS: Final = ("sqlite_master", "sqlite_temp_master")
_LEGACY_TRANSACTION_CONTROL: Final = -1
_ISOLATION_LEVEL: Final[Any] = sqlite3.Connection.isolation_level


class LendableConnection(sqlite3.Connection):
    """A `sqlite3` connection whose commits stay inside our transaction while it is lent."""

    #: Set while it is lent.
    lending: LentSavepoints | None = None

    def commit(self) -> None:
        """Keep the writes so far; our transaction commits them at its end."""
        if self.lending is None:
            super().commit()
        else:
            self.lending.commit()

    def rollback(self) -> None:
        """Undo the writes since the last commit, or since the connection was lent."""
        if self.lending is None:
            super().rollback()
        elif self.in_transaction:  # Otherwise SQLite has rolled back.
            self.lending.roll_back()

    def close(self) -> None:
        """Do nothing while it is lent: the transaction needs it."""
        if self.lending is None:
            super().close()

    def __exit__(self, kind: object, *_: object) -> Literal[False]:
        """Commit or roll back as above; `sqlite3` itself would commit in C."""
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:  # noqa: ARG002 - sqlite3's
        """Raise NotSupportedError: it would commit first."""
        message = "executescript commits first; run the statements one by one"
        raise sqlite3.NotSupportedError(message)

    def set_authorizer(self, authorizer_callback: object) -> None:  # noqa: ARG002 - sqlite3's
        """Raise NotSupportedError: our authorizer must stay while it is lent."""
        message = "this connection has an authorizer, which keeps the transaction open"
        raise sqlite3.NotSupportedError(message)

    @property
    def isolation_level(self) -> Any:  # noqa: ANN401 - as typeshed has it
        """Return the level at which `sqlite3` begins transactions; setting it does nothing."""
        return super().isolation_level

    @isolation_level.setter
    def isolation_level(self, value: object) -> None:
        """Do nothing: `sqlite3` would commit."""

    @property
    def autocommit(self) -> int:
        """Return how `sqlite3` commits, as Python 3.12 names it; setting it does nothing."""
        return _LEGACY_TRANSACTION_CONTROL

    @autocommit.setter
    def autocommit(self, value: object) -> None:
        """Do nothing: `sqlite3` would commit."""


class _Fetched(NamedTuple):
    """The result of one of our statements."""

    rows: list[Row]
    rowcount: int

    def fetchall(self) -> list[Row]:
        return self.rows


class OwnStatements:
    """Runs our statements on a connection with the user's settings."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        """Use this connection."""
        self._raw = raw
        #: The thread that runs one of our statements, or 0.
        self._thread = 0
        self._fork_number = fork_safety.number
        #: Rows changed by our statements, and schema changes by the user's.
        self._own_changes = self._schema_changes = 0

    def writes(self) -> int:
        """Return a number that grows with each user write."""
        return self._raw.total_changes - self._own_changes + self._schema_changes

    def lend(self, lending: LentSavepoints) -> sqlite3.Connection:
        """Lend the connection to the user, who can neither begin nor end a transaction on it."""
        raw = self._raw
        assert isinstance(raw, LendableConnection)
        if raw.lending is None:
            # `sqlite3` begins a transaction before a write outside of one; that is denied, too.
            _ISOLATION_LEVEL.__set__(raw, "")
            sqlite3.Connection.set_authorizer(raw, self._authorize)
        raw.lending = lending
        return raw

    def _authorize(self, action: int, table: str | None, *_: Any) -> int:  # noqa: ANN401 - SQLite's
        if self._fork_number != fork_safety.number:
            return sqlite3.SQLITE_DENY  # A forked child must not use its parent's connection.
        is_outside = action not in _READING and not self._raw.in_transaction
        if (action in _CONTROL or is_outside) and threading.get_ident() != self._thread:
            return sqlite3.SQLITE_DENY
        self._schema_changes += table in _SCHEMAS and action not in _READING
        return sqlite3.SQLITE_OK

    def execute(self, sql: str, params: Params = ()) -> _Fetched:
        """Run one of our statements and fetch its rows as tuples with `str` texts."""
        raw, self._thread = self._raw, threading.get_ident()
        factory, raw.text_factory = raw.text_factory, str
        changes = raw.total_changes
        try:
            cursor = sqlite3.Cursor(raw)  # Not `raw.cursor()`, which has the user's row factory.
            rows = cursor.execute(sql, params).fetchall()
            # With `pragma count_changes` a write returns a row with the number of changes.
            is_counted = cursor.rowcount >= 0 and "returning" not in sql.lower()
            return _Fetched([] if is_counted else rows, cursor.rowcount)
        finally:
            self._thread = 0
            self._own_changes += raw.total_changes - changes
            raw.text_factory = factory

    @property
    def in_transaction(self) -> bool:
        """Return whether SQLite has a transaction open."""
        return self._raw.in_transaction

    @property
    def total_changes(self) -> int:
        """Return the number of rows that the connection has changed since it was opened."""
        return self._raw.total_changes

    def interrupt(self) -> None:
        """Interrupt the statement that another thread runs."""
        self._raw.interrupt()

    def close(self) -> None:
        """Close the connection; the user's object cannot be used afterwards."""
        if isinstance(self._raw, LendableConnection):
            self._raw.lending = None
        self._raw.close()

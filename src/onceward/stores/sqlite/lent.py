"""Lent: the driver's own connection, given to the user's database layer inside our transaction.

`with connection:`, `executescript` and `isolation_level` commit in C, where no subclass can stop
them. So an authorizer denies BEGIN, COMMIT and ROLLBACK while a connection is lent. A connection
that was lent is closed when the transaction ends: the next one to use it would inherit the user's
settings, and the user could reach the next one's transaction.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Final, Literal, NamedTuple

from onceward.stores import forks
from onceward.stores.base import Params, Row
from onceward.stores.lending import Lending

#: What may be compiled when an error of SQLite's has ended the transaction: a write would commit.
_READING: Final = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
#: What belongs to the transaction; a commit to two files in WAL mode may reach one of them alone.
_CONTROL: Final = (sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
#: The tables that hold the schema: every change of it writes there.
_SCHEMAS: Final = ("sqlite_master", "sqlite_temp_master")
_LEGACY_TRANSACTION_CONTROL: Final = -1
_ISOLATION_LEVEL: Final[Any] = sqlite3.Connection.isolation_level


class LendableConnection(sqlite3.Connection):
    """A connection of `sqlite3`; while it is lent, its commits stay inside our transaction."""

    #: Set while it is lent.
    lending: Lending | None = None

    def commit(self) -> None:
        """Keep what was written so far; the transaction commits it at its end."""
        if self.lending is None:
            super().commit()
        else:
            self.lending.commit()

    def rollback(self) -> None:
        """Undo what was written since the last commit, or since the connection was lent."""
        if self.lending is None:
            super().rollback()
        elif self.in_transaction:  # Otherwise SQLite has undone everything.
            self.lending.roll_back()

    def close(self) -> None:
        """Do nothing while it is lent: the transaction needs it."""
        if self.lending is None:
            super().close()

    def __exit__(self, kind: object, *_: object) -> Literal[False]:
        """Commit or roll back as above; the method of `sqlite3` would commit in C."""
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:  # noqa: ARG002 - sqlite3's
        """Refuse: it would commit first."""
        message = "executescript commits first; run the statements one by one"
        raise sqlite3.NotSupportedError(message)

    def set_authorizer(self, authorizer_callback: object) -> None:  # noqa: ARG002 - sqlite3's
        """Refuse to replace ours while it is lent."""
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
    """What a statement of ours returned."""

    rows: list[Row]
    rowcount: int

    def fetchall(self) -> list[Row]:
        return self.rows


class OwnStatements:
    """Runs our statements on a connection whose settings are the user's."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        """Use this connection."""
        self._raw = raw
        #: The thread that runs a statement of ours, if one does.
        self._thread = 0
        self._born = forks.number
        #: Rows that our own statements have changed, and statements of the user's on the schema.
        self._own_changes = self._schema_changes = 0

    def writes(self) -> int:
        """Return a number that grows with each write of the user's."""
        return self._raw.total_changes - self._own_changes + self._schema_changes

    def lend(self, lending: Lending) -> sqlite3.Connection:
        """Return the connection for the user, who can neither begin nor end a transaction."""
        raw = self._raw
        assert isinstance(raw, LendableConnection)
        if raw.lending is None:
            # `sqlite3` itself would begin a transaction before a write outside of one: denied, too.
            _ISOLATION_LEVEL.__set__(raw, "")
            sqlite3.Connection.set_authorizer(raw, self._authorize)
        raw.lending = lending
        return raw

    def _authorize(self, action: int, table: str | None, *_: Any) -> int:  # noqa: ANN401 - SQLite's
        if self._born != forks.number:
            return sqlite3.SQLITE_DENY  # A forked child must not use its parent's connection.
        is_outside = action not in _READING and not self._raw.in_transaction
        if (action in _CONTROL or is_outside) and threading.get_ident() != self._thread:
            return sqlite3.SQLITE_DENY
        self._schema_changes += table in _SCHEMAS and action not in _READING
        return sqlite3.SQLITE_OK

    def execute(self, sql: str, params: Params = ()) -> _Fetched:
        """Run one statement of ours and fetch its rows, as tuples with text as `str`."""
        raw, self._thread = self._raw, threading.get_ident()
        factory, raw.text_factory = raw.text_factory, str
        changes = raw.total_changes
        try:
            cursor = sqlite3.Cursor(raw)  # Not `raw.cursor()`, which has the user's row factory.
            rows = cursor.execute(sql, params).fetchall()
            # With `pragma count_changes` a write returns a row that counts what it changed.
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
        """End the statement that another thread runs."""
        self._raw.interrupt()

    def close(self) -> None:
        """End the lending and close the connection: the user's object is of no use any more."""
        if isinstance(self._raw, LendableConnection):
            self._raw.lending = None
        self._raw.close()

"""Framework connection: run our statements on a framework's `sqlite3` connection.

Does not take our write lock: the framework holds SQLite's own lock already or is about to take it,
and a holder of ours would wait for that one. SQLite's lock serialises the writers.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from onceward.stores.framework_transaction import (
    SAVEPOINT,
    ended,
    foreign_driver,
    not_begun,
    other_database,
)
from onceward.stores.sqlite.connection import DRIVER_ERRORS, SqliteConnection, mapped_errors
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.transaction import SqliteTransaction
from onceward.system import Clock

#: Changes no row and takes the write lock, which a plain BEGIN does not.
_TAKE_WRITE_LOCK = "update onceward_migrations set name = name where false"


class JoinedSqliteTransaction(SqliteTransaction):
    """A savepoint in a framework's transaction; it holds SQLite's write lock from the start.

    So no hook waits for a first write, and `run_in_own_transaction` raises WriterHeld instead of
    waiting for this transaction.
    """

    def __init__(self, raw: object, clock: Clock, database: Database) -> None:
        """Use this connection, which must have begun a transaction on the same file."""
        if not isinstance(raw, sqlite3.Connection):
            raise foreign_driver(raw, "sqlite3.Connection")
        super().__init__(SqliteConnection.of(raw), clock, database)
        self.raw = raw
        if not raw.in_transaction:
            raise not_begun()
        self._check_file()
        self.begin()

    def _check_file(self) -> None:
        rows = self._connection.execute("pragma database_list")
        path = next(str(row[2]) for row in rows if row[1] == "main")
        ours = self._database.path
        with suppress(OSError):
            if path and Path(path).samefile(ours):
                return
        raise other_database(path or "a database in memory", str(ours))

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the framework's connection."""
        self._check_alive()
        for call in self._every_write:
            call()
        return self.raw

    def begin(self) -> None:
        """Take SQLite's write lock inside the framework's transaction, unless it is held."""
        if self._writing:
            return
        self._check_alive()
        with mapped_errors("join"):
            self._connection.execute(f"savepoint {SAVEPOINT}")
            self._writing = True
            try:
                self._connection.execute(_TAKE_WRITE_LOCK)
            except BaseException:
                self.roll_back()
                raise

    def commit(self) -> None:
        """Run the commit-time statements; the framework commits."""
        try:
            # First: in another transaction the commit-time statements would be committed alone.
            self._connection.execute(f"release {SAVEPOINT}")
            self._connection.execute(f"savepoint {SAVEPOINT}")
        except DRIVER_ERRORS as exc:
            raise ended(exc) from exc
        self.run_commit_queries()
        with mapped_errors("join"):
            self._connection.execute(f"release {SAVEPOINT}")
        self._writing = False

    def committed(self) -> None:
        """Run the after-commit callbacks, once the framework has committed."""
        done, self._after_commit = self._after_commit, []
        for call in done:
            call()

    def roll_back(self) -> None:
        """Undo the block's writes, and nothing before it; the framework ends the transaction."""
        if not self._writing or not self.is_of_this_process:
            return
        self._writing = False
        self._after_commit.clear()
        if self.raw.in_transaction:
            with suppress(*DRIVER_ERRORS):
                self._connection.execute(f"rollback to {SAVEPOINT}")
                self._connection.execute(f"release {SAVEPOINT}")

"""SQLite transaction: run and commit statements on one SQLite connection."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown, SqlFailed
from onceward.stores import fork_safety
from onceward.stores.base import Params, Row, Rows
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import query
from onceward.stores.shared_savepoints import LentSavepoints
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    ConnectionInUse,
    ConnectionOfParent,
    DriverError,
    SqliteConnection,
    kind_of,
    mapped_error,
    mapped_errors,
)
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.write_lock import same_thread_check
from onceward.stores.transaction_hooks import TransactionHooks
from onceward.stores.user_statements import bound, check_statement
from onceward.system import Clock, timestamp

#: Types that can be bound; the driver would also store dates, as text in its own format.
_PLAIN: Final = frozenset({int, str, bytes})
_BINDABLE: Final = (int, str, float, bytes, bytearray, memoryview)


class SqliteTransaction(TransactionHooks):
    """A transaction that takes the write lock at its first write."""

    def __init__(
        self,
        connection: SqliteConnection,
        clock: Clock,
        database: Database,
        is_inside: Callable[[], bool] | None = None,
    ) -> None:
        """Use `connection`; writes wait for the database's write lock.

        `is_inside` returns whether its caller must not wait for this transaction's end. Default:
        the thread that begins to write.
        """
        super().__init__()
        self._connection = connection
        self._clock = clock
        self._database = database
        self._write_lock = database.write_lock
        self._changes = 0
        self._is_inside = is_inside
        self._writing = False
        self._fork_number = fork_safety.number
        self._open_in: int | None = self._fork_number
        self._after_commit: list[Callable[[], None]] = []
        self._lending: LentSavepoints | None = None

    @property
    def connection(self) -> sqlite3.Connection:
        """Lend the driver's connection to the user's database layer, until the transaction ends.

        Takes the write lock. Its `commit` keeps the writes as part of this transaction, its
        `rollback` undoes the writes since then.
        """
        self.begin()
        self._check_alive()
        for call in self._every_write:
            call()
        own = self._connection.own_statements()
        if self._lending is None:
            with mapped_errors("savepoint"):
                self._lending = LentSavepoints(self._connection.execute, own.writes)
        return own.lend(self._lending)

    @property
    def is_joinable(self) -> bool:
        """Return whether it is open, in the process that opened it."""
        return self._open_in == fork_safety.number

    @property
    def is_of_this_process(self) -> bool:
        """Return whether this process opened it, and not the parent of a forked child."""
        return self._fork_number == fork_safety.number

    def end(self) -> None:
        """Roll back what was not committed; the transaction cannot be used afterwards.

        Tasks and threads started inside the block may still have a reference to it.
        """
        self._open_in = None
        self.roll_back()

    @property
    def is_writing(self) -> bool:
        """Return whether the write lock is held."""
        return self._writing

    @property
    def is_open(self) -> bool:
        """Return whether SQLite has the transaction open: some errors roll it back."""
        return self._connection.in_transaction

    def on_lease_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Do nothing: on SQLite the rows of a statement show that a lease is lost."""

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one user statement."""
        check_statement(sql, "sqlite")
        values = _storable(params)
        translated_sql = for_sqlite(sql)
        try:
            kind = kind_of(self._connection, translated_sql, values)
            if kind == "write":
                self.begin()
                for call in self._every_write:
                    call()
            self._check_alive()
            rows = self._connection.run(translated_sql, values)
            if kind == "write" and self._lending is not None:
                self._lending.wrote()
        except DRIVER_ERRORS as exc:
            raise mapped_error(exc, "sql") from exc
        return rows

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one user statement for each row."""
        for row in rows:
            self.execute(sql, row)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements; the current time is added to its parameters."""
        sql, values = statement(self._clock, name, params)
        if not self._writing and kind_of(self._connection, sql, values) == "write":
            self.begin()
        else:
            self._check_alive()
        try:
            rows = self._connection.execute(sql, values)
            if self._lending is not None and kind_of(self._connection, sql, values) == "write":
                self._lending.wrote()
        except DRIVER_ERRORS as exc:
            raise mapped_error(exc, name) from exc
        return rows

    def run_with_begin(self, name: str, /, **params: object) -> None:
        """Run one of our own statements once the write lock is held."""

        def run() -> None:
            self.query(name, **params)

        self.on_first_write(run)

    def control(self, sql: str) -> None:
        """Run a transaction control statement, such as SAVEPOINT."""
        with mapped_errors(sql):
            self._connection.execute(sql)
            if self._lending is not None:
                self._lending.follow(sql)

    def script(self, sql: str) -> None:
        """Run several statements of ours, such as a migration."""
        self.begin()
        with mapped_errors("script"):
            self._connection.script(sql)

    def begin(self) -> None:
        """Take the write lock, unless it is held."""
        if self._writing:
            return
        self._check_alive()
        is_inside = self._is_inside or same_thread_check()
        try:
            self._write_lock.acquire(is_inside)
            self._connection.execute("begin immediate")
            self._changes = self._connection.raw.total_changes
            self._writing = True
        except BaseException as exc:
            # An interrupt may come on any line.
            self._writing = False
            if self._write_lock.was_acquired_with(is_inside):
                self._is_undone()
                self._write_lock.release()
            if isinstance(exc, DRIVER_ERRORS):
                # As on PostgreSQL. A worker recognises by it that the store failed, not the
                # handler.
                self._is_rollback_only = True
                raise mapped_error(exc, "begin") from exc
            raise
        try:
            for call in self._first_write:
                call()
        except BaseException as exc:
            # Nothing was written: the hooks run again before the next attempt.
            self.roll_back()
            self._is_rollback_only |= isinstance(exc, Exception)
            raise

    def run_savepoint(self, sql: str) -> None:
        """Run a SAVEPOINT, RELEASE or ROLLBACK TO statement."""
        self._check_alive()
        self.control(sql)

    def run_commit_queries(self) -> None:
        """Run the commit-time statements; their checks raise to abort the commit."""
        self._check_alive()
        if not self._commit_queries:
            return
        last, self._commit_queries = self._commit_queries, []
        for name, check, params in last:
            done = check(self.query(name, **params))
            if done is not None:
                self._after_commit.append(done)

    def callback_counts(self) -> tuple[int, int]:
        """Return the current numbers of callbacks, for `drop_callbacks`."""
        return len(self._after_commit), len(self.unknown_callbacks)

    def drop_callbacks(self, counts: tuple[int, int] = (0, 0)) -> None:
        """Drop the callbacks that an operation registered after `counts` were taken."""
        del self._after_commit[counts[0] :]
        del self.unknown_callbacks[counts[1] :]
        self.reset_for_next_operation()

    def reset_for_next_operation(self) -> None:
        """Reset the state for the next operation; after-commit callbacks stay registered."""
        self._is_rollback_only = False
        self._commit_queries.clear()
        self._first_write.clear()
        self._every_write.clear()

    def commit(self) -> None:
        """Commit; an error of COMMIT itself is OutcomeUnknown, since it may be durable."""
        self._check_alive()
        if self._lending is not None:
            self._take_back(self._lending)
            self._lending = None  # Commit-time statements run outside of it.
        if self._commit_queries:
            self.run_commit_queries()
            self._check_alive()
        if not self._writing:
            return
        try:
            self._connection.execute("commit")
        except DRIVER_ERRORS as exc:
            raise commit_error(exc) from exc
        rows = self._connection.raw.total_changes - self._changes
        self._database.committed(self._connection, rows)
        self._end()
        done, self._after_commit = self._after_commit, []
        for call in done:
            call()

    def _take_back(self, lending: LentSavepoints) -> None:
        """Release the savepoints of the lent connection; abort the commit if one is missing."""
        try:
            lending.end()
        except DRIVER_ERRORS as exc:
            self._is_rollback_only = True
            message = f"commit: `tx.connection` is still in use, so nothing was committed: {exc}"
            fix = "close its cursors, and do not release Onceward's savepoints"
            raise SqlFailed(message, fix=fix) from exc

    def roll_back(self) -> None:
        """Roll back, unless it is the parent's: a forked child does not hold its locks."""
        self._after_commit.clear()
        self._lending = None
        if not self._writing or not self.is_of_this_process:
            return
        try:
            while not self._is_undone():
                # An abandoned thread is still running a statement: interrupt it.
                self._connection.interrupt()
        finally:
            self._end()

    def _is_undone(self) -> bool:
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except ConnectionInUse:
            return False
        return True

    def _check_alive(self) -> None:
        """Raise if the transaction has ended: each further statement would autocommit."""
        if self._open_in != fork_safety.number:
            message = "this transaction has ended; nothing was done"
            raise SqlFailed(message, fix="open a new transaction")
        try:
            is_undone = self._writing and not self._connection.raw.in_transaction
        except sqlite3.ProgrammingError:  # The connection is closed.
            is_undone = True
        if self._is_rollback_only or is_undone:
            message = "an earlier error has rolled back this transaction; nothing is committed"
            fix = "let the error leave the `with` block, then run the whole transaction again"
            raise SqlFailed(message, fix=fix)

    def _end(self) -> None:
        self._writing = False
        self._write_lock.release()


def commit_error(exc: DriverError) -> OncewardError:
    """Return our error for a driver's error in COMMIT, which may have happened."""
    if isinstance(exc, ConnectionOfParent):
        return mapped_error(exc, "commit")
    message = f"commit: its outcome is unknown; the writes may or may not be committed: {exc}"
    return OutcomeUnknown(message, fix="check the data before repeating it")


def statement(clock: Clock, name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return one of our own statements, and its parameters with the times that it uses.

    `:now` is monotonic time since boot, which decides about leases. `:boot` is the id of that boot,
    `:wall` the wall-clock time for display.
    """
    sql = query("sqlite", name)
    now, boot, wall = _times_in(sql)
    if now:
        params["now"] = clock.boot_seconds()
    if boot:
        params["boot"] = clock.boot_id()
    if wall:
        params["wall"] = timestamp(clock.now())
    return sql, params


@cache
def _times_in(sql: str) -> tuple[bool, ...]:
    return tuple(re.search(rf":{name}\b", sql) is not None for name in ("now", "boot", "wall"))


def _storable(params: Params) -> dict[str, Any] | tuple[Any, ...]:
    """Return the parameters for the driver; raise for values it would store as something else."""
    values = bound(params)
    for value in values.values() if isinstance(values, dict) else values:
        if value is None or type(value) in _PLAIN:
            continue
        if not isinstance(value, _BINDABLE):
            message = f"a parameter is a {type(value).__name__}, which SQLite cannot store"
            raise SqlFailed(message, fix="pass None, a number, text or bytes")
        if isinstance(value, float) and math.isnan(value):
            message = "a parameter is NaN, which SQLite would store as NULL"
            raise SqlFailed(message, fix="pass None, or store it as text")
    return values

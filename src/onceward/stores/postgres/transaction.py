"""PostgreSQL transaction: run and commit statements on one PostgreSQL connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from onceward.errors import (
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    SqlFailed,
    StoreUnavailable,
)
from onceward.stores.base import Params, Row, Rows
from onceward.stores.placeholders import for_psycopg
from onceward.stores.postgres.error_mapping import commit_error, mapped_error, mapped_errors
from onceward.stores.postgres.shared_connection import LentConnection
from onceward.stores.queries import query
from onceward.stores.shared_savepoints import LentSavepoints, is_read
from onceward.stores.transaction_hooks import TransactionHooks
from onceward.stores.user_statements import bound, check_statement

#: Lock timeout of our short transactions; shorter than the interval of heartbeats.
LOCK_SECONDS_MAX: Final = 2
#: Idle timeout of our short transactions: a frozen client must not block others.
IDLE_SECONDS_MAX: Final = 10
#: Begins a transaction with the database's own timeouts.
BEGIN_DEFAULT: Final = "begin"
#: Begins a SERIALIZABLE transaction; conflicts fail with SQLSTATE 40001.
BEGIN_SERIALIZABLE: Final = "begin isolation level serializable"
#: Begins a short transaction, in one round trip. The settings are local to it: behind a pooler
#: another client may use the session next. Not in a pipeline: after one, the server does not apply
#: the idle timeout.
BEGIN_SHORT: Final = (
    f"begin; set local lock_timeout = '{LOCK_SECONDS_MAX}s'; "
    f"set local idle_in_transaction_session_timeout = '{IDLE_SECONDS_MAX}s'"
)
#: Begins a transaction of one statement, which is sent together with its commit.
_BEGIN_SINGLE: Final = ("begin", f"set local lock_timeout = '{LOCK_SECONDS_MAX}s'")
#: A statement, its parameters, and whether to prepare it; None lets psycopg decide.
_Statement = tuple[str, Any, bool | None]
#: SQLSTATE classes of errors at execution time: the statement was parsed, none was skipped.
_RUNTIME_ERROR_CLASSES: Final = ("22", "23")
#: SQLSTATEs for a missing savepoint and for a missing transaction.
_SAVEPOINT_GONE: Final = ("3B001", "25P01")
_COMMIT: Final[_Statement] = ("commit", None, False)


class PostgresTransaction(TransactionHooks):
    """A transaction that begins at its first statement."""

    def __init__(self, connection: psycopg.Connection[Row], beginning: str = BEGIN_DEFAULT) -> None:
        """Use a connection in autocommit; `beginning` is the BEGIN statement."""
        super().__init__()
        self._connection = connection
        self._beginning = beginning
        self._is_open = False
        self._lease_lost_callbacks: list[Callable[[LeaseLost], None]] = []
        self._begin_queries: list[_Statement] = []
        self._owner_pid = os.getpid()
        self._open_in_pid: int | None = self._owner_pid
        self._must_close = False
        self._lent: LentConnection | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Lend a connection to the user's database layer, until the transaction ends.

        Begins the transaction. Its `commit` keeps the writes as part of this transaction, its
        `rollback` undoes the writes since then.
        """
        self.begin()
        for call in self._every_write:
            call()
        if self._lent is None:
            lent = LentConnection.over(self._connection)
            try:
                with mapped_errors("savepoint"):
                    lent.lending = LentSavepoints(self._send, lambda: lent.writes)
            except BaseException:
                lent.detach()
                raise
            self._lent = lent
        return self._lent

    def _wrote(self, sql: str) -> None:
        if self._lent is not None and not is_read(sql):
            self._lent.lending.wrote()

    def _send(self, sql: str) -> None:
        self._connection.execute(sql.encode(), prepare=False)

    @property
    def is_joinable(self) -> bool:
        """Return whether it is open, in the process that opened it."""
        return self._open_in_pid == os.getpid()

    def end(self) -> None:
        """Roll back what was not committed; the transaction cannot be used afterwards.

        Tasks and threads started inside the block may still have a reference to it.
        """
        self._open_in_pid = None
        self.roll_back()

    @property
    def is_writing(self) -> bool:
        """Return whether the transaction has begun."""
        return self._is_open

    def on_lease_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Register a callback for a lost lease that the database reports at begin or commit."""
        self._lease_lost_callbacks.append(call)

    def _reporting_lost(self, error: OncewardError) -> OncewardError:
        """Run the callbacks if the error is a lost lease; return the error."""
        if isinstance(error, LeaseLost):
            for call in self._lease_lost_callbacks:
                call(error)
        return error

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one user statement."""
        check_statement(sql, "postgres")
        values = bound(params)
        if self._first_write:
            self.begin()
        for call in self._every_write:
            call()
        cursor = self._run("sql", for_psycopg(sql), values)
        return Rows(_rows(cursor), max(cursor.rowcount, 0))

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one user statement for each row, pipelined."""
        check_statement(sql, "postgres")
        values = [bound(each) for each in rows]
        self.begin()
        for call in self._every_write:
            call()
        with mapped_errors("sql"), self._connection.cursor() as cursor:
            cursor.executemany(for_psycopg(sql), values)
            self._wrote(sql)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements."""
        if self._first_write:
            self.begin()
        return _rows(self._run(name, for_psycopg(query("postgres", name)), params))

    def run_with_begin(self, name: str, /, **params: object) -> None:
        """Run one of our own statements right after BEGIN, in one round trip with the first one.

        Its rows are discarded. When it raises, the first statement is not run.
        """
        self._begin_queries.append((for_psycopg(query("postgres", name)), params, None))

    def query_only(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements as an entire transaction, in one round trip."""
        self._is_open = True
        only = (for_psycopg(query("postgres", name)), params, None)
        cursors, refused = self._commit([*((sql, None, False) for sql in _BEGIN_SINGLE), only])
        if refused is not None:
            raise commit_error(refused) from refused
        self._is_open = False
        return _rows(cursors[-2])

    def control(self, what: str, sql: str) -> None:
        """Run one of our scripts or control statements."""
        self.begin()
        with mapped_errors(what):
            self._send(sql)
            if self._lent is not None:
                self._lent.lending.follow(sql)

    def _run(self, what: str, sql: str, params: Any) -> psycopg.Cursor[Row]:  # noqa: ANN401 - psycopg's
        """Run a statement; pipelined with BEGIN only if `run_with_begin` was used.

        Otherwise not: after a pipeline the server does not apply the idle timeout.
        """
        if self._is_open or not self._begin_queries or not self.is_joinable:
            self.begin()  # Raises if it has ended.
            with mapped_errors(what):
                cursor = self._connection.execute(sql, params)
                self._wrote(sql)
                return cursor
        self._is_open = True
        cursors, refused = self._pipeline(
            [self._begin(), *self._begin_queries, (sql, params, None)]
        )
        if refused is not None:
            raise self._reporting_lost(mapped_error(refused, what)) from refused
        return cursors[-1]

    def _pipeline(
        self, statements: list[_Statement]
    ) -> tuple[list[psycopg.Cursor[Row]], psycopg.Error | None]:
        """Send several statements in one round trip; return their cursors, and the first error.

        An error may arrive before all is sent. It is returned, not raised: leaving a pipeline with
        an exception writes to the log.
        """
        cursors: list[psycopg.Cursor[Row]] = []
        refused: list[psycopg.Error] = []
        try:
            with self._connection.pipeline():
                try:
                    for sql, params, prepare in statements:
                        cursors.append(self._connection.execute(sql, params, prepare=prepare))
                except psycopg.Error as exc:
                    refused.append(exc)
        except psycopg.Error as exc:
            refused.append(exc)
        if refused and (refused[0].sqlstate or "")[:2] not in _RUNTIME_ERROR_CLASSES:
            # psycopg may assume that a skipped or unparsed statement is prepared.
            self._must_close = True
        return cursors, refused[0] if refused else None

    def hooks(self) -> tuple[list[Any], ...]:
        """Return all lists, so that an undo can drop later registrations."""
        return *super().hooks(), self._lease_lost_callbacks, self._begin_queries

    def run_savepoint(self, sql: str) -> None:
        """Run a SAVEPOINT, RELEASE or ROLLBACK TO statement."""
        self.control("savepoint", sql)

    def serialize(self) -> None:
        """Make it SERIALIZABLE; only possible before it begins."""
        if self._beginning is BEGIN_SERIALIZABLE:
            return
        if self._is_open:
            message = (
                "immediate: the open transaction has begun as READ COMMITTED and cannot become "
                "SERIALIZABLE; it stays usable"
            )
            raise SqlFailed(message, fix="pass immediate=True to the outermost transaction")
        self._beginning = BEGIN_SERIALIZABLE

    def _begin(self) -> _Statement:
        return self._beginning, None, False

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if not self.is_joinable:
            raise _ended()
        if self._is_open:
            return
        try:
            self._connection.execute(self._beginning.encode(), prepare=False)
            self._is_open = True
            for sql, params, prepare in self._begin_queries:
                self._connection.execute(sql, params, prepare=prepare)
        except psycopg.Error as exc:
            raise self._reporting_lost(mapped_error(exc, "begin")) from exc
        for call in self._first_write:
            call()

    def commit(self) -> None:
        """Commit; without an answer it is ambiguous: OutcomeUnknown."""
        if not self.is_joinable:
            raise _ended()
        if not self._is_open and not self._commit_queries:
            return
        if self._first_write or self._beginning not in (BEGIN_DEFAULT, BEGIN_SERIALIZABLE):
            self.begin()
        if self._lent is not None:
            self._take_back(self._lent)
        self._check_committable()
        beginnings = [] if self._is_open else [self._begin()]
        self._is_open = True
        cursors, refused = self._commit([*beginnings, *self._commit_statements()])
        if refused is not None:
            raise self._reporting_lost(commit_error(refused)) from refused
        self._is_open = False
        del cursors[: len(beginnings)]
        for (_, check, _), cursor in zip(self._commit_queries, cursors, strict=False):
            done = check(cursor.fetchall())
            if done is not None:
                done()

    def _check_committable(self) -> None:
        """Raise if COMMIT would not commit the user's writes."""
        status = self._connection.info.transaction_status
        if self._is_open and status == TransactionStatus.IDLE:
            message = (
                "commit: a statement, such as COMMIT or ROLLBACK, has ended this transaction; its "
                "writes may or may not be committed"
            )
            fix = "check the data before repeating it; end a transaction by leaving its block"
            raise OutcomeUnknown(message, fix=fix)
        if self._is_rollback_only or status == TransactionStatus.INERROR:
            # The server would answer a COMMIT with a silent ROLLBACK.
            message = (
                "commit: an earlier statement of this transaction failed; nothing is committed"
            )
            fix = "let the error leave the `with` block, then run the whole transaction again"
            raise SqlFailed(message, fix=fix)
        if self._connection.closed:
            message = (
                "commit: the connection was lost before COMMIT was sent; nothing was committed"
            )
            fix = "check that the database is running, then run the whole transaction again"
            raise StoreUnavailable(message, fix=fix)

    def _take_back(self, lent: LentConnection) -> None:
        """Release the savepoints of the lent connection; they are missing if it sent a COMMIT."""
        lent.detach()
        is_failed = self._connection.info.transaction_status == TransactionStatus.INERROR
        try:
            if is_failed:  # Only this statement can run, and it shows whether the savepoint exists.
                lent.lending.roll_back()
            else:
                lent.lending.end()
        except psycopg.Error as exc:
            if exc.sqlstate not in _SAVEPOINT_GONE:
                raise mapped_error(exc, "commit") from exc
            message = (
                "commit: a COMMIT or ROLLBACK was sent as SQL on `tx.connection`; a COMMIT has "
                "made all writes before it durable, and nothing else was committed"
            )
            fix = "call its commit() instead; check the data before repeating it"
            raise SqlFailed(message, fix=fix) from exc
        if is_failed:
            self._is_rollback_only = True

    def _commit(
        self, statements: list[_Statement]
    ) -> tuple[list[psycopg.Cursor[Row]], psycopg.Error | None]:
        """Run these statements and COMMIT in one round trip; after an error the server skips it."""
        if statements:
            return self._pipeline([*statements, _COMMIT])
        try:
            self._connection.execute("commit", prepare=False)
        except psycopg.Error as exc:
            return [], exc
        return [], None

    def _commit_statements(self) -> Iterator[_Statement]:
        """Yield the commit-time statements; to abort, they must raise in the database.

        Their `check` gets the rows only after the commit.
        """
        # psycopg assumes that a statement is prepared, also if the server skips it after an error.
        # So only the first one may be prepared.
        prepare: bool | None = None
        for name, _, params in self._commit_queries:
            yield for_psycopg(query("postgres", name)), params, prepare
            prepare = False

    def roll_back(self) -> None:
        """Roll back, unless it is the parent's: a forked child must not use its session."""
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.detach()
        if not self._is_open or os.getpid() != self._owner_pid:
            return
        self._is_open = False
        if self._must_close:
            self._connection.close()
            return
        try:
            self._connection.execute("rollback")
        except psycopg.Error:
            self._connection.close()  # The server rolls back when the connection is lost.


def _ended() -> SqlFailed:
    message = "this transaction has ended; nothing was done"
    return SqlFailed(message, fix="open a new transaction")


def run(connection: psycopg.Connection[Row], name: str, params: Mapping[str, object]) -> list[Row]:
    """Run one of our own statements on a connection."""
    with mapped_errors(name):
        cursor = connection.execute(for_psycopg(query("postgres", name)), params)
        return _rows(cursor)


def _rows(cursor: psycopg.Cursor[Row]) -> list[Row]:
    """Return the rows of a statement; reading `description` would build one each time."""
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.nfields else []

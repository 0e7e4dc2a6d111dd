"""Transaction: statements on one PostgreSQL connection that happen together or not at all."""

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
from onceward.stores.hooks import Hooks
from onceward.stores.lending import Lending, is_read
from onceward.stores.placeholders import for_psycopg
from onceward.stores.postgres.lent import LentConnection
from onceward.stores.postgres.refusals import commit_refusal, refusal, translated
from onceward.stores.queries import query
from onceward.stores.statements import bound, check_statement

#: How long a short transaction of ours waits for a lock; less than heartbeats are apart.
LOCK_SECONDS_MAX: Final = 2
#: How long the server keeps one open whose client says nothing: it is frozen, and others wait.
SILENT_SECONDS_MAX: Final = 10
#: Begins a transaction that waits for others as long as the database's settings let it.
PATIENT: Final = "begin"
#: Begins one that is refused with 40001 when it could not have run alone.
SERIALIZABLE: Final = "begin isolation level serializable"
#: Begins a short one. All in one round trip, and for this transaction only: behind a pooler the
#: session may be another client's the next moment. Not in a pipeline: the server would not count
#: the time that a client is silent behind one.
SHORT: Final = (
    f"begin; set local lock_timeout = '{LOCK_SECONDS_MAX}s'; "
    f"set local idle_in_transaction_session_timeout = '{SILENT_SECONDS_MAX}s'"
)
#: Begins one that is sent whole, commit and all.
_WHOLE: Final = ("begin", f"set local lock_timeout = '{LOCK_SECONDS_MAX}s'")
#: A statement, its parameters, and whether psycopg may prepare it: None when it finds it worth it.
_Sent = tuple[str, Any, bool | None]
#: Classes of refusals that come when a statement is run: it was parsed, and nothing was skipped.
_HARMLESS: Final = ("22", "23")
#: What the server says when a savepoint is not there, or no transaction is.
_SAVEPOINT_GONE: Final = ("3B001", "25P01")
_COMMIT: Final[_Sent] = ("commit", None, False)


class PostgresTransaction(Hooks):
    """A connection with a transaction that begins at its first statement."""

    def __init__(self, connection: psycopg.Connection[Row], beginning: str = PATIENT) -> None:
        """Use this connection, which is in autocommit, and begin in this way."""
        super().__init__()
        self._connection = connection
        self._beginning = beginning
        self._is_open = False
        self._lost: list[Callable[[LeaseLost], None]] = []
        self._first: list[_Sent] = []
        self._born = os.getpid()
        self._process: int | None = self._born
        self._is_spoilt = False
        self._lent: LentConnection | None = None

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """Lend a connection to the user's database layer, until the transaction ends.

        Begins the transaction. Its `commit` keeps what was written as part of this transaction, its
        `rollback` undoes what was written since.
        """
        self.begin()
        for call in self._every_write:
            call()
        if self._lent is None:
            lent = LentConnection.over(self._connection)
            try:
                with translated("savepoint"):
                    lent.lending = Lending(self._send, lambda: lent.writes)
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
        """Say whether it is still open, in the process that opened it."""
        return self._process == os.getpid()

    def end(self) -> None:
        """Undo what was not committed, and be of no use from now on.

        A task or a thread that was started inside the block still knows of it.
        """
        self._process = None
        self.roll_back()

    @property
    def is_writing(self) -> bool:
        """Say whether the transaction has begun."""
        return self._is_open

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Call this when the beginning or the end of it is refused, because a lease is lost."""
        self._lost.append(call)

    def _telling(self, error: OncewardError) -> OncewardError:
        """Return a refusal, once those are told whose lease is lost."""
        if isinstance(error, LeaseLost):
            for call in self._lost:
                call(error)
        return error

    def execute(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement of the user's."""
        check_statement(sql, "postgres")
        values = bound(params)
        if self._first_write:
            self.begin()
        for call in self._every_write:
            call()
        cursor = self._run("sql", for_psycopg(sql), values)
        return Rows(_rows(cursor), max(cursor.rowcount, 0))

    def execute_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Run one statement of the user's for each row, all of them on their way at once."""
        check_statement(sql, "postgres")
        values = [bound(each) for each in rows]
        self.begin()
        for call in self._every_write:
            call()
        with translated("sql"), self._connection.cursor() as cursor:
            cursor.executemany(for_psycopg(sql), values)
            self._wrote(sql)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements."""
        if self._first_write:
            self.begin()
        return _rows(self._run(name, for_psycopg(query("postgres", name)), params))

    def query_first(self, name: str, /, **params: object) -> None:
        """Run one of our own statements right behind the beginning, in one round trip with both.

        Nobody sees its rows. When it raises, the first statement is not run.
        """
        self._first.append((for_psycopg(query("postgres", name)), params, None))

    def query_only(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own statements as all there is, from begin to commit in one round trip."""
        self._is_open = True
        only = (for_psycopg(query("postgres", name)), params, None)
        cursors, refused = self._commit([*((sql, None, False) for sql in _WHOLE), only])
        if refused is not None:
            raise commit_refusal(refused) from refused
        self._is_open = False
        return _rows(cursors[-2])

    def control(self, what: str, sql: str) -> None:
        """Run a script of ours."""
        self.begin()
        with translated(what):
            self._send(sql)
            if self._lent is not None:
                self._lent.lending.follow(sql)

    def _run(self, what: str, sql: str, params: Any) -> psycopg.Cursor[Row]:  # noqa: ANN401 - psycopg's
        """Run a statement, together with the beginning if somebody asked for that.

        Not otherwise: behind a pipeline the server does not count how long a client is silent.
        """
        if self._is_open or not self._first or not self.is_joinable:
            self.begin()  # Raises if it has ended.
            with translated(what):
                cursor = self._connection.execute(sql, params)
                self._wrote(sql)
                return cursor
        self._is_open = True
        cursors, refused = self._pipeline([self._begin(), *self._first, (sql, params, None)])
        if refused is not None:
            raise self._telling(refusal(refused, what)) from refused
        return cursors[-1]

    def _pipeline(
        self, statements: list[_Sent]
    ) -> tuple[list[psycopg.Cursor[Row]], psycopg.Error | None]:
        """Send several statements in one round trip; return what came, and the first refusal.

        A refusal may arrive before all is sent. It is kept, not raised: a pipeline that is left by
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
        if refused and (refused[0].sqlstate or "")[:2] not in _HARMLESS:
            # What the server skipped or could not parse, psycopg may believe to be prepared.
            self._is_spoilt = True
        return cursors, refused[0] if refused else None

    def hooks(self) -> tuple[list[Any], ...]:
        """Return every list, so that an undo can drop what was registered since."""
        return *super().hooks(), self._lost, self._first

    def run_savepoint(self, sql: str) -> None:
        """Run a statement about a savepoint."""
        self.control("savepoint", sql)

    def serialize(self) -> None:
        """Make it SERIALIZABLE, which is possible until it has begun."""
        if self._beginning is SERIALIZABLE:
            return
        if self._is_open:
            message = "immediate: the transaction that is open here has begun as READ COMMITTED"
            raise SqlFailed(message, fix="pass immediate=True to the outermost transaction")
        self._beginning = SERIALIZABLE

    def _begin(self) -> _Sent:
        return self._beginning, None, False

    def begin(self) -> None:
        """Begin, unless it has."""
        if not self.is_joinable:
            raise _ended()
        if self._is_open:
            return
        try:
            self._connection.execute(self._beginning.encode(), prepare=False)
            self._is_open = True
            for sql, params, prepare in self._first:
                self._connection.execute(sql, params, prepare=prepare)
        except psycopg.Error as exc:
            raise self._telling(refusal(exc, "begin")) from exc
        for call in self._first_write:
            call()

    def commit(self) -> None:
        """Make it durable; without an answer nobody knows whether it is."""
        if not self.is_joinable:
            raise _ended()
        if not self._is_open and not self._last:
            return
        if self._first_write or self._beginning not in (PATIENT, SERIALIZABLE):
            self.begin()
        if self._lent is not None:
            self._take_back(self._lent)
        self._check_committable()
        beginnings = [] if self._is_open else [self._begin()]
        self._is_open = True
        cursors, refused = self._commit([*beginnings, *self._lasts()])
        if refused is not None:
            raise self._telling(commit_refusal(refused)) from refused
        self._is_open = False
        del cursors[: len(beginnings)]
        for (_, check, _), cursor in zip(self._last, cursors, strict=False):
            done = check(cursor.fetchall())
            if done is not None:
                done()

    def _check_committable(self) -> None:
        """Raise where a COMMIT would not commit what the user wrote."""
        status = self._connection.info.transaction_status
        if self._is_open and status == TransactionStatus.IDLE:
            message = "commit: a statement has ended this transaction; its writes may be committed"
            raise OutcomeUnknown(message, fix="read before repeating it")
        if self._is_doomed or status == TransactionStatus.INERROR:
            # The server would answer a COMMIT with a silent ROLLBACK.
            message = "commit: an earlier statement of this transaction failed"
            raise SqlFailed(message, fix="let the error leave the `with` block")
        if self._connection.closed:
            message = "commit: the connection was lost before; nothing was committed"
            raise StoreUnavailable(message)

    def _take_back(self, lent: LentConnection) -> None:
        """Release the savepoints of the lent connection; they are gone if it sent a COMMIT."""
        lent.detach()
        is_failed = self._connection.info.transaction_status == TransactionStatus.INERROR
        try:
            if is_failed:  # Nothing else runs, and it tells whether the savepoint is there.
                lent.lending.roll_back()
            else:
                lent.lending.end()
        except psycopg.Error as exc:
            if exc.sqlstate not in _SAVEPOINT_GONE:
                raise refusal(exc, "commit") from exc
            message = (
                "commit: a COMMIT or ROLLBACK was sent as SQL on the lent connection; a COMMIT has "
                "made durable what came before it, and nothing else was committed"
            )
            fix = "call commit() of the connection instead; read before repeating it"
            raise SqlFailed(message, fix=fix) from exc
        if is_failed:
            self._is_doomed = True

    def _commit(
        self, behind: list[_Sent]
    ) -> tuple[list[psycopg.Cursor[Row]], psycopg.Error | None]:
        """Commit behind these statements, in one round trip: if one raises, the server skips it."""
        if behind:
            return self._pipeline([*behind, _COMMIT])
        try:
            self._connection.execute("commit", prepare=False)
        except psycopg.Error as exc:
            return [], exc
        return [], None

    def _lasts(self) -> Iterator[_Sent]:
        """Yield what goes with the commit; it must raise in the database when it may not be kept.

        `check` sees its rows too late.
        """
        # What the server skips behind a refusal, psycopg would believe to be prepared; so only the
        # first may be.
        prepare: bool | None = None
        for name, _, params in self._last:
            yield for_psycopg(query("postgres", name)), params, prepare
            prepare = False

    def roll_back(self) -> None:
        """Undo everything, unless it is the parent's: a forked child has no part in its session."""
        lent, self._lent = self._lent, None
        if lent is not None:
            lent.detach()
        if not self._is_open or os.getpid() != self._born:
            return
        self._is_open = False
        if self._is_spoilt:
            self._connection.close()
            return
        try:
            self._connection.execute("rollback")
        except psycopg.Error:
            self._connection.close()  # The server undoes what a lost connection began.


def _ended() -> SqlFailed:
    message = "this transaction has ended"
    return SqlFailed(message, fix="open one of your own")


def run(connection: psycopg.Connection[Row], name: str, params: Mapping[str, object]) -> list[Row]:
    """Run one of our own statements on a connection."""
    with translated(name):
        cursor = connection.execute(for_psycopg(query("postgres", name)), params)
        return _rows(cursor)


def _rows(cursor: psycopg.Cursor[Row]) -> list[Row]:
    """Return what a statement returned; asking for its `description` would make one."""
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.nfields else []

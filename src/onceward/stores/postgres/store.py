"""Store: one PostgreSQL database, shared by any number of machines."""

from __future__ import annotations

import logging
import math
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from onceward.errors import InvalidArgument, SqlFailed, StoreBusy, StoreUnavailable
from onceward.seams import Clock, SystemClock
from onceward.stores import forks
from onceward.stores.base import Params, Row, Transaction
from onceward.stores.commit import commit, commit_telling
from onceward.stores.forks import reset_after_fork
from onceward.stores.joined import JoinedTransaction, join
from onceward.stores.joining import Joining
from onceward.stores.postgres.joined import IDENTITY, JoinedPostgresTransaction
from onceward.stores.postgres.migrating import IN_PIECES, LOCK_BRIEFLY, patiently
from onceward.stores.postgres.pooler import ConnectionState, Session, repeated, split_url
from onceward.stores.postgres.refusals import translated
from onceward.stores.postgres.transaction import PATIENT, SHORT, PostgresTransaction, run
from onceward.stores.queries import Engine
from onceward.stores.semaphore import FairSemaphore

T = TypeVar("T")
_Pool = ConnectionPool[Session]
#: How many transactions of users one process has open at a time.
TRANSACTIONS_MAX: Final = 32
#: Connections that are left to reads and to our short transactions when all of those are open: a
#: heartbeat does not wait for handlers.
CONNECTIONS_SPARE: Final = 4
#: Connections of a second pool, for short transactions of tasks that are inside a transaction: a
#: task that holds a connection must not wait for the pool in which that connection is missing.
CONNECTIONS_NESTED: Final = 4
#: Begins a transaction that finds rows by indexes and in their order.
BY_INDEX: Final = (
    "begin; set local enable_seqscan = off; set local enable_bitmapscan = off; "
    "set local enable_sort = off; set local enable_incremental_sort = off"
)
#: Begins a transaction whose reads all see one moment.
SNAPSHOT: Final = "begin isolation level repeatable read, read only"
#: A server that is gone without a word is noticed within a minute, also in the middle of a
#: statement; the system's own limits are two hours and a quarter of one.
NOTICING: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
#: How long a call waits for a connection before it says that the database cannot be reached.
CONNECT_SECONDS_MAX: Final = 5.0

# What goes wrong is raised; a terminal need not be told each attempt before that.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
#: What libpq reads from the environment to find a database.
_ADDRESS_VARIABLES: Final = (
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGOPTIONS"),
)


class PostgresStore(Joining[PostgresTransaction]):
    """A database, and the pool of this process's connections to it."""

    engine: Engine = "postgres"

    def __init__(
        self,
        url: str,
        *,
        connect_seconds: float = CONNECT_SECONDS_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Name the database; the URL goes to libpq without `pooler=`.

        The clock is for pauses alone.
        """
        super().__init__(PostgresTransaction)
        url, pooler = split_url(url)
        self._url = url
        #: What is known about the connections: whether a pooler shares their sessions.
        self.connections = ConnectionState(pooler)
        self._clock = clock or SystemClock()
        self._connect_seconds = connect_seconds
        parts = _parts(url)
        place = f"{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
        #: Without user and password.
        self.url = f"postgresql://{place}"
        #: Tells stores apart whose `url` is the same: user, service and search path count, too.
        self.address = _address(parts)
        self._pool: _Pool | None = None
        self._nested_pool: _Pool | None = None
        self._opening = threading.Lock()
        self.places: FairSemaphore | None = FairSemaphore(TRANSACTIONS_MAX)
        self._abandoned: list[object] = []
        self._known_identity: Row = ()
        reset_after_fork(self)

    @property
    def shared_writer(self) -> object:
        """Return this store: other handles write beside it."""
        return self

    def after_fork(self) -> None:
        """Leave the parent's pool alone: its threads are not here, its sockets are shared."""
        self._abandoned += [self._pool, self._nested_pool]
        self._pool, self._nested_pool, self._opening = None, None, threading.Lock()
        self.places = FairSemaphore(TRANSACTIONS_MAX)

    def connection(self) -> AbstractContextManager[psycopg.Connection[Row]]:
        """Lend a connection in autocommit, from the second pool inside a transaction."""
        return self._lent(self._opened() if self.current() is None else self._opened_nested())

    @contextmanager
    def _lent(self, pool: _Pool) -> Iterator[psycopg.Connection[Row]]:
        born = forks.number
        try:
            connection = pool.getconn(self._connect_seconds)
        except PoolTimeout as exc:
            reason = self.connections.reason(self._url)
            message = f"no connection to {self.url} within {self._connect_seconds:g} s"
            raise StoreUnavailable(f"{message}: {reason}" if reason else message) from exc
        try:
            yield connection
        finally:
            if born == forks.number:
                pool.putconn(connection)
            else:  # The parent's, which a forked child must neither use nor end.
                self._abandoned.append(connection)

    @contextmanager
    def transaction(self, *, immediate: bool = False) -> Iterator[PostgresTransaction]:
        """Open a transaction for the user, or join the one that is open in this context."""
        joined = self.current()
        if joined is not None:
            if immediate:
                joined.serialize()
            yield joined
            return
        with self.detached() as transaction, self.joined(transaction):
            if immediate:
                transaction.serialize()
            yield transaction

    def join(self, connection: object) -> AbstractContextManager[JoinedTransaction]:
        """Run inside a transaction that a framework has begun on this connection."""
        return join(
            self, connection, partial(JoinedPostgresTransaction, connection, self._identity)
        )

    def _identity(self, wanted: Row) -> Row:
        """Return which database this is; asks it again when that is not the wanted one."""
        if self._known_identity != wanted:
            with self.connection() as connection, translated("join"):
                (self._known_identity,) = connection.execute(IDENTITY, prepare=False).fetchall()
        return self._known_identity

    @contextmanager
    def detached(
        self, _is_inside: Callable[[], bool] | None = None, /, *, has_place: bool = False
    ) -> Iterator[PostgresTransaction]:
        """Open a transaction that no context is part of; it may be ended in any thread."""
        place = nullcontext() if has_place else self._place()
        with place, self._lent(self._opened()) as connection:
            transaction = PostgresTransaction(connection)
            try:
                yield transaction
                commit(transaction)
            finally:
                transaction.end()

    def write_apart(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit that is not the user's, who may have one open."""
        return self._commit(SHORT, operation)

    @repeated
    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one statement in a commit of its own, in one round trip."""
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, SHORT)
            try:
                return transaction.query_only(name, **params)
            finally:
                transaction.roll_back()

    @repeated
    def _commit(self, beginning: str, operation: Callable[[PostgresTransaction], T]) -> T:
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, beginning)
            try:
                result = operation(transaction)
                commit_telling(transaction)
            finally:
                transaction.roll_back()
            return result

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""
        joined = self.current()
        if joined is not None:
            return joined.query(name, **params)
        return self._read(name, params)

    @repeated
    def _read(self, name: str, params: dict[str, object]) -> list[Row]:
        with self.connection() as connection:
            return run(connection, name, params)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the reads of this block see one moment."""
        if self.current() is not None:
            yield
            return
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, SNAPSHOT)
            try:
                with self.joined(transaction):
                    yield
            finally:
                transaction.end()

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement that writes nothing, in a transaction of its own, by indexes alone.

        Where the planner knows little of a table it may rather read and sort all of it.
        """
        return self._commit(BY_INDEX, lambda transaction: transaction.execute(sql, params))

    def connector(self) -> Callable[[], psycopg.Connection[Row]]:
        """Return what opens a connection beside the pool, for somebody who keeps it for long.

        It is in autocommit, and does not keep this store.
        """
        return partial(_connect, self._url, self._connect_seconds, self.connections)

    def applied(self) -> list[int]:
        """Return the numbers of the migrations that this database has seen."""
        # Whoever only looks needs no right to create a table, and waits for nobody who migrates.
        with suppress(SqlFailed):
            return [row[0] for row in self.read("list_migrations")]
        return self._commit(PATIENT, _applied)

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Run a migration and note it, in one transaction, or in pieces and note it after them."""
        what, is_in_pieces = f"migration {number}", sql.startswith(IN_PIECES)

        def operation(transaction: PostgresTransaction) -> bool:
            if number in _applied(transaction):
                return False
            if not is_in_pieces:
                transaction.control(what, f"{LOCK_BRIEFLY}; {sql}")
            transaction.query("note_migration", number=number, name=name)
            return True

        def attempt() -> bool:
            if is_in_pieces and number not in self.applied():
                with self.connection() as connection, translated(what):
                    connection.execute(sql.encode(), prepare=False)
            return self._commit(PATIENT, operation)

        return patiently(what, attempt, self._clock)

    def problems(self) -> list[str]:
        """Return nothing: PostgreSQL checks its pages when it reads them."""
        return []

    def close(self) -> None:
        """Close the pool."""
        pools, self._pool, self._nested_pool = (self._pool, self._nested_pool), None, None
        for pool in pools:
            if pool is not None:
                pool.close()

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the places for users' transactions."""
        places = self.places
        assert places is not None
        if not places.acquire(self._connect_seconds):
            seconds = f"{self._connect_seconds:g} s"
            message = f"{TRANSACTIONS_MAX} transactions are open here, and none ended in {seconds}"
            fix = "keep them short, or run fewer threads in one process"
            raise StoreBusy(message, fix=fix)
        try:
            yield
        finally:
            places.release()

    def _opened(self) -> _Pool:
        with self._opening:
            if self._pool is None:
                self._pool = self._new_pool(TRANSACTIONS_MAX + CONNECTIONS_SPARE)
            return self._pool

    def _opened_nested(self) -> _Pool:
        with self._opening:
            if self._nested_pool is None:
                self._nested_pool = self._new_pool(CONNECTIONS_NESTED)
            return self._nested_pool

    def _new_pool(self, size: int) -> _Pool:
        return ConnectionPool(
            self._url,
            connection_class=Session,
            min_size=0,
            max_size=size,
            open=True,
            check=_check_silent,
            # Behind each failure the pool waits twice as long. Whoever asks after it gave
            # up makes it begin anew, so that a long outage is over when it is over.
            reconnect_timeout=self._connect_seconds,
            kwargs={"state": self.connections, **_noticing(self._url)},
            name="onceward",
        )


def _address(parts: Mapping[str, Any]) -> str:
    """Return everything that decides where a connection leads, without secrets."""
    named = {
        "database" if name == "dbname" else name: str(value)
        for name, value in parts.items()
        if "password" not in name
    }
    asked = {
        name.removeprefix("PG").lower(): os.environ[name]
        for name in _ADDRESS_VARIABLES
        if name in os.environ
    }
    return repr(sorted({**asked, **named}.items()))


def _parts(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError as exc:
        message = f"the URL of the store is not one for PostgreSQL: {str(exc).strip()}"
        fix = "write postgresql://user@host:5432/name?option=…, with options that libpq knows"
        raise InvalidArgument(message, fix=fix, field="url") from exc


def _connect(url: str, seconds: float, state: ConnectionState) -> psycopg.Connection[Row]:
    with translated("connect"):
        return Session.connect(
            url,
            state=state,
            connect_timeout=math.ceil(seconds),
            **_noticing(url),
        )


def _noticing(url: str) -> dict[str, Any]:
    """Return what the URL does not say itself."""
    said = conninfo_to_dict(url)
    return {name: value for name, value in NOTICING.items() if name not in said}


def _check_silent(connection: psycopg.Connection[Row]) -> None:
    """Refuse a connection that the server has closed: an idle one has nothing to say."""
    with translated("connect"):
        # Not `select`: a descriptor may be above 1,023.
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            connection.execute("")


def _applied(transaction: Transaction) -> list[int]:
    """Return what was applied, and let nobody else migrate before this transaction ends."""
    transaction.query("lock_migrations")
    transaction.query("create_migrations")
    return [row[0] for row in transaction.query("list_migrations")]

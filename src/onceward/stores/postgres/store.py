"""PostgreSQL store: one database, shared by any number of processes and machines."""

from __future__ import annotations

import logging
import math
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from onceward.errors import StoreBusy, StoreUnavailable
from onceward.stores import fork_safety
from onceward.stores.base import Params, Row, Transaction
from onceward.stores.commit import commit, commit_reporting_unknown
from onceward.stores.fork_safety import reset_after_fork
from onceward.stores.framework_transaction import JoinedTransaction, join
from onceward.stores.migrations import read_applied
from onceward.stores.postgres.connection_url import parse_url
from onceward.stores.postgres.error_mapping import mapped_errors
from onceward.stores.postgres.framework_connection import IDENTITY, JoinedPostgresTransaction
from onceward.stores.postgres.migrating import (
    LOCK_BRIEFLY,
    NON_TRANSACTIONAL,
    retry_while_busy,
    run_non_transactional,
)
from onceward.stores.postgres.pooler import (
    ConnectionState,
    PoolerAwareConnection,
    retry_missing_statement,
    split_url,
)
from onceward.stores.postgres.transaction import (
    BEGIN_DEFAULT,
    BEGIN_SHORT,
    PostgresTransaction,
    run,
)
from onceward.stores.queries import Engine
from onceward.stores.semaphore import FairSemaphore
from onceward.stores.transaction_context import TransactionContext
from onceward.system import Clock, SystemClock

T = TypeVar("T")
_Pool = ConnectionPool[PoolerAwareConnection]
#: Limit of concurrent user transactions in one process.
TRANSACTIONS_MAX: Final = 32
#: Additional connections for reads and our short transactions: a heartbeat must not wait for
#: handlers.
CONNECTIONS_SPARE: Final = 4
#: Connections of a second pool, for short transactions inside a user transaction: a task that holds
#: a connection of one pool must not wait for another of the same pool.
CONNECTIONS_NESTED: Final = 4
#: Begins a transaction that reads rows through indexes, in index order.
BEGIN_BY_INDEX: Final = (
    "begin; set local enable_seqscan = off; set local enable_bitmapscan = off; "
    "set local enable_sort = off; set local enable_incremental_sort = off"
)
#: Begins a transaction whose reads see one snapshot.
BEGIN_SNAPSHOT: Final = "begin isolation level repeatable read, read only"
#: Detects a silently lost server within a minute, also during a statement; the system's defaults
#: are two hours and 15 minutes.
KEEPALIVE_OPTIONS: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
#: How long a call waits for a connection before it raises StoreUnavailable.
CONNECT_SECONDS_MAX: Final = 5.0

# Errors are raised; each failed attempt need not be logged as well.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
#: Environment variables from which libpq takes the address of a database.
_ADDRESS_VARIABLES: Final = (
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE", "PGOPTIONS"),
)


class PostgresStore(TransactionContext[PostgresTransaction]):
    """A handle on a database, with this process's connection pools."""

    engine: Engine = "postgres"

    def __init__(
        self,
        url: str,
        *,
        connect_seconds: float = CONNECT_SECONDS_MAX,
        clock: Clock | None = None,
    ) -> None:
        """Set the URL, which goes to libpq without `pooler=`. The clock is only for pauses."""
        super().__init__(PostgresTransaction)
        url, pooler = split_url(url)
        self._url = url
        #: Whether a pooler shares the sessions of our connections.
        self.connections = ConnectionState(pooler)
        self._clock = clock or SystemClock()
        self._connect_seconds = connect_seconds
        parts = parse_url(url)
        location = f"{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
        #: Without user and password.
        self.url = f"postgresql://{location}"
        #: Distinguishes stores with the same `url`: also has user, service and search path.
        self.address = _address(parts)
        self._pool: _Pool | None = None
        self._nested_pool: _Pool | None = None
        self._opening = threading.Lock()
        self.transaction_slots: FairSemaphore | None = FairSemaphore(TRANSACTIONS_MAX)
        self._abandoned: list[object] = []
        self._known_identity: Row = ()
        reset_after_fork(self)

    @property
    def writer_identity(self) -> object:
        """Return this store: its writes do not wait for those of other handles."""
        return self

    def after_fork(self) -> None:
        """Abandon the parent's pools: their threads do not exist here, their sockets are shared."""
        self._abandoned += [self._pool, self._nested_pool]
        self._pool, self._nested_pool, self._opening = None, None, threading.Lock()
        self.transaction_slots = FairSemaphore(TRANSACTIONS_MAX)

    def connection(self) -> AbstractContextManager[psycopg.Connection[Row]]:
        """Check out a connection in autocommit; inside a transaction, from the second pool."""
        return self._lent(self._opened() if self.current() is None else self._opened_nested())

    @contextmanager
    def _lent(self, pool: _Pool) -> Iterator[psycopg.Connection[Row]]:
        born = fork_safety.number
        try:
            connection = pool.getconn(self._connect_seconds)
        except PoolTimeout as exc:
            reason = self.connections.reason(self._url)
            message = f"no connection to {self.url} within {self._connect_seconds:g} s"
            raise StoreUnavailable(f"{message}: {reason}" if reason else message) from exc
        try:
            yield connection
        finally:
            if born == fork_safety.number:
                pool.putconn(connection)
            else:  # The parent's: a forked child must neither use nor close it.
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
        """Return the identity of this database; refreshed if it differs from `wanted`."""
        if self._known_identity != wanted:
            with self.connection() as connection, mapped_errors("join"):
                (self._known_identity,) = connection.execute(IDENTITY, prepare=False).fetchall()
        return self._known_identity

    @contextmanager
    def detached(
        self, _is_inside: Callable[[], bool] | None = None, /, *, has_slot: bool = False
    ) -> Iterator[PostgresTransaction]:
        """Open a transaction outside of any context; it may be ended in any thread."""
        slot = nullcontext() if has_slot else self._transaction_slot()
        with slot, self._lent(self._opened()) as connection:
            transaction = PostgresTransaction(connection)
            try:
                yield transaction
                commit(transaction)
            finally:
                transaction.end()

    def run_in_own_transaction(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in its own transaction, even inside the user's transaction."""
        return self._commit(BEGIN_SHORT, operation)

    @retry_missing_statement
    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our statements in its own transaction, in one round trip."""
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, BEGIN_SHORT)
            try:
                return transaction.query_only(name, **params)
            finally:
                transaction.roll_back()

    @retry_missing_statement
    def _commit(self, beginning: str, operation: Callable[[PostgresTransaction], T]) -> T:
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, beginning)
            try:
                result = operation(transaction)
                commit_reporting_unknown(transaction)
            finally:
                transaction.roll_back()
            return result

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""
        joined = self.current()
        if joined is not None:
            return joined.query(name, **params)
        return self._read(name, params)

    @retry_missing_statement
    def _read(self, name: str, params: dict[str, object]) -> list[Row]:
        with self.connection() as connection:
            return run(connection, name, params)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run the reads of this block on one snapshot of the database."""
        if self.current() is not None:
            yield
            return
        with self.connection() as connection:
            transaction = PostgresTransaction(connection, BEGIN_SNAPSHOT)
            try:
                with self.joined(transaction):
                    yield
            finally:
                transaction.end()

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a read-only statement in a separate transaction, with index scans only.

        With few statistics the planner might read and sort the entire table instead.
        """
        return self._commit(BEGIN_BY_INDEX, lambda transaction: transaction.execute(sql, params))

    def connector(self) -> Callable[[], psycopg.Connection[Row]]:
        """Return a callable that opens a long-lived connection outside the pool, in autocommit.

        It does not keep a reference to this store.
        """
        return partial(_connect, self._url, self._connect_seconds, self.connections)

    def applied(self) -> dict[int, str]:
        """Return the migrations applied to this database: their names by number."""
        # A read needs no CREATE privilege and does not wait for a running migration.
        return read_applied(self)

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Apply and record a migration in one transaction; some statements cannot run inside it."""
        what = f"migration {number}"

        def operation(transaction: PostgresTransaction) -> bool:
            transaction.control(what, LOCK_BRIEFLY)
            if number in _applied(transaction):
                return False
            if sql.startswith(NON_TRANSACTIONAL):
                # This transaction keeps the lock of migrations. It must hold no snapshot: building
                # an index concurrently would wait for it. The snapshot of its last query ends with
                # the next statement of the simple protocol.
                transaction.control(what, LOCK_BRIEFLY)
                with self.connection() as connection, mapped_errors(what):
                    run_non_transactional(connection, sql)
            else:
                transaction.control(what, sql)
            transaction.query("note_migration", number=number, name=name)
            return True

        return retry_while_busy(what, lambda: self._commit(BEGIN_DEFAULT, operation), self._clock)

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
    def _transaction_slot(self) -> Iterator[None]:
        """Hold one of the slots for user transactions."""
        slots = self.transaction_slots
        assert slots is not None
        if not slots.acquire(self._connect_seconds):
            seconds = f"{self._connect_seconds:g} s"
            message = (
                f"no transaction could be opened within {seconds}: {TRANSACTIONS_MAX}, the most of "
                "one process, are open, and other callers wait; nothing was done"
            )
            fix = "keep transactions short, or run fewer threads in one process"
            raise StoreBusy(message, fix=fix)
        try:
            yield
        finally:
            slots.release()

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
            connection_class=PoolerAwareConnection,
            min_size=0,
            max_size=size,
            open=True,
            check=_check_open,
            # The pool's backoff doubles after each failure. A request after it has given up
            # restarts it, so that calls succeed soon after a long outage ends.
            reconnect_timeout=self._connect_seconds,
            kwargs={"state": self.connections, **_keepalive_options(self._url)},
            name="onceward",
        )


def _address(parts: Mapping[str, Any]) -> str:
    """Return all settings that determine the target of a connection, without secrets."""
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


def _connect(url: str, seconds: float, state: ConnectionState) -> psycopg.Connection[Row]:
    with mapped_errors("connect"):
        return PoolerAwareConnection.connect(
            url,
            state=state,
            connect_timeout=math.ceil(seconds),
            **_keepalive_options(url),
        )


def _keepalive_options(url: str) -> dict[str, Any]:
    """Return the keepalive options that the URL does not set."""
    said = conninfo_to_dict(url)
    return {name: value for name, value in KEEPALIVE_OPTIONS.items() if name not in said}


def _check_open(connection: psycopg.Connection[Row]) -> None:
    """Raise if the server has closed a connection: an idle one has no input to read."""
    with mapped_errors("connect"):
        # Not `select`: a descriptor may be above 1,023.
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        if poll.poll(0):
            connection.execute("")


def _applied(transaction: Transaction) -> dict[int, str]:
    """Lock migrations until this transaction ends, and return the applied ones."""
    transaction.query("lock_migrations")
    transaction.query("create_migrations")
    return dict(transaction.query("list_migrations"))

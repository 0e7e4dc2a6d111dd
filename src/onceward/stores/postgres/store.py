"""Store: one PostgreSQL database, shared by any number of machines."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from onceward.errors import StoreUnavailable
from onceward.stores.base import Row, Transaction
from onceward.stores.commit import commit
from onceward.stores.forks import reset_after_fork
from onceward.stores.postgres.refusals import translated
from onceward.stores.postgres.transaction import PostgresTransaction, run
from onceward.stores.queries import Engine

T = TypeVar("T")
CONNECTIONS_MAX: Final = 32
#: How long a call waits for a connection before it says that the database cannot be reached.
CONNECT_SECONDS_MAX: Final = 5.0


class PostgresStore:
    """A database, and the pool of this process's connections to it."""

    engine: Engine = "postgres"

    def __init__(self, url: str, *, connect_seconds: float = CONNECT_SECONDS_MAX) -> None:
        """Name the database; the URL goes to libpq as it is."""
        self._url = url
        self._connect_seconds = connect_seconds
        parts = conninfo_to_dict(url)
        place = f"{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
        #: Without user and password.
        self.url = f"postgresql://{place}"
        self._current: ContextVar[PostgresTransaction | None] = ContextVar("pg", default=None)
        self._pool: ConnectionPool[psycopg.Connection[Row]] | None = None
        self._opening = threading.Lock()
        self._abandoned: list[object] = []
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Leave the parent's pool alone: its threads are not here, its sockets are shared."""
        self._abandoned.append(self._pool)
        self._pool, self._opening = None, threading.Lock()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Row]]:
        """Lend a connection in autocommit."""
        try:
            with self._opened().connection(self._connect_seconds) as connection:
                yield connection
        except PoolTimeout as exc:
            message = f"no connection to {self.url} within {self._connect_seconds:g} s"
            raise StoreUnavailable(message) from exc

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Open a transaction for the user, or join the one that is open in this context."""
        joined = self.current()
        if joined is not None:
            yield joined
            return
        with self.connection() as connection:
            transaction = PostgresTransaction(connection)
            token = self._current.set(transaction)
            try:
                yield transaction
                commit(transaction)
            finally:
                self._current.reset(token)
                transaction.end()

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit, or in the user's transaction if one is open."""
        joined = self.current()
        if joined is not None:
            joined.begin()
            return operation(joined)
        return self.write_apart(operation)

    def write_apart(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit that is not the user's, who may have one open."""
        with self.connection() as connection:
            transaction = PostgresTransaction(connection)
            try:
                result = operation(transaction)
                transaction.commit()
            finally:
                transaction.roll_back()
            return result

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""
        joined = self.current()
        if joined is not None:
            return joined.query(name, **params)
        with self.connection() as connection:
            return run(connection, name, params)

    def current(self) -> PostgresTransaction | None:
        """Return the user's transaction that is open in this context."""
        found = self._current.get()
        return found if found is not None and found.is_joinable else None

    def applied(self) -> list[int]:
        """Return the numbers of the migrations that this database has seen."""
        return self.write_apart(_applied)

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Run a migration and note it, in one transaction."""
        with self.connection() as connection:
            transaction = PostgresTransaction(connection)
            try:
                if number in _applied(transaction):
                    return False
                with translated(f"migration {number}"):
                    connection.execute(sql.encode(), prepare=False)
                transaction.query("note_migration", number=number, name=name)
                transaction.commit()
            finally:
                transaction.roll_back()
            return True

    def problems(self) -> list[str]:
        """Return nothing: PostgreSQL checks its pages when it reads them."""
        return []

    def close(self) -> None:
        """Close the pool."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> ConnectionPool[psycopg.Connection[Row]]:
        with self._opening:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=CONNECTIONS_MAX,
                    open=True,
                    check=_check_silent,
                    kwargs={"autocommit": True, "prepare_threshold": 2},
                    name="onceward",
                )
            return self._pool


def _check_silent(connection: psycopg.Connection[Row]) -> None:
    """Refuse a connection that the server has closed: an idle one has nothing to say."""
    with translated("connect"):
        if select.select([connection.fileno()], [], [], 0)[0]:
            connection.execute("")


def _applied(transaction: Transaction) -> list[int]:
    """Return what was applied, and let nobody else migrate before this transaction ends."""
    transaction.query("lock_migrations")
    transaction.query("create_migrations")
    return [row[0] for row in transaction.query("list_migrations")]

"""Client: open a store, and use its outcomes, cursors and retries through one object."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self

from onceward.cursors import Cursors, DualCursor
from onceward.errors import InvalidArgument, SqlFailed
from onceward.outcomes import Outcomes, effect, once
from onceward.retries import Retries
from onceward.stores import Store, Transaction, migrate, open_store
from onceward.system import Clock


class Onceward:
    """An open store with its outcomes, cursors, retries and dead letters."""

    def __init__(self, store: Store) -> None:
        """Use this store, whose schema is current."""
        self.store = store
        #: Failed messages: held for a retry, parked (head-of-line blocking by key), or dead.
        self.retries = Retries(store)
        #: Durable positions of consumers, with leases and fencing tokens.
        self.cursors = Cursors(store, follow=self.retries.follow)
        #: Recorded outcomes of idempotent calls.
        self.outcomes = Outcomes(store)
        #: Decorator for idempotent functions: one outcome per key.
        self.once = partial(once, self.outcomes)
        #: Decorator for one recorded step of an idempotent function.
        self.effect = effect
        #: The dead-letter queue.
        self.dead = self.retries.dead

    def dual(self, name: str) -> DualCursor:
        """Return a dual cursor: a read position, and a processed position per group."""
        return DualCursor(self.store, name)

    def transaction(
        self, *, immediate: bool = False, connection: object = None
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction for your own tables; commits at the end, rolls back on exceptions.

        With `immediate`, no concurrent transaction can change what this one has read: SQLite takes
        the write lock at the start, PostgreSQL runs it as SERIALIZABLE, and may raise
        SerializationFailed, which is Retryable.

        With `connection`, a `sqlite3` or psycopg connection on which your framework has begun a
        transaction, the block joins that transaction: the framework commits after the block, and
        chooses the isolation level.
        """
        if connection is None:
            return self.store.transaction(immediate=immediate)
        if immediate:
            message = "immediate: the connection's framework has already begun this transaction"
            fix = "omit immediate=True: the framework, such as Django, decides how it begins"
            raise InvalidArgument(message, fix=fix, field="immediate")
        return self.store.join(connection)

    def connection(self) -> Any:  # noqa: ANN401 - sqlite3's or psycopg's
        """Return `tx.connection` of the open transaction, for `creator=` of an engine."""
        tx = self.store.current()
        if tx is None:
            message = "no transaction of this store is open in this thread or task; nothing was run"
            fix = "use the SQLAlchemy engine inside `with ow.transaction()` or a function with `tx`"
            raise SqlFailed(message, fix=fix)
        return tx.connection

    def close(self) -> None:
        """Close the connections, after pending log records of rejected stale writes are written."""
        self.cursors.fence_log.flush()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(  # noqa: A001 - onceward.open
    url: str | None = None, *, clock: Clock | None = None, strict: bool = False
) -> Onceward:
    """Open `sqlite:///path` or `postgresql://…` and bring its schema up to date.

    Without a URL: `$ONCEWARD_STORE`, else `onceward.db` in `$ONCEWARD_HOME` (`~/.onceward`). The
    clock is for SQLite and for tests; PostgreSQL uses the server's time. With `strict`, an SQLite
    file that another SQLite library of this process has open raises SecondSqlite.
    """
    store = open_store(url, clock=clock, strict=strict)
    migrate(store)
    return Onceward(store)

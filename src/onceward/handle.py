"""Handle: what `onceward.open` gives, one object for everything that lives in a store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self

from onceward.cursors import Cursors, DualCursor
from onceward.errors import InvalidArgument, SqlFailed
from onceward.outcomes import Outcomes, effect, once
from onceward.retries import Retries
from onceward.seams import Clock
from onceward.stores import Store, Transaction, migrate, open_store


class Onceward:
    """An open store, and what Onceward does with it."""

    def __init__(self, store: Store) -> None:
        """Use this store, whose schema is current."""
        self.store = store
        #: What failed and waits: held, parked, or given up.
        self.retries = Retries(store)
        #: How far readers have come, who holds them, and may they move.
        self.cursors = Cursors(store, follow=self.retries.follow)
        #: Which work has an outcome already.
        self.outcomes = Outcomes(store)
        #: The decorator that gives each piece of work one outcome.
        self.once = partial(once, self.outcomes)
        #: One step inside such a piece of work.
        self.effect = effect
        #: Messages that were given up, until a person decides.
        self.dead = self.retries.dead

    def dual(self, name: str) -> DualCursor:
        """Return the dual cursor of this name: what was read, and what each group processed."""
        return DualCursor(self.store, name)

    def transaction(
        self, *, immediate: bool = False, connection: object = None
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction for your own tables; commits at the end, rolls back on exceptions.

        With `immediate`, no concurrent transaction can change what this one has read: SQLite takes
        the write lock at the start, PostgreSQL runs it as SERIALIZABLE, and may refuse it with
        SerializationFailed, which is Retryable.

        With `connection`, a `sqlite3` or psycopg connection on which your framework has begun a
        transaction, the block is part of that one: the framework commits, after the block, and has
        chosen the isolation.
        """
        if connection is None:
            return self.store.transaction(immediate=immediate)
        if immediate:
            message = "immediate: the framework has begun this transaction already"
            fix = "let the framework begin it so, and leave out immediate=True"
            raise InvalidArgument(message, fix=fix, field="immediate")
        return self.store.join(connection)

    def connection(self) -> Any:  # noqa: ANN401 - sqlite3's or psycopg's
        """Return `tx.connection` of the transaction that is open here, as an engine's `creator`."""
        tx = self.store.current()
        if tx is None:
            message = "no transaction of this store is open here"
            fix = "use the engine inside `with ow.transaction()` or a function with `tx`"
            raise SqlFailed(message, fix=fix)
        return tx.connection

    def close(self) -> None:
        """Give the connections back, once notes that are on their way are written."""
        self.cursors.refusals.settle()
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
    clock is for SQLite, and for tests; PostgreSQL's own time decides there. With `strict`, a SQLite
    file that another SQLite library of this process has open is refused (SecondSqlite).
    """
    store = open_store(url, clock=clock, strict=strict)
    migrate(store)
    return Onceward(store)

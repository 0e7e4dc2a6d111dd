"""Handle: what `onceward.open` gives, one object for everything that lives in a store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Self

from onceward.cursors import Cursors, DualCursor
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

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction for your own tables; commits at the end, rolls back on exceptions."""
        return self.store.transaction()

    def close(self) -> None:
        """Give the connections back, once notes that are on their way are written."""
        self.cursors.refusals.settle()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(url: str | None = None, *, clock: Clock | None = None) -> Onceward:  # noqa: A001 - onceward.open
    """Open `sqlite:///path` or `postgresql://…` and bring its schema up to date.

    Without a URL: `$ONCEWARD_STORE`, else `onceward.db` in `$ONCEWARD_HOME` (`~/.onceward`). The
    clock is for SQLite, and for tests; PostgreSQL's own time decides there.
    """
    store = open_store(url, clock=clock)
    migrate(store)
    return Onceward(store)

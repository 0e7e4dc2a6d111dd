"""MovingTime: advance the clock of a store's leases in a test, on SQLite or PostgreSQL."""

from __future__ import annotations

from onceward.stores import Store
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock


class MovingTime:
    """A store's clock, which a test can advance; on PostgreSQL time also passes by itself."""

    def __init__(self, store: Store) -> None:
        """Control the clock of this store; on SQLite, open it with a ManualClock."""
        self._store = store
        self._offset_seconds = 0.0

    def advance(self, *, seconds: float) -> None:
        """Advance the clock for all connections."""
        assert seconds >= 0, seconds
        self._offset_seconds += seconds
        if isinstance(self._store, SqliteStore):
            assert isinstance(self._store.clock, ManualClock), "open it with clock=ManualClock()"
            self._store.clock.advance(seconds=seconds)
        else:
            assert isinstance(self._store, PostgresStore)
            with self._store.connection() as connection:
                # All SQL of Onceward reads the time from this function.
                connection.execute(
                    "create or replace function onceward_now() returns timestamptz language sql "
                    "volatile as $$ select clock_timestamp() + "
                    f"interval '{self._offset_seconds} seconds' $$".encode(),
                    prepare=False,
                )

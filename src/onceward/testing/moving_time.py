"""MovingTime: the time by which leases are decided, moved by hand on either engine."""

from __future__ import annotations

from onceward.stores import Store
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock


class MovingTime:
    """A store's time, which runs by itself only on PostgreSQL, and can be moved by hand."""

    def __init__(self, store: Store) -> None:
        """Move the time of this store, which on SQLite was opened with a ManualClock."""
        self._store = store
        self._offset_seconds = 0.0

    def advance(self, *, seconds: float) -> None:
        """Let so much time pass, for every connection at once."""
        assert seconds >= 0, seconds
        self._offset_seconds += seconds
        if isinstance(self._store, SqliteStore):
            assert isinstance(self._store.clock, ManualClock), "open it with clock=ManualClock()"
            self._store.clock.advance(seconds=seconds)
        else:
            assert isinstance(self._store, PostgresStore)
            with self._store.connection() as connection:
                # The one function that everything of ours asks for the time.
                connection.execute(
                    "create or replace function onceward_now() returns timestamptz language sql "
                    "volatile as $$ select clock_timestamp() + "
                    f"interval '{self._offset_seconds} seconds' $$".encode(),
                    prepare=False,
                )

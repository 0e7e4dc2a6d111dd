"""WAL checkpoints: copy the WAL back into the database in small steps, after our commits.

SQLite before 3.51.3 can lose a commit when one connection restarts the WAL while another one
checkpoints it. We checkpoint only while one of our connections holds the write lock, so no commit
can restart the WAL at the same time. Other programs checkpoint after a commit that leaves 1,000
pages in the WAL; we do it at half of that, so they rarely need to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from onceward.stores.sqlite.connection import BUSY_SECONDS, SqliteConnection

#: Checkpoint when the WAL has about this many pages.
PAGES = 500
#: The number of commits between two checkpoints stays within these bounds.
COMMITS_MIN, COMMITS_MAX = 2, 500
#: Commits before the first checkpoint, while the pages per commit are not known.
COMMITS_FIRST: Final = 100
#: A commit that changed more rows than this is followed by a checkpoint.
ROWS_MAX: Final = 5_000
#: The default page size, to estimate what earlier processes left in the WAL.
_PAGE_BYTES: Final = 4096


class WalCheckpoints:
    """Decides when this process checkpoints one database, and does it."""

    def __init__(self, log_bytes: int) -> None:
        """Start counting; a WAL that is long already is checkpointed after the first commit."""
        is_long = log_bytes > 2 * PAGES * _PAGE_BYTES
        self._commits_max = 1 if is_long else min(COMMITS_FIRST, PAGES)
        self._commits = 0
        self._pages = 0

    def is_due(self, rows: int) -> bool:
        """Count a commit of `rows` changed rows; return whether to checkpoint after it."""
        self._commits += 1
        return self._commits >= self._commits_max or rows > ROWS_MAX

    def run(self, writer: SqliteConnection, other: SqliteConnection) -> None:
        """Checkpoint through `other` while `writer` holds the write lock.

        A failure does not affect the commit: the WAL is kept, and the next checkpoint retries.
        """
        commits, self._commits = self._commits, 0
        with suppress(sqlite3.Error), _not_waiting(writer):
            writer.execute("begin immediate")
            try:
                ((_, pages, _),) = other.execute("pragma wal_checkpoint(passive)")
            finally:
                writer.execute("rollback")
            # Readers may prevent the WAL from restarting at its beginning.
            added = pages - self._pages if pages > self._pages else pages
            self._pages = pages
            wanted = PAGES * commits // max(added, 1)
            self._commits_max = min(max(wanted, COMMITS_MIN), COMMITS_MAX)


@contextmanager
def _not_waiting(connection: SqliteConnection) -> Iterator[None]:
    """Skip a checkpoint that another program blocks: waiting would delay the commit's caller."""
    connection.execute("pragma busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"pragma busy_timeout = {int(BUSY_SECONDS * 1000)}")

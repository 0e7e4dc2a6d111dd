"""Checkpoints: write the log back into the database before other programs have to.

SQLite before 3.51.3 can lose a commit when one connection restarts the log while another one
checkpoints it. Ours do so only while a connection of ours holds the write lock, so that no commit
can restart the log meanwhile. Other programs checkpoint after a commit that leaves 1,000 pages in
the log; by doing it at half of that we leave them little to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from onceward.stores.sqlite.connection import BUSY_SECONDS, Connection

#: Checkpoint when about so many pages are in the log.
PAGES = 500
#: The number of commits between two checkpoints stays within these bounds.
COMMITS_MIN, COMMITS_MAX = 2, 500
#: Commits before the first checkpoint, while the number of pages of one is not known.
COMMITS_FIRST: Final = 100
#: A commit that changed so many rows is followed by a checkpoint.
ROWS_MAX: Final = 5_000
#: The size of most databases' pages, to estimate what earlier processes left in the log.
_PAGE_BYTES: Final = 4096


class Checkpoints:
    """When the commits of this process are written back into one database."""

    def __init__(self, log_bytes: int) -> None:
        """Count from now; a log that is long already is written back after the first commit."""
        is_long = log_bytes > 2 * PAGES * _PAGE_BYTES
        self._commits_max = 1 if is_long else min(COMMITS_FIRST, PAGES)
        self._commits = 0
        self._pages = 0

    def is_due(self, rows: int) -> bool:
        """Count a commit that changed so many rows; return whether to checkpoint after it."""
        self._commits += 1
        return self._commits >= self._commits_max or rows > ROWS_MAX

    def run(self, writer: Connection, other: Connection) -> None:
        """Checkpoint through `other` while `writer` holds the write lock.

        The commit stands even if this fails: the log is still there, and the next one tries again.
        """
        commits, self._commits = self._commits, 0
        with suppress(sqlite3.Error), _not_waiting(writer):
            writer.execute("begin immediate")
            try:
                ((_, pages, _),) = other.execute("pragma wal_checkpoint(passive)")
            finally:
                writer.execute("rollback")
            # Readers may keep the log from starting again at its beginning.
            added = pages - self._pages if pages > self._pages else pages
            self._pages = pages
            wanted = PAGES * commits // max(added, 1)
            self._commits_max = min(max(wanted, COMMITS_MIN), COMMITS_MAX)


@contextmanager
def _not_waiting(connection: Connection) -> Iterator[None]:
    """Skip a checkpoint that another program is in the way of: the commit is acknowledged later."""
    connection.execute("pragma busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"pragma busy_timeout = {int(BUSY_SECONDS * 1000)}")

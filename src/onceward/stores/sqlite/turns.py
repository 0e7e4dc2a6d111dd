"""Turns: the writers of one file, in all processes and threads, one after the other.

SQLite's own busy handler lets some wait for ever while others write. Here they queue: threads on a
lock, processes on a flock of a file beside the database, which the kernel hands on and takes back
from the dead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onceward.errors import WriterHeld
from onceward.seams import Files, OpenFile


class Turns:
    """Whose turn it is to write."""

    def __init__(self, database: Path, files: Files) -> None:
        """Queue beside this database."""
        self._path = database.with_name(f"{database.name}-turns")
        self._files = files
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._process = 0
        self._file: OpenFile | None = None

    @property
    def is_mine(self) -> bool:
        """Say whether this thread is writing now, so that waiting would be for itself."""
        return self._holder == threading.get_ident() and self._process == os.getpid()

    def take(self) -> None:
        """Wait for our turn."""
        if self.is_mine:
            raise WriterHeld
        self._after_fork()
        self._lock.acquire()
        try:
            self._opened().lock()
        except BaseException:
            self._lock.release()
            raise
        self._holder = threading.get_ident()

    def give(self) -> None:
        """Let the next one write."""
        self._holder = None
        self._opened().unlock()
        self._lock.release()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the turn for a while."""
        self.take()
        try:
            yield
        finally:
            self.give()

    def _opened(self) -> OpenFile:
        if self._file is None:
            self._file = self._files.open_append(self._path)
        return self._file

    def _after_fork(self) -> None:
        """Forget what the parent held: a lock copied by fork is nobody's, its file is shared."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lock = threading.Lock()
            self._holder = None
            self._file = None

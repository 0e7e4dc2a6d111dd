"""Turns: the writers of one file, in all processes and threads, one after the other.

SQLite's own busy handler lets some wait for ever while others write. Here they queue: threads on a
lock, processes on a flock of a file beside the database, which the kernel hands on and takes back
from the dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from onceward.errors import StoreBusy, WriterHeld
from onceward.seams import Files, OpenFile
from onceward.stores.sqlite.connection import FORKING, wait_for_fork

#: How long a thread waits for another thread of this process that writes.
WAIT_SECONDS_MAX: Final = 60.0


class Turns:
    """Whose turn it is to write."""

    def __init__(self, database: Path, files: Files) -> None:
        """Queue beside this database."""
        self._path = database.with_name(f"{database.name}-turns")
        self._files = files
        self._lock = threading.Lock()
        self._is_inside: Callable[[], bool] | None = None
        #: The thread that writes, for people.
        self._holder = 0
        self._file: OpenFile | None = None

    @property
    def is_mine(self) -> bool:
        """Say whether who writes now waits for whoever asks, so that waiting would be for ever."""
        is_inside = self._is_inside
        return is_inside is not None and is_inside()

    def is_of(self, is_inside: Callable[[], bool]) -> bool:
        """Say whether the turn was taken with this."""
        return self._is_inside is is_inside

    def take(self, is_inside: Callable[[], bool]) -> None:
        """Wait for our turn; while it lasts, `is_inside` tells others whether they may wait."""
        holder = self._is_inside
        if holder is not None and holder():
            raise self.held()
        if FORKING.locked():
            wait_for_fork()
        if not self._lock.acquire(timeout=WAIT_SECONDS_MAX):
            message = f"{self._named()} has not ended its transaction for {WAIT_SECONDS_MAX:g} s"
            raise StoreBusy(message, fix="keep transactions short, then try again")
        try:
            self._holder = threading.get_ident()
            (self._file or self._opened()).lock()
            self._is_inside = is_inside
        except BaseException:
            self._lock.release()
            raise

    def held(self) -> WriterHeld:
        """Return the error for a caller that would wait for itself; it names the holder."""
        return WriterHeld(
            f"{self._named()} is inside a writing transaction, which waits for this call"
        )

    def _named(self) -> str:
        """Return the file and the thread that writes to it."""
        holder = self._holder
        names = (each.name for each in threading.enumerate() if each.ident == holder)
        return f"{self._path.name.removesuffix('-turns')}: thread {next(names, str(holder))}"

    def give(self) -> None:
        """Let the next one write."""
        self._is_inside = None
        (self._file or self._opened()).unlock()
        self._lock.release()

    @contextmanager
    def kept_from_us(self) -> Iterator[None]:
        """Let no thread of this process write for a while; another process may, or be frozen."""
        with self._lock:
            yield

    def _opened(self) -> OpenFile:
        self._file = self._files.open_append(self._path)
        return self._file

    def close(self) -> None:
        """Give the file back, unless somebody has the turn or waits for it; the next one opens it.

        A process that opens store after store would run out of descriptors, and some drivers wait
        for ever on one above 1,023.
        """
        if self._lock.acquire(blocking=False):
            try:
                file, self._file = self._file, None
                if file is not None:
                    file.close()
            finally:
                self._lock.release()

    def __del__(self) -> None:
        with suppress(Exception):  # Also while the interpreter ends, and when it was never made.
            self.close()

    def after_fork(self) -> None:
        """Forget, in a child, what the parent held.

        The child's copy of the file is closed: it would keep the lock when the parent dies.
        """
        if self._file is not None:
            self._file.close()
        self._lock, self._is_inside, self._file = threading.Lock(), None, None


def in_this_thread() -> Callable[[], bool]:
    """Return what tells this thread from all others."""
    thread = threading.get_ident()
    return lambda: threading.get_ident() == thread

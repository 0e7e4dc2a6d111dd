"""Write lock: serialise the writers of one SQLite file across processes and threads.

SQLite's busy handler is not fair and can starve a writer. Here threads queue on a lock, and
processes on a flock of a file beside the database. The kernel passes it on and releases it when a
holder dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from onceward.errors import StoreBusy, WriterHeld
from onceward.stores.sqlite.connection import FORK_LOCK, wait_for_fork
from onceward.system import Files, OpenFile

#: How long a thread waits for a writing thread of the same process.
WAIT_SECONDS_MAX: Final = 60.0


class WriteLock:
    """The write lock of one SQLite file, shared by threads and processes."""

    def __init__(self, database: Path, files: Files) -> None:
        """Use a lock file beside this database."""
        self._path = database.with_name(f"{database.name}-write-lock")
        self._files = files
        self._lock = threading.Lock()
        self._is_inside: Callable[[], bool] | None = None
        #: The writing thread, for error messages.
        self._holder = 0
        self._file: OpenFile | None = None

    @property
    def is_held_by_caller(self) -> bool:
        """Return whether the current holder waits for the caller: waiting would be a deadlock."""
        is_inside = self._is_inside
        return is_inside is not None and is_inside()

    def was_acquired_with(self, is_inside: Callable[[], bool]) -> bool:
        """Return whether the lock was acquired with this callable."""
        return self._is_inside is is_inside

    def acquire(self, is_inside: Callable[[], bool]) -> None:
        """Wait for the lock. While it is held, `is_inside` detects callers that would deadlock."""
        holder = self._is_inside
        if holder is not None and holder():
            raise self.held_error()
        if FORK_LOCK.locked():
            wait_for_fork()
        if not self._lock.acquire(timeout=WAIT_SECONDS_MAX):
            message = (
                f"the write lock was not free within {WAIT_SECONDS_MAX:g} s; it is held by "
                f"{self._named()}; nothing was changed"
            )
            fix = "end that thread's transaction, or keep transactions short; then try again"
            raise StoreBusy(message, fix=fix)
        try:
            self._holder = threading.get_ident()
            (self._file or self._opened()).lock()
            self._is_inside = is_inside
        except BaseException:
            self._lock.release()
            raise

    def held_error(self) -> WriterHeld:
        """Return the error for a caller that would deadlock; it names the holder."""
        return WriterHeld(
            f"{self._named()} is inside a writing transaction, and this call would wait for its "
            "end forever; nothing was changed"
        )

    def _named(self) -> str:
        """Return the file and its writing thread, for messages."""
        holder = self._holder
        names = (each.name for each in threading.enumerate() if each.ident == holder)
        return f"{self._path.name.removesuffix('-write-lock')}: thread {next(names, str(holder))}"

    def release(self) -> None:
        """Release the lock to the next writer."""
        self._is_inside = None
        (self._file or self._opened()).unlock()
        self._lock.release()

    @contextmanager
    def block_this_process(self) -> Iterator[None]:
        """Block the writers of this process, but not those of others, for the time of a block."""
        with self._lock:
            yield

    def _opened(self) -> OpenFile:
        self._file = self._files.open_append(self._path)
        return self._file

    def close(self) -> None:
        """Close the lock file, unless a thread holds the lock or waits; `acquire` reopens it.

        A process that opens many stores would exhaust its descriptors, and some drivers hang on one
        above 1,023.
        """
        if self._lock.acquire(blocking=False):
            try:
                file, self._file = self._file, None
                if file is not None:
                    file.close()
            finally:
                self._lock.release()

    def __del__(self) -> None:
        with suppress(Exception):  # Also at interpreter exit, and after a failed __init__.
            self.close()

    def after_fork(self) -> None:
        """Reset the lock in a forked child.

        The child's copy of the descriptor is closed: it would keep the lock when the parent dies.
        """
        if self._file is not None:
            self._file.close()
        self._lock, self._is_inside, self._file = threading.Lock(), None, None


def same_thread_check() -> Callable[[], bool]:
    """Return a callable that returns whether its caller runs in the current thread."""
    thread = threading.get_ident()
    return lambda: threading.get_ident() == thread

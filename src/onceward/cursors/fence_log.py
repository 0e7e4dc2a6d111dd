"""Fence log: record rejected stale writes of workers whose lease was lost.

The worker gets its error at once; a background thread writes the entry, because the worker may be
inside a transaction that blocks the write. Best effort: an entry that cannot be written is dropped.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from onceward.cursors.models import OWN_PREFIX, Epoch
from onceward.errors import OncewardError
from onceward.stores import Store

_log = logging.getLogger("onceward.cursors")
#: What a stale holder attempted. `write`: a statement of a handler, in a marked transaction.
AttemptedWrite = Literal["checkpoint", "renew", "guard", "write", "fail"]
#: Entries that wait to be written; more are dropped.
WAITING_MAX: Final = 1_000
#: How long closing waits for entries that are being written.
FLUSH_SECONDS_MAX: Final = 1.0


class _FenceLogEntry(NamedTuple):
    """One rejected write of one grant; each kind is recorded once."""

    name: str
    worker: str
    epoch: Epoch
    what: AttemptedWrite


class FenceLog:
    """Records the rejected stale writes of one process."""

    def __init__(self, store: Store) -> None:
        """Write to this store; the thread runs only while there are entries to write."""
        self._store = store
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._waiting: dict[_FenceLogEntry, None] = {}
        self._thread: threading.Thread | None = None
        self._has_logged = False

    def add(self, name: str, worker: str, epoch: Epoch, what: AttemptedWrite) -> None:
        """Record an entry in the background; returns at once, and raises nothing."""
        if name.startswith(OWN_PREFIX):
            return
        if self._process != os.getpid():  # The parent's thread is not in this process.
            self._reset()
        with self._mutex:
            if len(self._waiting) >= WAITING_MAX:
                return
            self._waiting[_FenceLogEntry(name, worker, epoch, what)] = None
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="onceward-fence-log", daemon=True)
            with suppress(RuntimeError):  # No thread can be started while the process ends.
                thread.start()
                self._thread = thread

    def flush(self, seconds: float = FLUSH_SECONDS_MAX) -> None:
        """Wait until entries are written, at most `seconds`."""
        if self._process != os.getpid():
            return
        with self._mutex:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _run(self) -> None:
        try:
            while (entry := self._next()) is not None:
                self._write(entry)
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():  # Not its successor.
                    self._thread = None

    def _next(self) -> _FenceLogEntry | None:
        with self._mutex:
            if not self._waiting:
                self._thread = None
                return None
            entry = next(iter(self._waiting))
            del self._waiting[entry]
            return entry

    def _write(self, entry: _FenceLogEntry) -> None:
        try:
            self._store.write_query("rejected_write_add", **entry._asdict())
        except OncewardError:
            pass  # Best effort.
        except Exception:  # noqa: BLE001 - the next entry may succeed
            if not self._has_logged:
                _log.exception("rejected write not recorded; further errors are not logged")
            self._has_logged = True

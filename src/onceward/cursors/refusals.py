"""Refusals: late holders that the store turned away, written down for whoever looks for them.

A holder is told of its loss at once; the note comes behind it, in a thread of its own: whoever is
refused may be inside a transaction that others, and the note too, wait for. Best effort: a note
that cannot be written now is not written.
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
#: What a late holder tried. `write`: something of a handler's, in a transaction that it marked.
Tried = Literal["checkpoint", "renew", "guard", "write", "fail"]
#: Notes that wait to be written; more are dropped.
WAITING_MAX: Final = 1_000
#: How long an end waits for those that are on their way.
SETTLE_SECONDS_MAX: Final = 1.0


class _Refusal(NamedTuple):
    """One thing that one grant tried too late; each is noted once."""

    name: str
    worker: str
    epoch: Epoch
    what: Tried


class Refusals:
    """The notes of one process."""

    def __init__(self, store: Store) -> None:
        """Write them to this store; no thread runs before there is something to write."""
        self._store = store
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._waiting: dict[_Refusal, None] = {}
        self._thread: threading.Thread | None = None
        self._has_complained = False

    def add(self, name: str, worker: str, epoch: Epoch, what: Tried) -> None:
        """Note it soon; returns at once, and raises nothing."""
        if name.startswith(OWN_PREFIX):
            return
        if self._process != os.getpid():  # The parent's thread is not in this process.
            self._begin_anew()
        with self._mutex:
            if len(self._waiting) >= WAITING_MAX:
                return
            self._waiting[_Refusal(name, worker, epoch, what)] = None
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="onceward-refusals", daemon=True)
            with suppress(RuntimeError):  # No thread can be started while the process ends.
                thread.start()
                self._thread = thread

    def settle(self, seconds: float = SETTLE_SECONDS_MAX) -> None:
        """Wait for the notes that are on their way, but not for long."""
        if self._process != os.getpid():
            return
        with self._mutex:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _run(self) -> None:
        try:
            while (refusal := self._next()) is not None:
                self._write(refusal)
        finally:
            with self._mutex:
                if self._thread is threading.current_thread():  # Not one that came after it.
                    self._thread = None

    def _next(self) -> _Refusal | None:
        with self._mutex:
            if not self._waiting:
                self._thread = None
                return None
            refusal = next(iter(self._waiting))
            del self._waiting[refusal]
            return refusal

    def _write(self, refusal: _Refusal) -> None:
        try:
            self._store.write_query("refusal_add", **refusal._asdict())
        except OncewardError:
            pass  # Best effort.
        except Exception:  # noqa: BLE001 - whatever it is, the next one may be written
            if not self._has_complained:
                _log.exception("a refusal was not noted; further ones are not told")
            self._has_complained = True

"""Outage: what a memory server does while its store is away, and how it recovers by itself.

A circuit breaker: after the first failure calls fail at once, until a probe in the background
reaches the store. Records are not refused: they wait in a buffer on disk and are replayed, in
order, before newer ones are written. The log has one line when the store goes, one when it is
back, and one now and then in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from onceward.errors import OncewardError, OutcomeUnknown, StoreUnavailable
from onceward.handle import Onceward
from onceward.memory.buffer import Buffer
from onceward.memory.client import Memory
from onceward.memory.log_events import log_event
from onceward.memory.offline import foretold
from onceward.memory.replaying import MakeMemory, Where, keep_record, replay
from onceward.memory.shapes import Shape
from onceward.retries import retrying
from onceward.seams import Clock, SystemClock, timestamp
from onceward.stores import migrate

T = TypeVar("T")
#: Pauses between two probes of a store that is away: the first, and the longest.
PROBE_SECONDS_FIRST: Final = 0.2
PROBE_SECONDS_MAX: Final = 2.0
#: A line of the log says how many calls failed since the last one, at most this often.
LOG_SECONDS: Final = 30.0
#: How long a call waits for the replay of what waited.
DRAIN_SECONDS_MAX: Final = 5.0
_DRAINING: Final = "records that waited while the store was away are being written"


class _Away(Exception):
    """The store cannot be reached, so trying again at once does not help."""

    def __init__(self, error: StoreUnavailable) -> None:
        super().__init__()
        self.error = error


class Outage:
    """Decides for each call whether the store is asked, and keeps records when it is not."""

    def __init__(
        self,
        ow: Onceward,
        buffer: Buffer,
        make_memory: MakeMemory,
        *,
        clock: Clock | None = None,
    ) -> None:
        """Watch this store; `make_memory` gets source, mode, repo and branch of a record."""
        self.buffer = buffer
        self._ow, self._make_memory = ow, make_memory
        self._clock = clock or SystemClock()
        self._retrying = retrying(on=(OutcomeUnknown,), clock=clock)
        self._lock = threading.Lock()
        self._is_migrated = False
        #: Why the store cannot be reached; None while it can.
        self._error: StoreUnavailable | None = None
        #: Set unless a thread probes the store and replays what waits.
        self.is_whole = threading.Event()
        self.is_whole.set()
        self._stopped = threading.Event()
        self._failed, self._logged_at = 0, 0.0

    def start(self) -> None:
        """Bring the schema up to date; go on without when the store is away. Other errors raise."""
        try:
            self._asked(lambda: None)
        except StoreUnavailable as exc:
            self.trip(exc)
        else:
            if self._pending():
                self._recover()

    def close(self) -> None:
        """Stop probing; what waits is replayed by the next process."""
        self._stopped.set()

    @property
    def is_away(self) -> bool:
        """Say whether calls fail at once."""
        return self._error is not None

    # --- calls -----------------------------------------------------------------------------------

    def call(self, function: Callable[[], T]) -> T:
        """Ask the store; raise StoreUnavailable at once while it is away.

        Waits for records that are being replayed: a deletion must not come before them.
        """
        error = self._error
        if error is None and not self.is_whole.wait(DRAIN_SECONDS_MAX):
            error = StoreUnavailable(_DRAINING, fix="call again in a moment")
        if error is not None:
            self._count()
            raise StoreUnavailable(error.message, fix=error.fix)
        try:
            return self._asked(function)
        except StoreUnavailable as exc:
            self.trip(exc)
            raise

    def record(self, method: str, memory: Memory, facts: Mapping[str, Any], where: Where) -> Shape:
        """Record with one of the memory's methods, or keep the record until the store is back."""
        dated = self.dated(facts)
        # What waits goes first, so that records stay in their order.
        if not self.is_away and not self._pending():
            try:
                found: Shape = self.call(partial(getattr(memory, method), **dated))
            except (StoreUnavailable, OutcomeUnknown):
                pass
            else:
                return found
        return self.keep(method, memory, dated, where)

    def dated(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts with the time of their call, which every try of it must share."""
        return {"ts": timestamp(self._clock.now()), **facts}

    def keep(self, method: str, memory: Memory, facts: Mapping[str, Any], where: Where) -> Shape:
        """Put a record into the buffer; its arguments are checked as ever."""
        dated = self.dated(facts)
        redactor = memory.graph.redactor
        source, mode, repo, branch = map(redactor.text, where)
        place = (source, mode, repo, branch)
        told = foretold(memory, method, dated, place)
        clean = redactor.value(dated)
        assert isinstance(clean, dict), type(clean)
        with self._lock:
            try:
                keep_record(self.buffer, memory.graph, method, clean, place)
            except StoreUnavailable:
                raise
            except OncewardError as exc:
                message = f"the store is away, and its buffer cannot be written: {exc.message}"
                raise StoreUnavailable(message, fix=exc.fix) from exc
        self._recover()
        return told

    def trip(self, error: StoreUnavailable) -> None:
        """Let calls fail at once until a probe succeeds."""
        with self._lock:
            is_new, self._error = self._error is None, error
            if is_new:
                self._failed, self._logged_at = 0, self._clock.monotonic()
        if is_new:
            self._log(logging.ERROR, {"event": "store.away", "error": error.code})
        self._recover()

    # --- recovering ------------------------------------------------------------------------------

    def _recover(self) -> None:
        with self._lock:
            if not self.is_whole.is_set():
                return
            self.is_whole.clear()
        threading.Thread(target=self._until_whole, name="memory-recovery", daemon=True).start()

    def _until_whole(self) -> None:
        pause = PROBE_SECONDS_FIRST
        while not self._stopped.is_set():
            try:
                self._probe()
                replayed = self.buffer.replay(self._replay)
            except StoreUnavailable as exc:
                self.trip(exc)
            except Exception:  # noqa: BLE001 - whatever it was, the next probe may do better
                self._count()
            else:
                if replayed:
                    self._log(logging.WARNING, {"event": "buffer.replayed", "records": replayed})
                with self._lock:
                    # A call may have found the store away again in the meantime.
                    if self._error is None and not self._pending():
                        self.is_whole.set()
                        return
            self._stopped.wait(pause)
            pause = min(2 * pause, PROBE_SECONDS_MAX)

    def _probe(self) -> None:
        """Reach the store, or raise."""
        self._asked(lambda: self._ow.store.read("memory_entity_page", after=0, limit=1))
        with self._lock:
            was_away, self._error = self._error is not None, None
        if was_away:
            self._log(logging.WARNING, {"event": "store.back", "failed": self._failed})

    def _replay(self, call: Mapping[str, Any]) -> None:
        self._asked(lambda: replay(call, self._make_memory))

    def _asked(self, function: Callable[[], T]) -> T:
        """Ask the store, again if it is busy; not again when it cannot be reached."""

        def once() -> T:
            try:
                if not self._is_migrated:
                    migrate(self._ow.store)
                    self._is_migrated = True
                return function()
            except StoreUnavailable as exc:
                raise _Away(exc) from exc

        try:
            return self._retrying(once)()
        except _Away as away:
            raise away.error from away

    def _pending(self) -> int:
        """Return how many records wait; none if their directory cannot be read."""
        try:
            return self.buffer.pending()
        except OncewardError:
            return 0

    # --- the log ---------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count a call that failed at once, and say so now and then."""
        with self._lock:
            self._failed += 1
            now = self._clock.monotonic()
            is_due = now - self._logged_at >= LOG_SECONDS
            if is_due:
                self._logged_at = now
        if is_due:
            self._log(logging.WARNING, {"event": "store.still_away", "failed": self._failed})

    def _log(self, level: int, said: Mapping[str, object]) -> None:
        log_event(level, {"buffered": self._pending(), **said})

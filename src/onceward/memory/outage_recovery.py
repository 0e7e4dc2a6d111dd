"""Outage recovery: a circuit breaker and an offline buffer for a memory server.

After the first failure all calls fail at once, until a background probe reaches the store. Records
are buffered on disk instead, and replayed in order before newer ones are written. An outage is
logged when it starts, when it ends, and periodically in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from onceward.client import Onceward
from onceward.errors import OncewardError, OutcomeUnknown, StoreUnavailable
from onceward.memory.buffered_records import (
    MakeMemory,
    RecordContext,
    buffer_record,
    replay,
    validate_offline,
)
from onceward.memory.client import Memory
from onceward.memory.memory_calls import log_event
from onceward.memory.offline_buffer import Buffer
from onceward.memory.serialization import JsonObject
from onceward.retries import retrying
from onceward.stores import migrate
from onceward.system import Clock, SystemClock, timestamp

T = TypeVar("T")
#: Backoff between probes of an unavailable store: the first and the longest pause.
PROBE_SECONDS_FIRST: Final = 0.2
PROBE_SECONDS_MAX: Final = 2.0
#: Interval for logging the number of failed calls.
LOG_SECONDS: Final = 30.0
#: How long a call waits for the replay of buffered records.
REPLAY_WAIT_SECONDS_MAX: Final = 5.0
_REPLAYING: Final = "records that were buffered in an outage are being written; nothing was done"


class _StoreUnreachable(Exception):
    """The store cannot be reached, so an immediate retry does not help."""

    def __init__(self, error: StoreUnavailable) -> None:
        super().__init__()
        self.error = error


class CircuitBreaker:
    """Rejects calls while the store is unavailable, and buffers records on disk."""

    def __init__(
        self,
        ow: Onceward,
        buffer: Buffer,
        make_memory: MakeMemory,
        *,
        clock: Clock | None = None,
    ) -> None:
        """Protect this store; `make_memory` takes the source, mode, repo and branch of a record."""
        self.buffer = buffer
        self._ow, self._make_memory = ow, make_memory
        self._clock = clock or SystemClock()
        self._retrying = retrying(on=(OutcomeUnknown,), clock=clock)
        self._lock = threading.Lock()
        self._is_migrated = False
        #: Why the store is unavailable; None while the circuit is closed.
        self._error: StoreUnavailable | None = None
        #: Cleared while a thread probes the store and replays buffered records.
        self.is_recovered = threading.Event()
        self.is_recovered.set()
        self._stopped = threading.Event()
        self._failed, self._logged_at = 0, 0.0

    def start(self) -> None:
        """Migrate the schema; open the circuit if the store is unavailable. Other errors raise."""
        try:
            self._run_with_retries(lambda: None)
        except StoreUnavailable as exc:
            self.trip(exc)
        else:
            if self._pending():
                self._recover()

    def close(self) -> None:
        """Stop probing; the next process replays buffered records."""
        self._stopped.set()

    @property
    def is_open(self) -> bool:
        """Return whether calls fail at once."""
        return self._error is not None

    # --- calls -----------------------------------------------------------------------------------

    def call(self, function: Callable[[], T]) -> T:
        """Call the store; raise StoreUnavailable at once while the circuit is open.

        Waits for the replay of buffered records, because a deletion must not overtake them.
        """
        error = self._error
        if error is None and not self.is_recovered.wait(REPLAY_WAIT_SECONDS_MAX):
            error = StoreUnavailable(_REPLAYING, fix="try again in a few seconds")
        if error is not None:
            self._count()
            raise StoreUnavailable(error.message, fix=error.fix)
        try:
            return self._run_with_retries(function)
        except StoreUnavailable as exc:
            self.trip(exc)
            raise

    def record(
        self, method: str, memory: Memory, facts: Mapping[str, Any], where: RecordContext
    ) -> JsonObject:
        """Record with a client method, or buffer the record while the store is unavailable."""
        dated = self.with_timestamp(facts)
        # Buffered records go first, so that records stay in order.
        if not self.is_open and not self._pending():
            try:
                found: JsonObject = self.call(partial(getattr(memory, method), **dated))
            except (StoreUnavailable, OutcomeUnknown):
                pass
            else:
                return found
        return self.buffer_record(method, memory, dated, where)

    def with_timestamp(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the time of the call, which all its attempts must share."""
        return {"ts": timestamp(self._clock.now()), **facts}

    def buffer_record(
        self, method: str, memory: Memory, facts: Mapping[str, Any], where: RecordContext
    ) -> JsonObject:
        """Validate a record and append it to the buffer."""
        dated = self.with_timestamp(facts)
        redactor = memory.graph.redactor
        source, mode, repo, branch = map(redactor.text, where)
        place = (source, mode, repo, branch)
        answer = validate_offline(memory, method, dated, place)
        clean = redactor.value(dated)
        assert isinstance(clean, dict), type(clean)
        with self._lock:
            try:
                buffer_record(self.buffer, memory.graph, method, clean, place)
            except StoreUnavailable:
                raise
            except OncewardError as exc:
                message = (
                    "nothing was recorded: the store is unavailable, and the memory's offline "
                    f"buffer cannot be written: {exc.message}"
                )
                raise StoreUnavailable(message, fix=exc.fix) from exc
        self._recover()
        return answer

    def trip(self, error: StoreUnavailable) -> None:
        """Open the circuit: calls fail at once until a probe succeeds."""
        with self._lock:
            is_new, self._error = self._error is None, error
            if is_new:
                self._failed, self._logged_at = 0, self._clock.monotonic()
        if is_new:
            self._log(logging.ERROR, "store.unavailable", {"error": error.code})
        self._recover()

    # --- recovering ------------------------------------------------------------------------------

    def _recover(self) -> None:
        with self._lock:
            if not self.is_recovered.is_set():
                return
            self.is_recovered.clear()
        threading.Thread(
            target=self._recover_until_done, name="memory-recovery", daemon=True
        ).start()

    def _recover_until_done(self) -> None:
        pause = PROBE_SECONDS_FIRST
        while not self._stopped.is_set():
            try:
                self._probe()
                replayed = self.buffer.replay(self._replay)
            except StoreUnavailable as exc:
                self.trip(exc)
            except Exception:  # noqa: BLE001 - the next probe retries
                self._count()
            else:
                if replayed:
                    self._log(logging.WARNING, "buffer.replayed", {"records": replayed})
                with self._lock:
                    # A call may have tripped the breaker again since the probe.
                    if self._error is None and not self._pending():
                        self.is_recovered.set()
                        return
            self._stopped.wait(pause)
            pause = min(2 * pause, PROBE_SECONDS_MAX)

    def _probe(self) -> None:
        """Reach the store, or raise."""
        self._run_with_retries(lambda: self._ow.store.read("memory_entity_page", after=0, limit=1))
        with self._lock:
            was_away, self._error = self._error is not None, None
        if was_away:
            self._log(logging.WARNING, "store.available", {"failed": self._failed})

    def _replay(self, call: Mapping[str, Any]) -> None:
        self._run_with_retries(lambda: replay(call, self._make_memory))

    def _run_with_retries(self, function: Callable[[], T]) -> T:
        """Run the function, retrying if the store is busy but not if it is unreachable."""

        def once() -> T:
            try:
                if not self._is_migrated:
                    migrate(self._ow.store)
                    self._is_migrated = True
                return function()
            except StoreUnavailable as exc:
                raise _StoreUnreachable(exc) from exc

        try:
            return self._retrying(once)()
        except _StoreUnreachable as away:
            raise away.error from away

    def _pending(self) -> int:
        """Return the number of buffered records; 0 if their directory cannot be read."""
        try:
            return self.buffer.pending()
        except OncewardError:
            return 0

    # --- the log ---------------------------------------------------------------------------------

    def _count(self) -> None:
        """Count a rejected call, and log the number periodically."""
        with self._lock:
            self._failed += 1
            now = self._clock.monotonic()
            is_due = now - self._logged_at >= LOG_SECONDS
            if is_due:
                self._logged_at = now
        if is_due:
            self._log(logging.WARNING, "store.still_unavailable", {"failed": self._failed})

    def _log(self, level: int, event: str, facts: Mapping[str, object]) -> None:
        log_event(level, event, {"buffered": self._pending(), **facts})

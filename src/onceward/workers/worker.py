"""Worker: consume the cursors of an app in one process, with several threads.

Owns the threads, the discovery of partitions, and an orderly shutdown that releases every lease.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from onceward.errors import OncewardError, OutcomeUnknown
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness
from onceward.workers.app import App
from onceward.workers.cursor_reader import BACKOFF_SECONDS_MAX, CursorReader, PollResult, PollState
from onceward.workers.discovery import TROUBLE_GRACE_SECONDS, CursorDiscovery
from onceward.workers.handler_calls import close_loop
from onceward.workers.lag_sampler import LagSampler
from onceward.workers.models import Consumer
from onceward.workers.pruning import pruning
from onceward.workers.retention import Retention
from onceward.workers.schedule_queue import ScheduleQueue
from onceward.workers.source_protocol import Source, Watchable
from onceward.workers.telemetry import Telemetry
from onceward.workers.wakeups import ANY_TOPIC, Wakeups
from onceward.workers.worker_registry import WorkerRegistration

THREADS: Final = 4
#: How long a stop waits for handlers before it releases their leases.
STOP_SECONDS: Final = 30.0
#: An idle partition is polled after this time even without a wakeup.
SWEEP_SECONDS: Final = 900.0
#: Random share added to or taken from each delay, so that workers do not poll in step.
JITTER: Final = 0.2
#: Pause before a worker connects again to a store that did not answer.
RECONNECT_SECONDS: Final = 0.5
#: Wakeups within this time are handled together; the shorter time is for runs that shall end soon.
WAKE_BATCH_SECONDS: Final = 0.03
WAKE_BATCH_SECONDS_MIN: Final = 0.005
_numbers: Final = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerResult:
    """The result of a run."""

    #: Messages that were processed, parked and dead ones included.
    messages: int
    #: Whether every thread ended in time and no source was refused.
    is_clean: bool
    #: Cursors that another worker holds, that are paused, failing or refused, or whose messages
    #: wait for a retry; and consumers whose partitions cannot be discovered. All consumers, if the
    #: worker was stopped before it reached the store.
    unfinished: tuple[str, ...]
    #: How the last poll cycle of each unfinished cursor ended; none if it never had one.
    states: Mapping[str, PollState] = field(default_factory=dict)


class Worker:
    """The worker threads of one process."""

    def __init__(  # noqa: PLR0913 - all but one by name
        self,
        app: App,
        *,
        threads: int = THREADS,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        stop_seconds: float = STOP_SECONDS,
        retention: Retention | None = None,
    ) -> None:
        """Prepare a worker; nothing is opened before `run`."""
        self._app = app
        self._threads = threads
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._stop_seconds = stop_seconds
        self._retention = retention
        self._is_stopping = False
        #: Wakes the main thread; safe to use from a signal handler.
        self._wake_requests: SimpleQueue[str | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._messages = 0
        #: How the last poll cycle of each cursor ended.
        self._states: dict[str, PollState] = {}
        #: When each failing cursor began to fail.
        self._failing_since: dict[str, float] = {}
        #: Whether the last query to the store failed.
        self._is_store_unavailable = False
        #: Unique per worker: a lease is always granted again to the same name.
        self._worker_name = ""
        self._lag_sampler: LagSampler | None = None
        self.telemetry = Telemetry(self._clock)
        self.queue = ScheduleQueue(self._clock)
        self._discovery = CursorDiscovery(
            lambda: app.consumers,
            self.queue,
            self._add,
            self._wake,
            telemetry=self.telemetry,
            clock=self._clock,
        )

    def stop(self) -> None:
        """Start no more work; messages in flight finish. Callable from a signal handler."""
        self._is_stopping = True
        self._wake_requests.put(None)

    def run(self, *, once: bool = False) -> WorkerResult:
        """Process messages until `stop`, or with `once` until nothing can be done now."""
        sampler = self._connect()
        if sampler is None:
            # Stopped before the first search: what is left is unknown, so no cursor is at its end.
            names = tuple(sorted(each.name for each in self._app.consumers))
            return WorkerResult(messages=0, is_clean=True, unfinished=names)
        threads = [
            threading.Thread(target=self._run_thread, name=f"onceward-worker-{number}", daemon=True)
            for number in range(1, self._threads + 1)
        ]
        registry = WorkerRegistration(self._app.ow, self._worker_name, self._app.consumers)
        # Not in the heartbeat's thread: a worker that prunes for long must not look dead.
        removing = pruning(lambda: self._app.ow, self._retention)
        with registry.running(), removing, sampler.running(), self._watching_sources():
            try:
                for thread in threads:
                    thread.start()
                self._supervise(once=once)
            finally:
                self._shut_down(threads)
        is_ended = not any(thread.is_alive() for thread in threads)
        is_clean = is_ended and not self.telemetry.has_refused_sources
        states = {name: state for name, state in self._states.items() if state != "idle"}
        unfinished = tuple(sorted({*states, *self._discovery.unavailable}))
        return WorkerResult(
            messages=self._messages, is_clean=is_clean, unfinished=unfinished, states=states
        )

    # --- the main thread -------------------------------------------------------------------------

    def _connect(self) -> LagSampler | None:
        """Connect to the store, with retries, and find the first cursors."""
        while not self._is_stopping:
            try:
                if self._lag_sampler is None:
                    self._lag_sampler = LagSampler(self._app.ow, clock=self._clock)
                    self._worker_name = f"{self._app.ow.cursors.worker}/{next(_numbers)}"
                self._discovery.find(is_first=True)
            except OncewardError as exc:
                # Opening a store is idempotent, so an unknown outcome may be retried.
                if not (exc.retryable or isinstance(exc, OutcomeUnknown)):
                    raise
                self.telemetry.warn_and_retry("store_unavailable", "*", exc, RECONNECT_SECONDS)
                self._wait(RECONNECT_SECONDS)
            else:
                return self._lag_sampler
        return None

    def _supervise(self, *, once: bool) -> None:
        """Find new partitions and due retries until the worker stops or is drained."""
        poll = min((each.poll_seconds for each in self._app.consumers), default=1.0)
        while not self._is_stopping:
            # In this order: threads that are idle cannot add work before the search below.
            is_drained = once and self._is_drained()
            is_quiet = self._find_work(poll)
            if is_drained and is_quiet:
                return
            is_away = self._is_store_unavailable or self._discovery.is_failing
            pause = WAKE_BATCH_SECONDS_MIN if once and not is_away else self._jittered(poll)
            if once:
                self._wait(min(pause, RECONNECT_SECONDS), WAKE_BATCH_SECONDS_MIN)
            else:
                self._wait(pause, WAKE_BATCH_SECONDS)

    def _find_work(self, poll: float) -> bool:
        """Find new or due work; return whether there is none and all searches succeeded."""
        try:
            found = self._discovery.find() + self._wake_due()
        except Exception as exc:  # noqa: BLE001 - this thread must live to release the leases
            self._is_store_unavailable = True
            self.telemetry.warn_and_retry("store_unavailable", "*", exc, poll)
            return False
        if self._is_store_unavailable:
            # Cursors may have failed for the same reason.
            self._is_store_unavailable = False
            found += self._wake_failing()
        return not found and not self._discovery.is_failing

    def _shut_down(self, threads: list[threading.Thread]) -> None:
        """Let handlers finish, then release every lease."""
        self._is_stopping = True
        self.queue.close()
        deadline = self._clock.monotonic() + self._stop_seconds
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.monotonic()))
        # A handler that is still running: its lease is released, so its checkpoint is rejected.
        for reader in self.queue.readers():
            reader.release()

    def _wait(self, seconds: float, burst: float = WAKE_BATCH_SECONDS_MIN) -> None:
        """Sleep until a wakeup, and take all wakeups of a burst together."""
        try:
            self._wake_requests.get(timeout=seconds)
            if not self._is_stopping:
                self._clock.sleep(burst)
            while True:
                self._wake_requests.get_nowait()
        except Empty:
            return

    def _add(self, consumer: Consumer, partition: str | None, source: Source) -> None:
        reader = CursorReader(
            self._app.ow,
            consumer,
            partition,
            source,
            worker=self._worker_name,
            clock=self._clock,
            telemetry=self.telemetry,
            is_stopping=lambda: self._is_stopping,
        )
        with self._mutex:
            self._states[reader.name] = "more"
        assert self._lag_sampler is not None
        self._lag_sampler.add(reader.name, source, is_partition=partition is not None)
        self.queue.add(reader)

    def _wake(self, name: str) -> None:
        """Make a cursor due now, unless it is failing and waits for its backoff."""
        with self._mutex:
            if name in self._failing_since:
                return
            self._states[name] = "more"
        self.queue.wake(name)

    def _wake_due(self) -> int:
        """Wake the cursors with a parked message that is due; return how many.

        A cursor that cannot be leased keeps its own delay: its holder retries the message.
        """
        found = 0
        for name in self._app.ow.retries.parked.due_cursors():
            if name not in self.queue:
                found += self._discovery.add_due(name)
            elif self._states[name] not in ("elsewhere", "trouble", "full"):
                self._wake(name)
                found += 1
        return found

    def _wake_failing(self) -> int:
        with self._mutex:
            names = tuple(self._failing_since)
            self._failing_since.clear()
        for name in names:
            self._wake(name)
        return len(names)

    def _is_drained(self) -> bool:
        """Return whether nothing can be done now."""
        take_count = self.queue.take_count
        grace_start = self._clock.monotonic() - TROUBLE_GRACE_SECONDS
        with self._mutex:
            for name, state in self._states.items():
                if state in ("more", "full"):
                    return False
                if state == "trouble" and self._failing_since.get(name, grace_start) > grace_start:
                    return False
        # Checked last, so that cursors woken or taken during the loop are noticed.
        return self.queue.is_idle() and self.queue.take_count == take_count

    @contextmanager
    def _watching_sources(self) -> Iterator[None]:
        """Let sources wake their cursors while the block runs."""
        with ExitStack() as stack:
            for consumer in self._app.consumers:
                if isinstance(consumer.source, Watchable):
                    stack.enter_context(consumer.source.watching(self._wake_for(consumer)))
            yield

    def _wake_for(self, consumer: Consumer) -> Callable[[], None]:
        def wake() -> None:
            if consumer.is_partitioned:
                self._wake_requests.put(consumer.name)
            else:
                self._wake(consumer.name)

        return wake

    # --- the threads -----------------------------------------------------------------------------

    def _run_thread(self) -> None:
        while (reader := self.queue.take()) is not None:
            result = PollResult(seconds=BACKOFF_SECONDS_MAX, state="trouble")
            try:
                with self._mutex:
                    self._states[reader.name] = "more"
                result = reader.poll()
            except BaseException:  # noqa: BLE001 - a thread that ends would keep its cursor forever
                self.telemetry.worker_crashed(reader.name)
                with suppress(Exception):
                    reader.release()
            finally:
                try:
                    self._record_result(reader, result)
                finally:
                    self.queue.put_back(reader, self._next_delay(reader, result))
        close_loop()

    def _record_result(self, reader: CursorReader, result: PollResult) -> None:
        # A cursor that was woken during its poll cycle needs another one.
        is_woken = self.queue.is_woken(reader.name)
        with self._mutex:
            self._messages += result.messages
            self._states[reader.name] = "more" if is_woken else result.state
            if result.state == "trouble":
                self._failing_since.setdefault(reader.name, self._clock.monotonic())
            else:
                self._failing_since.pop(reader.name, None)
        if self._lag_sampler is not None and (result.messages or result.state != "idle"):
            self._lag_sampler.mark_active(reader.name)
        if result.messages or result.state == "trouble":
            # Its handlers may have written what other cursors read, even if it failed afterwards.
            for consumer in self._app.consumers:
                if not consumer.is_partitioned and consumer.name != reader.name:
                    self._wake(consumer.name)
            self._wake_requests.put(reader.name)
        if result.messages:
            Wakeups.of(self._app.ow.store).publish_to_others(ANY_TOPIC)

    def _next_delay(self, reader: CursorReader, result: PollResult) -> float:
        if result.state == "idle" and reader.partition is not None:
            return self._jittered(SWEEP_SECONDS)
        return self._jittered(result.seconds)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 - JITTER + 2 * JITTER * self._randomness.fraction())

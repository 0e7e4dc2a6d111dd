"""Worker: one process that works through the cursors of an app, in several threads.

Owns the threads, the search for partitions, and an end in which nothing is left half done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from onceward.errors import OncewardError
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness
from onceward.workers.app import App
from onceward.workers.board import Board
from onceward.workers.handling import close_loop
from onceward.workers.measuring import Measuring
from onceward.workers.models import Consumer
from onceward.workers.reader import Reader, Turned
from onceward.workers.reports import Reports
from onceward.workers.source import Partitions, Source, Waking
from onceward.workers.wakes import ANYTHING, Wakes

THREADS: Final = 4
#: How long a stop waits for handlers before their leases are given back under them.
STOP_SECONDS: Final = 30.0
#: A partition that was idle is looked at this late even if nothing says that it has work.
SWEEP_SECONDS: Final = 900.0
#: How much earlier or later than planned, so that many workers do not come all at once.
JITTER: Final = 0.2
#: How long a worker waits for a store that does not answer before it asks again.
BEGIN_SECONDS: Final = 0.5
#: News that come quicker than this are looked at together.
NEWS_SECONDS_MIN: Final = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Worked:
    """What a run came to."""

    #: Messages that are done with, parked and dead ones among them.
    messages: int
    #: Whether every thread ended in time.
    is_clean: bool
    #: Cursors that another worker holds, that are paused, or whose messages wait for a retry.
    left: tuple[str, ...]


class Worker:
    """The threads of one process."""

    def __init__(
        self,
        app: App,
        *,
        threads: int = THREADS,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """Prepare; nothing is opened before `run`."""
        self._app = app
        self._threads = threads
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._stop_seconds = stop_seconds
        self._is_stopping = False
        #: Wakes the main thread; may be put into from a signal handler.
        self._news: SimpleQueue[str | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._messages = 0
        #: How the last turn of each cursor ended.
        self._states: dict[str, str] = {}
        self._markers: dict[str, str] = {}
        self._measuring: Measuring | None = None
        self.reports = Reports(self._clock)
        self.board = Board(self._clock)

    def stop(self) -> None:
        """Begin no more work; what runs may finish. Callable from a signal handler."""
        self._is_stopping = True
        self._news.put(None)

    def run(self, *, once: bool = False) -> Worked:
        """Work until `stop`, or with `once` until there is nothing left to do now."""
        measuring = self._begin()
        if measuring is None:
            return Worked(messages=0, is_clean=True, left=())
        threads = [
            threading.Thread(target=self._work, name=f"onceward-worker-{number}", daemon=True)
            for number in range(1, self._threads + 1)
        ]
        with measuring.running(), self._watching():
            for thread in threads:
                thread.start()
            self._look_after(once=once)
            self._is_stopping = True
            self.board.close()
            deadline = self._clock.monotonic() + self._stop_seconds
            for thread in threads:
                thread.join(max(0.0, deadline - self._clock.monotonic()))
        is_clean = not any(thread.is_alive() for thread in threads)
        # A handler that does not end: its lease is given back, and its checkpoint refused.
        for reader in self.board.readers():
            reader.release()
        left = (name for name, state in self._states.items() if state != "idle")
        return Worked(messages=self._messages, is_clean=is_clean, left=tuple(sorted(left)))

    # --- the main thread -------------------------------------------------------------------------

    def _begin(self) -> Measuring | None:
        """Find the first cursors, however long it takes until the store answers."""
        while not self._is_stopping:
            try:
                if self._measuring is None:
                    self._measuring = Measuring(self._app.ow, clock=self._clock)
                self._find_cursors()
            except OncewardError as exc:
                if not exc.retryable:
                    raise
                self.reports.trouble("store_unavailable", "*", exc, BEGIN_SECONDS)
                self._wait(BEGIN_SECONDS)
            else:
                return self._measuring
        return None

    def _look_after(self, *, once: bool) -> None:
        """Find new partitions and what is due again, until it is time to stop."""
        poll = min((each.poll_seconds for each in self._app.consumers), default=1.0)
        while not self._is_stopping:
            if once and self._is_drained() and not self._find_cursors():
                return
            self._wait(NEWS_SECONDS_MIN if once else self._jittered(poll))
            if self._is_stopping:
                return
            try:
                self._find_cursors()
                self._wake_due()
            except OncewardError as exc:
                self.reports.trouble("store_unavailable", "*", exc, poll)
            except Exception as exc:  # noqa: BLE001 - a source of the user's; the others must go on
                self.reports.trouble("source_failed", "*", exc, poll)

    def _wait(self, seconds: float) -> None:
        """Sleep until there is news, and take all of it; a burst is one."""
        try:
            self._news.get(timeout=seconds)
            self._clock.sleep(NEWS_SECONDS_MIN)
            while True:
                self._news.get_nowait()
        except Empty:
            return

    def _find_cursors(self) -> int:
        """Put every cursor on the board that is not there, wake those with news; how many."""
        found = 0
        for consumer in self._app.consumers:
            if not consumer.is_partitioned:
                found += self._add(consumer, None, consumer.source)  # type: ignore[arg-type]
                continue
            partitions: Partitions = consumer.source  # type: ignore[assignment]
            active = partitions.active(self._markers.get(consumer.name))
            for key in active.keys:
                if not self._add(consumer, key, None):
                    self._wake(consumer.cursor(key))
                found += 1
            self._markers[consumer.name] = active.marker
        return found

    def _add(self, consumer: Consumer, partition: str | None, source: Source | None) -> bool:
        name = consumer.cursor(partition)
        if name in self.board:
            return False
        if source is None:
            source = consumer.source.source(partition)  # type: ignore[union-attr, arg-type]
        reader = Reader(
            self._app.ow,
            consumer,
            partition,
            source,
            clock=self._clock,
            reports=self.reports,
            is_stopping=lambda: self._is_stopping,
        )
        with self._mutex:
            self._states[name] = "more"
        self.board.add(reader)
        assert self._measuring is not None
        self._measuring.add(name, source, is_partition=partition is not None)
        return True

    def _wake(self, name: str) -> None:
        with self._mutex:
            self._states[name] = "more"
        self.board.wake(name)

    def _wake_due(self) -> None:
        """Wake the cursors that have a parked message whose time has come."""
        for name in self._app.ow.retries.parked.due_cursors():
            if name in self.board:
                self._wake(name)

    def _is_drained(self) -> bool:
        with self._mutex:
            return not any(state in ("more", "full", "trouble") for state in self._states.values())

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Let sources say when there is something new."""
        with ExitStack() as stack:
            for consumer in self._app.consumers:
                if isinstance(consumer.source, Waking):
                    stack.enter_context(consumer.source.watching(self._waker(consumer)))
            yield

    def _waker(self, consumer: Consumer) -> Callable[[], None]:
        def wake() -> None:
            if consumer.is_partitioned:
                self._news.put(consumer.name)
            else:
                self._wake(consumer.name)

        return wake

    # --- the threads -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (reader := self.board.take()) is not None:
            turned = reader.turn()
            self._note(reader, turned)
            self.board.put_back(reader, self._pause(reader, turned))
        close_loop()

    def _note(self, reader: Reader, turned: Turned) -> None:
        with self._mutex:
            self._messages += turned.messages
            self._states[reader.name] = turned.state
        if self._measuring is not None and (turned.messages or turned.state != "idle"):
            self._measuring.worked(reader.name)
        if turned.messages:
            # What it wrote may be what others read.
            for consumer in self._app.consumers:
                if not consumer.is_partitioned and consumer.name != reader.name:
                    self._wake(consumer.name)
            self._news.put(reader.name)
            Wakes.of(self._app.ow.store).tell_others(ANYTHING)

    def _pause(self, reader: Reader, turned: Turned) -> float:
        if turned.state == "idle" and reader.partition is not None:
            return self._jittered(SWEEP_SECONDS)
        return self._jittered(turned.seconds)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 - JITTER + 2 * JITTER * self._randomness.fraction())

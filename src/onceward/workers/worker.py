"""Worker: one process that works through the cursors of an app, in several threads.

Owns the threads, the search for partitions, and an end in which nothing is left half done.
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
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness
from onceward.workers.app import App
from onceward.workers.board import Board
from onceward.workers.handling import close_loop
from onceward.workers.measuring import Measuring
from onceward.workers.models import Consumer
from onceward.workers.pruning import pruning
from onceward.workers.reader import TROUBLE_SECONDS_MAX, Reader, State, Turned
from onceward.workers.registry import Registry
from onceward.workers.reports import Reports
from onceward.workers.retention import Retention
from onceward.workers.search import PATIENCE_SECONDS, Search
from onceward.workers.source import Source, Waking
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
#: News that come quicker than this are looked at together; quicker still where it is to end soon.
NEWS_SECONDS: Final = 0.03
NEWS_SECONDS_MIN: Final = 0.005
_numbers: Final = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Worked:
    """What a run came to."""

    #: Messages that are done with, parked and dead ones among them.
    messages: int
    #: Whether every thread ended in time, and no source was refused.
    is_clean: bool
    #: Cursors that another worker holds, that are paused, in trouble or refused, or whose messages
    #: wait for a retry; and consumers whose partitions cannot be found.
    left: tuple[str, ...]
    #: How the last turn of each of them ended; those without one could not be worked at all.
    states: Mapping[str, State] = field(default_factory=dict)


class Worker:
    """The threads of one process."""

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
        """Prepare; nothing is opened before `run`."""
        self._app = app
        self._threads = threads
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._stop_seconds = stop_seconds
        self._retention = retention
        self._is_stopping = False
        #: Wakes the main thread; may be put into from a signal handler.
        self._news: SimpleQueue[str | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._messages = 0
        #: How the last turn of each cursor ended.
        self._states: dict[str, State] = {}
        #: Since when the last turns of a cursor have ended in trouble.
        self._troubled: dict[str, float] = {}
        #: Whether the store did not answer when it was asked last.
        self._is_away = False
        #: To the store. A name of its own: to the same worker a lease is always granted again.
        self._name = ""
        self._measuring: Measuring | None = None
        self.reports = Reports(self._clock)
        self.board = Board(self._clock)
        self._search = Search(
            lambda: app.consumers,
            self.board,
            self._add,
            self._wake,
            reports=self.reports,
            clock=self._clock,
        )

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
        registry = Registry(self._app.ow, self._name, self._app.consumers)
        # Apart from the registry: a worker that prunes for long must not look as if it were gone.
        removing = pruning(lambda: self._app.ow, self._retention)
        with registry.running(), removing, measuring.running(), self._watching():
            try:
                for thread in threads:
                    thread.start()
                self._look_after(once=once)
            finally:
                self._end(threads)
        is_ended = not any(thread.is_alive() for thread in threads)
        is_clean = is_ended and not self.reports.has_refused_sources
        states = {name: state for name, state in self._states.items() if state != "idle"}
        left = tuple(sorted({*states, *self._search.left}))
        return Worked(messages=self._messages, is_clean=is_clean, left=left, states=states)

    # --- the main thread -------------------------------------------------------------------------

    def _begin(self) -> Measuring | None:
        """Find the first cursors, however long it takes until the store answers."""
        while not self._is_stopping:
            try:
                if self._measuring is None:
                    self._measuring = Measuring(self._app.ow, clock=self._clock)
                    self._name = f"{self._app.ow.cursors.worker}/{next(_numbers)}"
                self._search.find(is_first=True)
            except OncewardError as exc:
                # To open a store again is harmless, also when nobody knows how it ended.
                if not (exc.retryable or isinstance(exc, OutcomeUnknown)):
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
            # In this order: once nobody works, nothing new can come from here.
            is_drained = once and self._is_drained()
            is_quiet = self._look(poll)
            if is_drained and is_quiet:
                return
            is_away = self._is_away or self._search.is_troubled
            pause = NEWS_SECONDS_MIN if once and not is_away else self._jittered(poll)
            if once:
                self._wait(min(pause, BEGIN_SECONDS), NEWS_SECONDS_MIN)
            else:
                self._wait(pause, NEWS_SECONDS)

    def _look(self, poll: float) -> bool:
        """Look for what is new or due; say whether there is nothing, and nothing in the way."""
        try:
            found = self._search.find() + self._wake_due()
        except Exception as exc:  # noqa: BLE001 - whatever it is, threads and leases are ours
            self._is_away = True
            self.reports.trouble("store_unavailable", "*", exc, poll)
            return False
        if self._is_away:
            # Who had trouble may have had it for the same reason.
            self._is_away = False
            found += self._wake_troubled()
        return not found and not self._search.is_troubled

    def _end(self, threads: list[threading.Thread]) -> None:
        """Let what runs finish, and give every lease back."""
        self._is_stopping = True
        self.board.close()
        deadline = self._clock.monotonic() + self._stop_seconds
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.monotonic()))
        # A handler that does not end: its lease is given back, and its checkpoint refused.
        for reader in self.board.readers():
            reader.release()

    def _wait(self, seconds: float, burst: float = NEWS_SECONDS_MIN) -> None:
        """Sleep until there is news, and take all of it; a burst is one."""
        try:
            self._news.get(timeout=seconds)
            if not self._is_stopping:
                self._clock.sleep(burst)
            while True:
                self._news.get_nowait()
        except Empty:
            return

    def _add(self, consumer: Consumer, partition: str | None, source: Source) -> None:
        reader = Reader(
            self._app.ow,
            consumer,
            partition,
            source,
            worker=self._name,
            clock=self._clock,
            reports=self.reports,
            is_stopping=lambda: self._is_stopping,
        )
        with self._mutex:
            self._states[reader.name] = "more"
        assert self._measuring is not None
        self._measuring.add(reader.name, source, is_partition=partition is not None)
        self.board.add(reader)

    def _wake(self, name: str) -> None:
        """Let a cursor be looked at; one in trouble comes back in its own time, whoever calls."""
        with self._mutex:
            if name in self._troubled:
                return
            self._states[name] = "more"
        self.board.wake(name)

    def _wake_due(self) -> int:
        """Wake the cursors that have a parked message whose time has come; return how many.

        One that cannot be had is looked at in its own time: whoever has it sees to that.
        """
        found = 0
        for name in self._app.ow.retries.parked.due_cursors():
            if name not in self.board:
                found += self._search.find_due(name)
            elif self._states[name] not in ("elsewhere", "trouble", "full"):
                self._wake(name)
                found += 1
        return found

    def _wake_troubled(self) -> int:
        with self._mutex:
            names = tuple(self._troubled)
            self._troubled.clear()
        for name in names:
            self._wake(name)
        return len(names)

    def _is_drained(self) -> bool:
        """Say whether nothing is left to do that can be done now."""
        taken = self.board.taken
        patient = self._clock.monotonic() - PATIENCE_SECONDS
        with self._mutex:
            for name, state in self._states.items():
                if state in ("more", "full"):
                    return False
                if state == "trouble" and self._troubled.get(name, patient) > patient:
                    return False
        # Asked last: whoever was woken or taken meanwhile is seen here.
        return self.board.is_quiet() and self.board.taken == taken

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
            turned = Turned(seconds=TROUBLE_SECONDS_MAX, state="trouble")
            try:
                with self._mutex:
                    self._states[reader.name] = "more"
                turned = reader.turn()
            except BaseException:  # noqa: BLE001 - a thread that ends would keep the cursor for ever
                self.reports.crashed(reader.name)
                with suppress(Exception):
                    reader.release()
            finally:
                try:
                    self._note(reader, turned)
                finally:
                    self.board.put_back(reader, self._pause(reader, turned))
        close_loop()

    def _note(self, reader: Reader, turned: Turned) -> None:
        # What was woken while it was out is not done before its next turn.
        is_woken = self.board.is_woken(reader.name)
        with self._mutex:
            self._messages += turned.messages
            self._states[reader.name] = "more" if is_woken else turned.state
            if turned.state == "trouble":
                self._troubled.setdefault(reader.name, self._clock.monotonic())
            else:
                self._troubled.pop(reader.name, None)
        if self._measuring is not None and (turned.messages or turned.state != "idle"):
            self._measuring.worked(reader.name)
        if turned.messages or turned.state == "trouble":
            # What it wrote, before its trouble perhaps, may be what others read.
            for consumer in self._app.consumers:
                if not consumer.is_partitioned and consumer.name != reader.name:
                    self._wake(consumer.name)
            self._news.put(reader.name)
        if turned.messages:
            Wakes.of(self._app.ow.store).tell_others(ANYTHING)

    def _pause(self, reader: Reader, turned: Turned) -> float:
        if turned.state == "idle" and reader.partition is not None:
            return self._jittered(SWEEP_SECONDS)
        return self._jittered(turned.seconds)

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 - JITTER + 2 * JITTER * self._randomness.fraction())

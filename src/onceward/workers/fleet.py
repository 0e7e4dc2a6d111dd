"""Fleet: several worker processes under one parent, which starts again what dies.

The parent has imported everything and opened nothing: a child is there in milliseconds. Whoever
dies again and again is started ever later.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from onceward.seams import Clock, SystemClock
from onceward.signals import STOPPING, on_stop_signal
from onceward.workers.reports import Reports

#: A child that lived shorter than this died early, and the next waits longer.
HEALTHY_SECONDS: Final = 10.0
RESTART_SECONDS_MAX: Final = 10.0
RESTART_SECONDS_MIN: Final = 0.05
#: How often a child looks whether its parent still lives.
ORPHAN_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02


class _Child:
    """One place in the fleet, and the process that fills it."""

    def __init__(self, work: Callable[[], int]) -> None:
        self.work = work
        self.pid = 0
        self.started = 0.0
        self.restart_at = 0.0
        self.pause = 0.0


class Fleet:
    """The children of this process."""

    def __init__(
        self, works: Sequence[Callable[[], int]], *, once: bool, clock: Clock | None = None
    ) -> None:
        """Let each of these run in a child of its own.

        With `once`, whoever ends is done. If anybody left something (exit code 1), the first one
        runs once more when nobody else does, and its exit code is that of all.
        """
        self._children = [_Child(work) for work in works]
        self._once = once
        self._clock = clock or SystemClock()
        self._reports = Reports()
        self._is_stopping = False
        self._exit = 0

    def run(self) -> int:
        """Keep the children running until a signal says stop; return the exit code."""
        with self._on_signals():
            for child in self._children:
                self._start(child)
            self._look_after()
            is_left = self._exit == 1 and not self._is_stopping
            if self._once and is_left and len(self._children) > 1:
                # What one left because another had it may be done by now: one looks, alone.
                self._exit = 0
                self._start(self._children[0])
                self._look_after()
        return self._exit

    def _look_after(self) -> None:
        while not self._is_over():
            self._reap()
            self._start_due()
            self._clock.sleep(_LOOK_SECONDS)

    def _is_over(self) -> bool:
        if any(child.pid for child in self._children):
            return False
        return self._is_stopping or not any(child.restart_at for child in self._children)

    def _start(self, child: _Child) -> None:
        child.started = self._clock.monotonic()
        parent = os.getpid()
        # A signal comes before, and nothing is started, or when the child is known, and gets it.
        # Between the fork and the child's own handlers it would be taken for the parent's.
        with _signals_later():
            if self._is_stopping:
                return
            child.pid = os.fork()
            if not child.pid:
                self._be(child, parent)
        self._reports.note("process_started", pid=child.pid)

    def _be(self, child: _Child, parent: int) -> NoReturn:
        """Be the child, to its end."""
        code = 1
        try:
            for each in STOPPING:
                signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            threading.Thread(target=self._stop_as_orphan, args=(parent,), daemon=True).start()
            code = child.work()
        except BaseException:  # noqa: BLE001 - the last place where anybody can tell
            self._reports.crashed()
        finally:
            # Not back into the parent's code, and none of its exit hooks.
            os._exit(code)

    def _stop_as_orphan(self, parent: int) -> None:
        """Ask this child to stop when its parent is gone: nobody would ask it any more."""
        while os.getppid() == parent:
            self._clock.sleep(ORPHAN_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            # A signal in between would be for nobody, or for whoever has the number next.
            with _signals_later():
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.pid = 0
            if pid:
                self._ended(child, pid, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, pid: int, code: int) -> None:
        lived = self._clock.monotonic() - child.started
        is_done = self._is_stopping or (self._once and code in (0, 1))
        self._reports.note(
            "process_ended", pid=pid, exitCode=code, seconds=round(lived, 3), isDone=is_done
        )
        if is_done:
            self._exit = max(self._exit, 0 if code < 0 and self._is_stopping else code)
            return
        child.pause = (
            RESTART_SECONDS_MIN
            if lived > HEALTHY_SECONDS
            else min(max(2 * child.pause, RESTART_SECONDS_MIN), RESTART_SECONDS_MAX)
        )
        child.restart_at = self._clock.monotonic() + child.pause

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for child in self._children:
            if child.restart_at and now >= child.restart_at and not self._is_stopping:
                child.restart_at = 0.0
                self._start(child)

    @contextmanager
    def _on_signals(self) -> Iterator[None]:
        """Pass SIGTERM and SIGINT on: once asks, twice kills."""

        def stop(number: int) -> None:
            harder = signal.SIGKILL if self._is_stopping else number
            self._is_stopping = True
            for child in self._children:
                if child.pid:
                    with suppress(ProcessLookupError):
                        os.kill(child.pid, harder)

        with on_stop_signal(stop):
            yield


@contextmanager
def _signals_later() -> Iterator[None]:
    """Let signals come after the block; those that came before are done with when it begins."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

"""Worker processes: run several workers under one parent process, which restarts dead ones.

The parent has imported everything and opened nothing, so a child starts in milliseconds. A child
that dies repeatedly is restarted with exponential backoff.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from onceward.system import Clock, SystemClock
from onceward.system.signals import STOPPING, on_stop_signal
from onceward.workers.telemetry import Telemetry

#: After a shorter life than this, the delay before the next restart doubles.
HEALTHY_SECONDS: Final = 10.0
RESTART_SECONDS_MAX: Final = 10.0
RESTART_SECONDS_MIN: Final = 0.05
#: How often a child checks whether its parent is alive.
ORPHAN_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.02


class _Child:
    """One supervised child: its function, current process and restart delay."""

    def __init__(self, work: Callable[[], int]) -> None:
        self.work = work
        self.pid = 0
        self.started = 0.0
        self.restart_at = 0.0
        self.pause = 0.0


class WorkerSupervisor:
    """Runs worker processes as children, restarts dead ones, and forwards stop signals."""

    def __init__(
        self, works: Sequence[Callable[[], int]], *, once: bool, clock: Clock | None = None
    ) -> None:
        """Run each of these functions in its own child process.

        With `once`, a child that ends is not restarted. If any left work unfinished (exit code 1),
        the first runs again alone after all ended, and its exit code is the result.
        """
        self._children = [_Child(work) for work in works]
        self._once = once
        self._clock = clock or SystemClock()
        self._telemetry = Telemetry()
        self._is_stopping = False
        self._exit = 0

    def run(self) -> int:
        """Keep the children running until a stop signal; return the exit code."""
        with self._forwarding_signals():
            for child in self._children:
                self._start(child)
            self._supervise()
            is_left = self._exit == 1 and not self._is_stopping
            if self._once and is_left and len(self._children) > 1:
                # Work left because another child held it may be finished by now: one child checks.
                self._exit = 0
                self._start(self._children[0])
                self._supervise()
        return self._exit

    def _supervise(self) -> None:
        while not self._is_finished():
            self._reap()
            self._start_due()
            self._clock.sleep(_POLL_SECONDS)

    def _is_finished(self) -> bool:
        if any(child.pid for child in self._children):
            return False
        return self._is_stopping or not any(child.restart_at for child in self._children)

    def _start(self, child: _Child) -> None:
        child.started = self._clock.monotonic()
        parent = os.getpid()
        # A signal comes either before the fork, which then does not happen, or after the child is
        # known, which then gets it. In between, the child would run the parent's handler.
        with _signals_blocked():
            if self._is_stopping:
                return
            child.pid = os.fork()
            if not child.pid:
                self._run_child(child, parent)
        self._telemetry.log_info("worker_process_started", pid=child.pid)

    def _run_child(self, child: _Child, parent: int) -> NoReturn:
        """Run the child's function and exit; never returns to the parent's code."""
        code = 1
        try:
            for each in STOPPING:
                signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            threading.Thread(target=self._stop_as_orphan, args=(parent,), daemon=True).start()
            code = child.work()
        except BaseException:  # noqa: BLE001 - the last place where it can be logged
            self._telemetry.worker_crashed()
        finally:
            # Skips the parent's code and its exit hooks.
            os._exit(code)

    def _stop_as_orphan(self, parent: int) -> None:
        """Stop this child when its parent is gone and can no longer forward signals."""
        while os.getppid() == parent:
            self._clock.sleep(ORPHAN_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            # A signal between the two would go to no process, or to one that reuses the pid.
            with _signals_blocked():
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.pid = 0
            if pid:
                self._handle_exit(child, pid, os.waitstatus_to_exitcode(status))

    def _handle_exit(self, child: _Child, pid: int, code: int) -> None:
        lived = self._clock.monotonic() - child.started
        is_done = self._is_stopping or (self._once and code in (0, 1))
        self._telemetry.log_info(
            "worker_process_exited", pid=pid, exitCode=code, seconds=round(lived, 3), isDone=is_done
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
    def _forwarding_signals(self) -> Iterator[None]:
        """Forward SIGTERM and SIGINT to the children; the second signal kills them."""

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
def _signals_blocked() -> Iterator[None]:
    """Delay stop signals until the block ends; earlier ones are handled before it begins."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

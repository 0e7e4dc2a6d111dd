"""Frozen: children that freeze at a crash point, while others go on, and are woken.

Owns processes and what they tell; knows nothing of stores. Children are forked from a parent that
has everything imported, opened nothing and started no thread, so that one costs milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from onceward.system import crash_points
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX

_PR_SET_PDEATHSIG = 1


class Talk:
    """The child's end: it reports, waits for the parent, and can freeze at a line of its own."""

    def __init__(self, reports: int, orders: int) -> None:
        self._reports, self._orders = reports, orders

    def tell(self, what: str, **fields: Any) -> None:
        """Say where it is; everything before this has happened."""
        line = json.dumps({"what": what, "at": time.monotonic(), **fields})
        os.write(self._reports, line.encode() + b"\n")

    def wait(self) -> None:
        """Wait until the parent lets the child go on."""
        os.read(self._orders, 1)

    def freeze(self) -> None:
        """Freeze here, as a crash point would."""
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class Child:
    """A process that is ours; `spec` is a crash point, as in `point:nth:stop`."""

    def __init__(self, work: Callable[[Talk], object], spec: str | None = None) -> None:
        self._reports, reports = os.pipe()
        orders, self._orders = os.pipe()
        self._rest = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reports)
            os.close(self._orders)
            _live(work, spec, Talk(reports, orders))
        os.close(reports)
        os.close(orders)

    def until_frozen(self) -> None:
        """Wait until none of its threads runs."""
        found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED, f"it ended instead of freezing: {found.si_status}"

    def wake(self) -> None:
        """Let it go on where it stood; it may be at its end before we look."""
        os.kill(self.pid, signal.SIGCONT)

    def go(self) -> None:
        """Let a child go on that waits; one that was woken may have ended by now."""
        with suppress(BrokenPipeError):
            os.write(self._orders, b"x")

    def is_silent(self, seconds: float) -> bool:
        """Say whether it tells nothing for so long."""
        return b"\n" not in self._rest and not select.select([self._reports], [], [], seconds)[0]

    def hear(self, what: str) -> dict[str, Any]:
        """Wait for the next thing that it tells, which must be this."""
        heard = self.next()
        assert heard["what"] == what, heard
        return heard

    def next(self) -> dict[str, Any]:
        """Wait for the next thing that it tells."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            ready = select.select([self._reports], [], [], left)[0]
            assert ready, "it tells nothing"
            data = os.read(self._reports, 65536)
            assert data, "it ended instead of telling something"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def heard(self) -> list[dict[str, Any]]:
        """Wait for its good end, and return everything that was not heard before."""
        with os.fdopen(self._reports, "rb", closefd=False) as stream:
            lines = (self._rest + stream.read()).splitlines()
        status = self._reaped()
        assert os.waitstatus_to_exitcode(status) == 0, status
        return [json.loads(line) for line in lines]

    def kill(self) -> None:
        """End it now."""
        os.kill(self.pid, signal.SIGKILL)
        self._reaped()

    def _reaped(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self._reports)
        os.close(self._orders)
        return status


def _live(work: Callable[[Talk], object], spec: str | None, talk: Talk) -> None:
    # It would stay frozen for ever if the parent died.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    logging.disable(logging.CRITICAL)
    crash_points.arm(spec)
    try:
        work(talk)
    except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)

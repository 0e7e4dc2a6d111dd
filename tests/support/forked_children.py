"""Nursery: children that are forked from a warm process, quickly and as often as they die."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def forked(work: Callable[[], object]) -> int:
    """Run this in a child; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return pid


class Nursery:
    """A warm process that has opened nothing, and forks when asked to."""

    def __init__(self, work: Callable[[bytes], object]) -> None:
        """Have children do this work; each gets a byte that selects what it does."""
        ask_reader, self._ask = os.pipe()
        self._answers, answer_writer = os.pipe()
        self._work = work
        self._pid = forked(lambda: self._serve(ask_reader, answer_writer))

    def start(self, what: bytes = b"x") -> int:
        os.write(self._ask, what)
        return int.from_bytes(os.read(self._answers, 4), "big")

    def close(self) -> None:
        os.close(self._ask)
        os.waitpid(self._pid, 0)

    def _serve(self, ask: int, answer: int) -> None:
        os.close(self._ask)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while what := os.read(ask, 1):
            pid = forked(lambda what=what: self._work(what))  # type: ignore[misc]
            os.write(answer, pid.to_bytes(4, "big"))

"""Lives: a child that works until a crash point kills it, and what it acknowledged before."""

import os
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from onceward import crash

Ack = Callable[[str], None]
Kind = TypeVar("Kind")


def live_and_die(work: Callable[[int, Ack], None], spec: str, life: int) -> list[str]:
    """Fork a child that works until the crash point kills it; return what it acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        crash.arm(spec)

        def ack(text: str) -> None:
            os.write(writer, text.encode() + b"\n")

        try:
            work(life, ack)
        except BaseException:  # noqa: BLE001 - told, then the child ends whatever it was
            sys.excepthook(*sys.exc_info())
        os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "r") as stream:
        acks = stream.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{spec} was not reached"
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    return acks


def scenario_for(point: str, scenarios: dict[str, Kind]) -> Kind:
    """Return the scenario that reaches a point."""
    return next(kind for prefix, kind in scenarios.items() if point.startswith(prefix))

"""A worker process under remote control: one JSON command a line, one JSON answer a line.

Run as `python -m tests.support.lease_worker URL SKEW_SECONDS`. Commands wait in the pipe while the
process is frozen, so a test decides exactly what a zombie does when it wakes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import OncewardError
from onceward.stores import Transaction
from onceward.system import SystemClock


class SkewedClock(SystemClock):
    """A machine whose wall clock is wrong; what passes since boot is still right."""

    def __init__(self, seconds: float) -> None:
        self._skew = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._skew


class Worker:
    """What the commands do."""

    def __init__(self, ow: Onceward) -> None:
        self.ow = ow
        self.lease: Lease
        self.tx: Transaction
        self.block: AbstractContextManager[Transaction]
        self.held = ExitStack()

    def acquire(self, name: str, worker: str, seconds: float) -> int | None:
        lease = self.ow.cursors.acquire(name, worker, seconds)
        if lease is None:
            return None
        self.lease = lease
        return lease.epoch

    def hold(self) -> None:
        self.held.enter_context(self.lease.hold())

    def let_go(self) -> None:
        self.held.close()

    def begin(self) -> None:
        self.block = self.ow.transaction()
        self.tx = self.block.__enter__()

    def execute(self, sql: str, *params: Any) -> None:
        self.tx.execute(sql, params)

    def guard(self) -> None:
        self.lease.guard(self.tx)

    def checkpoint(self, position: str) -> None:
        self.lease.checkpoint(position, tx=self.tx)

    def commit(self) -> None:
        self.block.__exit__(None, None, None)

    def checkpoint_alone(self, position: str) -> None:
        self.lease.checkpoint(position)

    def renew(self) -> str:
        return self.lease.renew().value

    def release(self) -> None:
        self.lease.release()


def obey(worker: object) -> None:
    """Do what each line of stdin asks of a worker, and answer in a line."""
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            answer = {"result": getattr(worker, command)(*arguments)}
        except OncewardError as exc:
            answer = {"error": type(exc).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main(url: str, skew_seconds: float) -> None:
    worker = Worker(open_handle(url, clock=SkewedClock(skew_seconds)))
    obey(worker)


def false_time(skew_seconds: float) -> dict[str, str]:
    """Make the whole process, its libraries too, believe in another time, if that can be done."""
    found = find_spec("libfaketime")
    if not skew_seconds or found is None or found.origin is None:
        return {}
    (library,) = Path(found.origin).parent.rglob("libfaketime.so.1")
    # What passes must stay true, or waiting would never end.
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{skew_seconds:+g}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class Remote:
    """The other end of such a worker."""

    def __init__(self, url: str, skew_seconds: float = 0.0) -> None:
        command = [sys.executable, "-m", "tests.support.lease_worker", url, str(skew_seconds)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **false_time(skew_seconds)},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, command: str, *arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """Return the result of the oldest command not answered yet, or the name of its error."""
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        return answer.get("error", answer.get("result"))

    def ask(self, command: str, *arguments: Any) -> Any:
        self.tell(command, *arguments)
        return self.hear()


@contextmanager
def started(url: str, skew_seconds: float = 0.0) -> Iterator[Remote]:
    """Start a worker, and kill it in the end."""
    remote = Remote(url, skew_seconds)
    try:
        yield remote
    finally:
        remote.process.kill()
        remote.process.communicate()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))

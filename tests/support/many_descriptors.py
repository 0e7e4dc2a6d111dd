"""A process with more than 1,023 open descriptors uses a store, and tells what it did.

Run as `python -m tests.support.many_descriptors URL`. Whatever it opens from then on has a number
that `select` cannot take.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import sys
import threading

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.memory.capture.run_command import run_command
from onceward.stores import Transaction
from onceward.workers import App, Message, Worker
from tests.support.list_source import ListSource
from tests.support.running_worker import at_work
from tests.support.waiting import until

DESCRIPTORS = 1_100
MESSAGES = 20


def fill_up() -> int:
    """Open so many, and return the lowest number that is left."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * DESCRIPTORS, hard), hard))
    for _ in range(DESCRIPTORS):
        os.open("/dev/null", os.O_RDONLY)
    return os.open("/dev/null", os.O_RDONLY)


def call(ow: Onceward) -> list[int]:
    """Call functions of each kind, each twice."""

    @ow.once(scope="plain", key=str)
    def plain(number: int) -> int:
        return number

    @ow.once(scope="async", key=str)
    async def later(number: int) -> int:
        await asyncio.sleep(0)
        return number

    return [plain(1), plain(1), asyncio.run(later(2)), asyncio.run(later(2))]


def work(ow: Onceward) -> list[int]:
    """Let workers handle messages: those that are there, and one that comes later."""
    source = ListSource(*range(MESSAGES))
    app = App(ow)

    @app.consumer(name="many", source=source, poll_seconds=0.05)
    def handle(message: Message, tx: Transaction) -> None:
        tx.execute("insert into effects values (?)", [message.data])

    def effects() -> list[int]:
        with ow.transaction() as tx:
            return [row[0] for row in tx.execute("select n from effects order by n")]

    Worker(app, threads=2).run(once=True)
    assert effects() == list(range(MESSAGES))
    with at_work(app):
        source.values.append(MESSAGES)
        until(lambda: len(effects()) > MESSAGES)
    return effects()


class FullPipe(io.FileIO):
    """Takes nothing until the test reads, which begins when it was full."""

    def __init__(self) -> None:
        self._end, writing = os.pipe()
        os.set_blocking(writing, False)
        super().__init__(writing, "wb")
        self.read_bytes = 0

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]  # bytes of any kind
        if written is None:
            threading.Thread(target=self._read, daemon=True).start()
        return written

    def _read(self) -> None:
        self.read_bytes += len(os.read(self._end, 1_000_000))


def capture() -> bool:
    """Run a command that writes more than our own output takes at once."""
    out = FullPipe()
    words = [sys.executable, "-c", "print('x' * 200_000)"]
    passed = run_command(words, out, sys.stderr.buffer)
    return passed.exit_code == 0 and out.read_bytes > 0


def main(url: str) -> None:
    """Do all of it."""
    lowest = fill_up()
    with open_handle(url) as ow:
        with ow.transaction() as tx:
            tx.execute("create table effects (n bigint)")
        summary = {"lowest": lowest, "called": call(ow), "worked": work(ow), "captured": capture()}
    print(json.dumps(summary))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(sys.argv[1])

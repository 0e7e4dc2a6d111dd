"""An app for tests with real worker processes: its source, store and patience come from outside.

Messages are numbers. The handler of `slow` tells on a file that it began, and goes on when another
file is there.
"""

import os
import signal
import time
from pathlib import Path

import orjson

from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker

PLACE = Path(os.environ.get("WORKER_APP_PLACE", "/nonexistent"))
LEASE_SECONDS = float(os.environ.get("WORKER_APP_LEASE", "0.5"))
#: The name of the cursor, so that a test can begin again in the same store.
NAME = os.environ.get("WORKER_APP_NAME", "slow")
MESSAGES = int(os.environ.get("WORKER_APP_MESSAGES", "3"))
DEADLY = int(os.environ.get("WORKER_APP_DEADLY", "0"))
#: What a deadly message dies of: its handler, only when it is tried again, or its decoder.
DEADLY_WAY = os.environ.get("WORKER_APP_DEADLY_WAY", "handler")
BATCH = int(os.environ.get("WORKER_APP_BATCH", "0")) or None
WRITES_FIRST = "WORKER_APP_WRITES_FIRST" in os.environ


class Numbers:
    """So many numbers, from 1 on."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        first = int(after or 0) + 1
        last = min(first + limit - 1, MESSAGES)
        return [Item(position=str(n), raw=orjson.dumps(n)) for n in range(first, last + 1)]


app = App(os.environ.get("WORKER_APP_STORE"))


def tell(what: str) -> None:
    with (PLACE / what).open("a") as file:
        file.write(f"{os.getpid()}\n")


_stop = Worker.stop


def stop(self: Worker) -> None:
    """Stop as usual, and tell it, so that a test need not guess when the signal has arrived."""
    _stop(self)
    tell("stopping")


Worker.stop = stop  # type: ignore[method-assign]


def deadly(messages: Message | list[Message], tx: Transaction) -> None:
    for message in messages if isinstance(messages, list) else [messages]:
        if message.data == DEADLY:
            if DEADLY_WAY == "retry" and message.attempt == 1:
                raise ValueError(message.data)
            os.kill(os.getpid(), signal.SIGKILL)
        tx.execute("insert into effects values (?, ?)", [message.data, os.getpid()])


def decode(raw: bytes) -> object:
    number = orjson.loads(raw)
    if number == DEADLY and DEADLY_WAY == "decoder":
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow(message: Message, tx: Transaction) -> None:
    row = [message.data, os.getpid()]
    if WRITES_FIRST:
        tx.execute("update shared set n = n + 1")
        tx.execute("insert into effects values (?, ?)", row)
    tell(f"began-{message.data}")
    while not (PLACE / f"go-{message.data}").exists():
        time.sleep(0.005)
    if not WRITES_FIRST:
        tx.execute("insert into effects values (?, ?)", row)


if DEADLY:
    app.consumer(
        "deadly",
        source=Numbers(),
        lease_seconds=LEASE_SECONDS,
        poll_seconds=0.02,
        batch=BATCH,
        order="none" if DEADLY_WAY == "retry" else "cursor",
        decode=decode,
        retry=FixedDelays(seconds=(0.0,)),
    )(deadly)
else:
    app.consumer(NAME, source=Numbers(), lease_seconds=LEASE_SECONDS, poll_seconds=0.02)(slow)

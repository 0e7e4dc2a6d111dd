"""A loop: clients write, and PostgreSQL is killed again and again under them.

Run as `python -m tests.proof.postgres.kill_loop SECONDS SEED [fast]`; `fast` is without syncing.
Prints a JSON summary; a value lost, doubled, or there although its caller learned that nothing
was changed, is an AssertionError.
Every write is recorded in a history before and after; clients are forked before anything is opened.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import OncewardError, StoreBusy
from onceward.memory import Graph, NewEntity, WriteBatch
from onceward.stores import Transaction
from onceward.system.logs import set_up
from onceward.testing.history import History
from onceward.testing.postgres import PostgresServer
from tests.support.forked_children import forked

KILL_SECONDS = (0.3, 1.0)
#: Longer than any recovery, on any machine.
HEAL_SECONDS_MAX = 60.0
LEASE_SECONDS = 1.0
#: Between two writes of a client: the server is killed under load, not starved.
PAUSE_SECONDS = 0.005
#: How often a caller who got no answer leaves it at that.
GIVES_UP = 0.3
_ACK = struct.Struct("dd")


class Client:
    """One process that writes until it is stopped; every value is its own."""

    def __init__(self, name: str, url: str, history: Path, acks: int) -> None:
        """Open the store; it may be away."""
        self.name, self.acks = name, acks
        self.history = History(history)
        self.source = random.Random(name)
        self.is_stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        self.ow: Onceward = open_handle(url)
        self.graph = Graph(self.ow.store)
        self._lease: Lease | None = None

        @self.ow.once(scope="pay", key=str)
        def pay(order: str, tx: Transaction) -> str:
            tx.execute("insert into paid values (?)", [order])
            return order

        self._pay: Callable[..., str] = pay

    def _stop(self, *_: object) -> None:
        # A plain flag: an event's lock may be held by the very code that the signal interrupts.
        self.is_stopping = True

    def run(self, write: Callable[[str], None]) -> None:
        """Write one value after the other; what was refused is tried again, or left."""
        f = write.__name__
        for number in range(1_000_000_000):
            value = f"{self.name}-{number}"
            while not self.is_stopping:
                time.sleep(PAUSE_SECONDS)
                began = time.monotonic()
                try:
                    with self.history.operation(f, value, process=self.name):
                        write(value)
                except OncewardError:
                    # A second count under the same name would be another number.
                    if f == "count" or self.source.random() < GIVES_UP:
                        break
                else:
                    os.write(self.acks, _ACK.pack(began, time.monotonic()))
                    break
            if self.is_stopping:
                self.ow.close()
                return

    def count(self, value: str) -> None:
        """Move the cursor by one, with an effect in the same commit."""
        lease = self._lease = self._lease or self._acquired()
        number = int(lease.position or 0) + 1
        try:
            with self.ow.transaction() as tx:
                tx.execute("insert into counted values (?, ?)", [number, value])
                lease.checkpoint(str(number), tx=tx)
        except OncewardError:
            self._lease = None
            raise
        if number % 20 == 0:
            self._lease = None  # Now and then the other one has a turn.
            with suppress(OncewardError):  # It is counted, whatever becomes of this.
                lease.release()

    def _acquired(self) -> Lease:
        lease = self.ow.cursors.acquire("c", self.name, LEASE_SECONDS)
        if lease is None:
            message = "the other one has it"
            raise StoreBusy(message)
        return lease

    def pay(self, value: str) -> None:
        """Do work whose effect and outcome are in one commit."""
        assert self._pay(value) == value

    def remember(self, value: str) -> None:
        """Write into the memory."""
        fact = NewEntity(name=value, entity_type="thing", observations=(f"seen {value}",))
        self.graph.write(WriteBatch(entities=(fact,)))


#: Who does what.
CLIENTS = (("c1", "count"), ("c2", "count"), ("p1", "pay"), ("r1", "remember"))


class Loop:
    """One run."""

    def __init__(self, seed: int, directory: Path, *, is_synced: bool) -> None:
        """Start a server and the clients."""
        self.source = random.Random(seed)
        self.path = directory / "history.jsonl"
        self.is_long = is_synced
        self.server = PostgresServer(is_synced=is_synced)
        self.server.start()
        self.recoveries: list[float] = []
        self.kills = 0
        self._in_child(self._prepare)
        self._acks, acks = os.pipe()
        self.clients = [forked(lambda n=n, f=f: self._work(n, f, acks)) for n, f in CLIENTS]  # type: ignore[misc]
        os.close(acks)

    def _prepare(self) -> None:
        with open_handle(self.server.url) as ow, ow.transaction() as tx:
            tx.execute("create table counted (number bigint, what text)")
            tx.execute("create table paid (what text)")

    def _in_child(self, work: Callable[[], object]) -> None:
        _, status = os.waitpid(forked(work), 0)
        assert status == 0, status

    def _work(self, name: str, f: str, acks: int) -> None:
        set_up(as_json=False)
        client = Client(name, self.server.url, self.path, acks)
        client.run(getattr(client, f))

    def fire(self, seconds: float) -> None:
        """Kill the server and its children every moment, and wait for the next success."""
        self.await_ack(time.monotonic())
        ending = time.monotonic() + seconds
        # A commit is seldom hit in the very moment that makes it ambiguous: so long, or twice.
        while time.monotonic() < ending or (
            self.is_long and time.monotonic() < ending + seconds and not self._has_unknown()
        ):
            time.sleep(self.source.uniform(*KILL_SECONDS))
            self.server.kill()
            self.kills += 1
            killed = time.monotonic()
            self.server.start()
            self.recoveries.append(self.await_ack(killed) - killed)

    def _has_unknown(self) -> bool:
        return any(entry.type == "info" for entry in History(self.path).entries)

    def await_ack(self, since: float) -> float:
        """Return when the next write ended that began after this."""
        while True:
            found, _, _ = select.select([self._acks], [], [], HEAL_SECONDS_MAX)
            assert found, f"no write succeeded in {HEAL_SECONDS_MAX:g} s"
            began, ended = _ACK.unpack(os.read(self._acks, _ACK.size))
            if began >= since:
                return float(ended)

    def stop(self) -> None:
        """Let the clients end."""
        for pid in self.clients:
            os.kill(pid, signal.SIGTERM)
        for pid in self.clients:
            _, status = os.waitpid(pid, 0)
            assert status == 0, status
        self.clients.clear()  # Their numbers may be reused by now.

    def check(self) -> dict[str, object]:
        """Compare what is there with what was reported to the callers."""
        with open_handle(self.server.url) as ow:
            with ow.transaction() as tx:
                counted = tx.execute("select number, what from counted order by number")
                paid = tx.execute("select what from paid")
                facts = tx.execute("select content from memory_observations")
                names = tx.execute("select name from memory_entities")
            position = int(ow.cursors.show("c").position or 0)
            assert [row[0] for row in counted] == list(range(1, position + 1)), "not one each"
            keys = {each.key for each in ow.outcomes.list(scope="pay", limit=1)}
            assert keys, "no outcome is known"
        found = {
            "count": Counter(row[1] for row in counted),
            "pay": Counter(row[0] for row in paid),
            "remember": Counter(row[0].removeprefix("seen ") for row in facts),
        }
        assert {row[0] for row in names} == set(found["remember"]), "half a write"
        said: Counter[str] = Counter()
        for f, there in found.items():
            said.update(judge(History(self.path), f, there))
        return dict(said)

    def close(self) -> None:
        """End what is left."""
        for pid in self.clients:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.close()


def judge(history: History, f: str, there: Counter[str]) -> Counter[str]:
    """Compare what was reported to callers with what is there, value by value; count them."""
    responses: dict[str, set[str]] = {}
    for entry in history.entries:
        if entry.f == f:
            responses.setdefault(entry.key, set()).add(entry.type)
    said: Counter[str] = Counter()
    for value, kinds in responses.items():
        count = there[value]
        said["lost"] += "ok" in kinds and not count
        said["doubled"] += count > 1
        # Every response said that nothing was changed.
        said["denied"] += kinds == {"invoke", "fail"} and count > 0
        said["ok"] += "ok" in kinds
        said["refused"] += "fail" in kinds
        said["unknown"] += "info" in kinds
        said["unknown and there"] += "info" in kinds and "ok" not in kinds and count > 0
    said["from nowhere"] += len(set(there) - set(responses))
    bad = {word: said[word] for word in ("lost", "doubled", "denied", "from nowhere")}
    assert not any(bad.values()), (f, bad)
    return said


def main(seconds: float, seed: int, *words: str) -> None:
    """Run once, and print what was seen."""
    with tempfile.TemporaryDirectory() as directory:
        loop = Loop(seed, Path(directory), is_synced="fast" not in words)
        try:
            loop.fire(seconds)
            loop.stop()
            said = loop.check()
        finally:
            loop.close()
    json.dump({**said, "kills": loop.kills, "recoveries": loop.recoveries}, sys.stdout)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

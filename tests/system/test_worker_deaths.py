"""Workers killed with -9 while they are at a message: what that costs the message, and no more."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker
from onceward.workers.models import POISON_DEATHS
from tests.support.evidence import Entry, Evidence
from tests.support.forked_children import forked
from tests.support.module_processes import run_module

PATIENCE_SECONDS = 60.0
LEASE_SECONDS = 0.1
#: So many die before each message is noted; each later death is an attempt.
UNNOTED = 3
SEED = 20261118


class Numbers:
    """Messages 1, 2 and 3."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        numbers = range(int(after or 0) + 1, 4)[:limit]
        return [Item(position=str(n), raw=orjson.dumps({"n": n, "k": n % 2})) for n in numbers]


class Killing:
    """An app whose second message kills a worker at each of these stages, and then none."""

    def __init__(self, url: str, place: Path, stages: list[str], order: Any) -> None:
        self.url, self.stages, self.order = url, stages, order
        self.deaths = place / "deaths"
        self.deaths.touch()

    def live(self) -> None:
        """Work until all is done; one process, one life."""
        app = App(self.url)
        app.consumer(
            "numbers",
            source=Numbers(),
            decode=self.decode,
            order=self.order,
            key=(lambda data: data["k"]) if self.order == "key" else None,
            retry=FixedDelays(seconds=(0.0,) * 4),
            lease_seconds=LEASE_SECONDS,
        )(self.handle)
        while Worker(app, threads=1).run(once=True).unfinished:
            time.sleep(LEASE_SECONDS / 10)

    def decode(self, raw: bytes) -> Any:
        data = orjson.loads(raw)
        self.die("decoding", data)
        return data

    def handle(self, message: Message, tx: Transaction) -> None:
        tx.execute("insert into effects values (?, ?)", [message["n"], message.attempt])
        self.die("handling", message.data)

    def die(self, stage: str, data: Any) -> None:
        if data["n"] == 2 and self.stages[self.deaths.stat().st_size :][:1] == [stage]:
            with self.deaths.open("ab", buffering=0) as file:
                file.write(b"x")
            os.kill(os.getpid(), signal.SIGKILL)


def ended(pid: int) -> int:
    """Wait for a child; return its exit status."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail("it neither ended nor died")


def live_and_die(killing: Killing) -> None:
    """Let a worker die at each stage, and the next one end as it should."""
    with open_handle(killing.url) as ow, ow.transaction() as tx:
        tx.execute("create table effects (n bigint, attempt bigint)")
    statuses = [ended(forked(killing.live)) for _ in killing.stages]
    assert [os.WIFSIGNALED(status) for status in statuses] == [True] * len(killing.stages)
    assert ended(forked(killing.live)) == 0


def effects(ow: Onceward) -> list[tuple[int, int]]:
    """Return which messages had an effect, and at which attempt."""
    with ow.transaction() as tx:
        rows = tx.execute("select n, attempt from effects order by n")
    return [(n, attempt) for n, attempt in rows]


@pytest.mark.parametrize(
    ("stage", "order"), [("decoding", "cursor"), ("decoding", "key"), ("handling", "none")]
)
def test_h59_a_worker_killed_at_a_message_costs_it_one_attempt(
    ow_url: str, tmp_path: Path, stage: str, order: str
) -> None:
    """Killed five times, twice of them noted: the third attempt does it, and nothing is dead."""
    live_and_die(Killing(ow_url, tmp_path, [stage] * (UNNOTED + 2), order))
    with open_handle(ow_url) as ow:
        assert effects(ow) == [(1, 1), (2, 3), (3, 1)]
        assert ow.dead.list() == []
        assert ow.cursors.show("numbers").position == "3"
        for cursor in ("numbers", "~begun/numbers"):
            assert ow.retries.attempts.positions(cursor) == frozenset()


@pytest.mark.parametrize("order", ["cursor", "key", "none"])
def test_h59_deaths_while_decoding_again_are_counted(
    ow_url: str, tmp_path: Path, order: str
) -> None:
    """A message that killed in its handler, and then three times in its decoder, is poison."""
    stages = ["handling"] * (UNNOTED + 1) + ["decoding"] * POISON_DEATHS
    live_and_die(Killing(ow_url, tmp_path, stages, order))
    with open_handle(ow_url) as ow:
        assert effects(ow) == [(1, 1), (3, 1)]
        (letter,) = ow.dead.list()
        assert (letter.position, letter.error_type) == ("2", "PoisonMessage")
        assert letter.attempts == POISON_DEATHS
        assert ow.cursors.show("numbers").position == "3"
        assert ow.retries.attempts.positions("~begun/numbers") == frozenset()


@pytest.mark.prove
def test_h59_no_dead_letter_that_its_schedule_does_not_explain(
    ow_url: str, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Holders hunted, killed and frozen: all is done once, or dead after its own attempts."""
    seconds = 1800 if soak else 300 if prove else 3
    words = ("tests.support.storms.workers", ow_url, seconds, SEED)
    summary = run_module(*words, seconds_max=seconds + 300)
    assert summary["unexplained"] == [], summary
    evidence.record(
        Entry(
            campaign="holders of cursors are killed and frozen while they decode and handle",
            layer="storms",
            claims=("W1", "W2", "R1"),
            engine=ow_url.partition(":")[0].replace("postgresql", "postgres"),
            schedules=sum(summary["faults"].values()),
            faults=summary["faults"],
            lost=summary["lost"],
            doubled=summary["doubled"],
            work=summary["work"],
            reached=summary["reached"] if prove else {},
        )
    )

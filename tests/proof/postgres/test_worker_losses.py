"""A worker loses the answer to one commit, each of them in turn, and goes on by itself."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import closing
from urllib.parse import urlsplit

import orjson
import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.retries import FixedDelays
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker
from tests.proof.postgres.conftest import NewDatabase
from tests.proof.proxy import Proxy
from tests.support.evidence import Entry, Evidence

COMMIT = b"commit\x00"
COMMITS_MAX = 300
PATIENCE_SECONDS = 60.0
MESSAGES = 6
#: Fails once; fails for good.
WEAK, BAD = 2, 4
#: What is done in the end.
DONE = {f"{n}" for n in range(1, MESSAGES + 1)} - {str(BAD)}


class Numbers:
    """So many messages, from 1 on."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        first = int(after or 0) + 1
        last = min(first + limit - 1, MESSAGES)
        return [Item(position=str(n), raw=orjson.dumps(n)) for n in range(first, last + 1)]


def app_at(url: str) -> App:
    app = App(url)
    schedule = FixedDelays(seconds=(0.0, 0.01))

    @app.consumer(
        "numbers", source=Numbers(), order="none", lease_seconds=5.0, poll_seconds=0.05,
        retry=schedule,
    )  # fmt: skip
    def handle(message: Message, tx: Transaction) -> None:
        tx.execute("insert into effects values (?)", [str(message.data)])
        if message.data == BAD or (message.data == WEAK and message.attempt == 1):
            raise ValueError(message.data)

    return app


def work_through(url: str, proxy: Proxy, port: int) -> tuple[list[str], list[str], str | None]:
    """Let a worker run until everything is done; return effects, dead letters and position."""
    app = app_at(url.replace(f":{port}/", f":{proxy.port}/"))
    worker = Worker(app, threads=2)
    ended = threading.Event()
    with open_handle(url) as ow, closing(psycopg.connect(url, autocommit=True)) as direct:

        def run() -> None:
            try:
                worker.run()
            finally:
                ended.set()

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while True:
                effects = [row[0] for row in direct.execute("select what from effects")]
                dead = [letter.position for letter in ow.dead.list()]
                if len(effects) + len(dead) >= MESSAGES:
                    break
                assert not ended.is_set(), "the worker gave up"
                assert time.monotonic() < deadline, (effects, dead)
                time.sleep(0.01)
        finally:
            worker.stop()
            thread.join(PATIENCE_SECONDS)
            app.ow.close()
        return effects, dead, ow.cursors.show("numbers").position


def run(new_database: NewDatabase, nth: int) -> bool:
    """Lose the nth answer; False when there were not so many commits."""
    with new_database() as url:
        port = urlsplit(url).port
        assert port is not None
        with Proxy("127.0.0.1", port) as proxy:
            proxy.lose_answer_to(COMMIT, nth)
            effects, dead, position = work_through(url, proxy, port)
            assert sorted(effects) == sorted(DONE), "lost or doubled"
            assert dead == [str(BAD)]
            assert position == str(MESSAGES)
            return proxy.has_lost


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_a_worker_goes_on_when_an_answer_is_lost(
    new_database: NewDatabase, prove: bool, evidence: Evidence
) -> None:
    """Whichever commit it was: every message has its effect once, the bad one is a dead letter."""
    # Its threads commit side by side, so that the same number is not the same commit every time.
    tried = itertools.count(1) if prove else iter((1, 6, 11))
    runs = 0
    for nth in tried:
        assert nth <= COMMITS_MAX
        try:
            if not run(new_database, nth):
                break
        except BaseException as exc:
            where = "tests/proof/postgres/test_worker_losses.py"
            exc.add_note(f"answer {nth} was lost\nREPRO: make test ARGS='{where} -n 0 --prove'")
            raise
        runs += 1
    evidence.record(
        Entry(
            campaign="the answer to COMMIT is lost, at every commit of a worker in turn",
            layer="postgres",
            claims=("D1", "F2", "R1", "W1"),
            engine="postgres",
            schedules=runs,
            faults={"answer lost": runs},
            work=runs * MESSAGES,
        )
    )

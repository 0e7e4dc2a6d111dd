"""Store wire: a worker whose way to PostgreSQL is slow, cut, refused and black, and a second one.

The second worker has a way of its own. Whatever happens to the first, each message has its effect
once, and when the wire is mended the first one works again by itself.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import orjson
import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import StoreUnavailable
from onceward.stores import Transaction
from onceward.stores.postgres.store import CONNECT_SECONDS_MAX, PostgresStore
from onceward.workers import App, Item, Message, Worker
from tests.proof.proxy import Proxy
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX, until
from tests.support.evidence import Entry, Evidence

LEASE_SECONDS = 0.5
#: How many messages are there, at most; they come as fast as they are taken.
MESSAGES_MAX = 1_000_000
#: In the place of a worker's name.
ANY_WORKER = "%"
#: How many are done between two troubles.
STEP = 5


class Numbers:
    """Messages 1, 2, 3 and so on."""

    def read(self, after: str | None, limit: int) -> list[Item]:
        first = int(after or 0) + 1
        last = min(first + min(limit, 10), MESSAGES_MAX)
        return [Item(position=str(n), raw=orjson.dumps(n)) for n in range(first, last)]


def app_at(url: str, who: str) -> App:
    app = App(url)

    @app.consumer("numbers", source=Numbers(), lease_seconds=LEASE_SECONDS, poll_seconds=0.05)
    def handle(message: Message, tx: Transaction) -> None:
        tx.execute("insert into effects values (?, ?)", [message.data, who])
        time.sleep(0.002)  # Leaves something to do for the whole test.

    return app


@contextmanager
def working(url: str, who: str) -> Iterator[None]:
    """Run a worker in threads of this process; it must not give up."""
    app = app_at(url, who)
    worker = Worker(app, threads=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
        assert thread.is_alive(), "the worker gave up"
    finally:
        worker.stop()
        thread.join(WAIT_SECONDS_MAX)
        app.ow.close()


class Watching:
    """What is in the database, seen on a way of its own."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def done(self, who: str) -> int:
        sql = "select count(*) from effects where who like %s"
        row = self._connection.execute(sql, [who]).fetchone()
        assert row is not None
        return int(row[0])

    def more(self, who: str) -> float:
        """Wait until some more was done by this one, `%` for any; return how long that took."""
        began, before = time.monotonic(), self.done(who)
        return until(lambda: self.done(who) >= before + STEP, f"{who} does not go on") - began

    def effects(self) -> list[int]:
        return [row[0] for row in self._connection.execute("select n from effects order by n")]


def trouble(kind: str, proxy: Proxy, seen: Watching) -> None:
    """Let something happen to the first one's wire; where it cannot work, the second must."""
    if kind == "delayed":
        proxy.delay(0.005)
        # It can work; where a renewal comes too late the second takes over, and may keep the lease.
        seen.more(ANY_WORKER)
    elif kind == "reset":
        proxy.reset()
    elif kind == "refused":
        proxy.refuse()
        proxy.reset()
        seen.more("second")
    else:
        proxy.blackhole()
        seen.more("second")
    proxy.pass_everything()


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_worker_outlives_its_wire(ow_url: str, prove: bool, evidence: Evidence) -> None:
    """Slow, reset, refused or black: nothing is lost or doubled, and it goes on afterwards."""
    port = urlsplit(ow_url).port
    assert port is not None
    kinds = ["delayed", "reset", "refused", "black"] * (5 if prove else 1)
    recovered, faults = [], Counter(kinds)
    with (
        Proxy("127.0.0.1", port) as proxy,
        closing(psycopg.connect(ow_url, autocommit=True)) as connection,
        open_handle(ow_url) as ow,
    ):
        connection.execute("create table effects (n bigint, who text)")
        seen = Watching(connection)
        by_wire = ow_url.replace(f":{port}/", f":{proxy.port}/")
        with working(by_wire, "first"):
            seen.more("first")
            for kind in kinds:
                with working(ow_url, "second"):
                    trouble(kind, proxy, seen)
                # Alone again, it has to do it.
                recovered.append(seen.more("first"))
        position = int(ow.cursors.show("numbers").position or 0)
        effects = seen.effects()
    evidence.record(
        Entry(
            campaign="a worker whose way to the database is slow, reset, refused and black",
            layer="network",
            claims=("F1", "F4", "W1"),
            engine="postgres",
            schedules=len(kinds),
            faults=dict(faults),
            work=len(effects),
            lost=len(set(range(1, position + 1)) - set(effects)),
            doubled=len(effects) - len(set(effects)),
            recovery_seconds=tuple(recovered),
        )
    )
    assert effects == list(range(1, position + 1))


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_wire_that_is_black_is_noticed(ow_url: str, prove: bool) -> None:
    """A request for a connection that gets no answer fails when its limit is over."""
    if not prove:
        pytest.skip("waits for a limit of several seconds")
    port = urlsplit(ow_url).port
    assert port is not None
    with Proxy("127.0.0.1", port) as proxy:
        proxy.blackhole()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            open_handle(ow_url.replace(f":{port}/", f":{proxy.port}/"))
        assert CONNECT_SECONDS_MAX <= time.monotonic() - began < WAIT_SECONDS_MAX


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("said", "idle_seconds"), [("", 30), ("?keepalives_idle=7", 7)])
def test_a_server_that_is_gone_without_a_word_is_noticed(
    ow_url: str, said: str, idle_seconds: int
) -> None:
    """The system is asked to probe the other end soon, unless the URL says when."""
    with open_handle(f"{ow_url}{said}") as ow:
        assert isinstance(ow.store, PostgresStore)
        with (
            ow.store.connection() as connection,
            socket.socket(fileno=os.dup(connection.fileno())) as used,
        ):
            tcp = socket.IPPROTO_TCP
            assert used.getsockopt(tcp, socket.TCP_KEEPIDLE) == idle_seconds
            assert used.getsockopt(tcp, socket.TCP_KEEPINTVL) * 3 <= WAIT_SECONDS_MAX
            assert used.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 1000 * WAIT_SECONDS_MAX

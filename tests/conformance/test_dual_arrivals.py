"""Arrivals of a dual cursor: who waits for whom, and what older versions wrote."""

import os
import threading
from pathlib import Path

import pytest

from onceward.cursors.dual import DualCursor
from onceward.handle import Onceward
from onceward.seams import SystemClock
from onceward.stores import migrate, open_store
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.queries import migrations
from onceward.testing.postgres import PostgresServer

PATIENCE_SECONDS = 60.0


def arrive(ow: Onceward, group: str, drawn: list[int]) -> None:
    with ow.transaction() as tx:
        drawn.append(ow.dual("chat").next_sequence(tx, group))


def wait_until_over_or_blocked(store: PostgresStore, thread: threading.Thread) -> None:
    """Wait until a thread has ended, or the database says that somebody waits for a lock."""
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE_SECONDS
    with store.connection() as connection:
        while thread.is_alive():
            if connection.execute("select 1 from pg_locks where not granted").fetchall():
                return
            assert clock.monotonic() < deadline, "it neither ended nor waits"
            clock.sleep(0.005)


def in_flight(ow: Onceward) -> DualCursor:
    """Return a dual cursor whose only message so far is being worked on."""
    arrive(ow, "A", [])
    dual = ow.dual("chat")
    dual.advance_global(1)
    dual.advance_group("A", 1)
    return dual


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_batch_that_ends_and_draws_does_not_deadlock_with_an_arrival(ow: Onceward) -> None:
    """The answer is a message of the same group; another message of it arrives in between."""
    dual = in_flight(ow)
    assert isinstance(ow.store, PostgresStore)
    drawn: list[int] = []
    other = threading.Thread(target=arrive, args=[ow, "A", drawn])
    with ow.transaction() as tx:
        dual.commit_group("A")
        other.start()
        wait_until_over_or_blocked(ow.store, other)
        drawn.append(dual.next_sequence(tx, "A"))
    other.join(PATIENCE_SECONDS)
    assert drawn == [2, 3]
    dual.advance_global(3)
    assert [(each.group, each.after, each.upto) for each in dual.pending()] == [("A", 1, 3)]


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_an_arrival_does_not_wait_for_work_on_its_group(ow: Onceward) -> None:
    """A transaction that has a group's turn, however slow, holds up no message of the group."""
    dual = in_flight(ow)
    drawn: list[int] = []
    with ow.transaction():
        dual.output_sent("A")
        other = threading.Thread(target=arrive, args=[ow, "A", drawn])
        other.start()
        other.join(PATIENCE_SECONDS)
        assert drawn == [2]


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without a schema."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'old.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database(f"arrivals_{os.getpid()}")


def test_arrivals_of_before_are_taken_over(empty_url: str) -> None:
    """What waited in a database of an older version waits in the new one, and nothing else."""
    store = open_store(empty_url)
    store.applied()
    for number, name, sql in migrations(store.engine)[:6]:
        store.apply(number, name, sql)
    with store.transaction() as tx:
        tx.execute("insert into onceward_dual_counters values ('chat', 4)")
        tx.execute("insert into onceward_dual_reads values ('chat', 4, '2026-01-01')")
        for row in (("waits", 0, 3), ("over", 2, 2), ("never seen", 1, None)):
            tx.execute(
                "insert into onceward_dual_groups "
                "(dual_name, group_name, processed_position, last_arrived, updated_at) "
                "values ('chat', ?, ?, ?, '2026-01-01')",
                row,
            )
    assert 7 in migrate(store)
    pending = DualCursor(store, "chat").pending()
    assert [(each.group, each.after, each.upto) for each in pending] == [
        ("waits", 0, 4),
        ("never seen", 1, 4),
    ]
    store.close()

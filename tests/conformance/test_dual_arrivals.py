"""Arrivals of a dual cursor: who waits for whom, and what older versions wrote."""

import threading

import pytest

from onceward.client import Onceward
from onceward.cursors.dual import DualCursor
from onceward.stores.postgres.store import PostgresStore
from tests.support.waiting import until

PATIENCE_SECONDS = 60.0


def arrive(ow: Onceward, group: str, drawn: list[int]) -> None:
    with ow.transaction() as tx:
        drawn.append(ow.dual("chat").next_sequence(tx, group))


def wait_until_over_or_blocked(store: PostgresStore, thread: threading.Thread) -> None:
    """Wait until a thread has ended, or a session of the database waits for a lock."""
    waits = "select 1 from pg_locks where not granted"
    with store.connection() as connection:
        until(lambda: not thread.is_alive() or connection.execute(waits).fetchall())


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

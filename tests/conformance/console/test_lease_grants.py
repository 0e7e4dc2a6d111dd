"""Lease grants: the database itself records every lease that was ever granted."""

import itertools
import sqlite3
import threading
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.cursors.lease_history import Grant, grants_of
from onceward.stores.queries import query
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_cursors import acquire, stolen, table

__all__ = ["table"]

_numbers = itertools.count()


def grant_rows(ow: Onceward, name: str = "c") -> list[tuple[int, str, str | None]]:
    """Epoch, worker and ending of each grant, oldest first."""
    found = grants_of(ow.store, name, 100)
    return [(each.epoch, each.worker, each.ending) for each in reversed(found)]


def latest(ow: Onceward) -> Grant:
    return grants_of(ow.store, "c", 1)[0]


def test_a_grant_is_written_with_the_lease(ow: Onceward) -> None:
    """The holder, the epoch and the start; a grant has no end while it lasts."""
    lease = acquire(ow)
    found = latest(ow)
    assert (found.cursor, found.epoch, found.worker) == ("c", lease.epoch, "w1")
    # PostgreSQL's time goes on within a statement.
    times = [
        datetime.fromisoformat(each) for each in (ow.cursors.show("c").updated_at, found.granted_at)
    ]
    assert timedelta(0) <= times[1] - times[0] < timedelta(seconds=1)
    assert (found.ended_at, found.ending, found.expired_at) == (None, None, None)


def test_a_lease_that_is_given_back_ends_its_grant(ow: Onceward, ow_time: MovingTime) -> None:
    """It ends when the lease is given back; the next lease begins a new grant."""
    lease = acquire(ow)
    ow_time.advance(seconds=5)
    lease.release()
    found = latest(ow)
    assert found.ending == "released"
    assert found.ended_at is not None
    assert found.ended_at > found.granted_at
    assert found.expired_at is None
    acquire(ow, "w2")
    assert grant_rows(ow) == [(1, "w1", "released"), (2, "w2", None)]


def test_a_take_over_ends_the_grant_of_the_silent(ow: Onceward, ow_time: MovingTime) -> None:
    """It is taken over at that moment; when it had expired is known."""
    stolen(ow, ow_time)
    assert grant_rows(ow) == [(1, "w1", "stolen"), (2, "w2", None)]
    first, second = reversed(grants_of(ow.store, "c", 2))
    assert first.expired_at is not None
    assert first.ended_at is not None
    assert first.granted_at < first.expired_at < first.ended_at <= second.granted_at


def test_a_move_by_hand_ends_the_grant(ow: Onceward) -> None:
    """A seek takes the lease from its holder; a seek of a free cursor ends no grant."""
    acquire(ow)
    ow.cursors.seek("c", "5", "r", "me")
    assert grant_rows(ow) == [(1, "w1", "moved")]
    ow.cursors.undo("c", "me")
    assert grant_rows(ow) == [(1, "w1", "moved")]
    acquire(ow, "w2")
    assert grant_rows(ow) == [(1, "w1", "moved"), (4, "w2", None)]


def test_the_same_worker_is_granted_again(ow: Onceward) -> None:
    """Its earlier handle is refused from then on, so that grant is over."""
    acquire(ow)
    acquire(ow)
    assert grant_rows(ow) == [(1, "w1", "released"), (2, "w1", None)]


def test_work_writes_no_grants(table: Onceward) -> None:
    """Checkpoints, renewals, failures and pauses change neither owner nor epoch."""
    lease = acquire(table)
    lease.renew()
    lease.checkpoint("1")
    with table.transaction() as tx:
        lease.guard(tx)
        tx.execute("insert into effects values ('1')")
        lease.checkpoint("2", tx)
    lease.fail()
    table.cursors.pause("c")
    table.cursors.resume("c")
    assert grant_rows(table) == [(1, "w1", None)]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_work_is_the_same_program_with_and_without_the_triggers(ow: Onceward) -> None:
    """What SQLite runs for a checkpoint or a renewal does not know of grants at all."""
    connection = sqlite3.connect(ow.store.url.removeprefix("sqlite:///"))
    unbound: defaultdict[str, None] = defaultdict(lambda: None)

    def programs() -> list[list[tuple[Any, ...]]]:
        statements = [query("sqlite", f"cursor_{name}") for name in ("checkpoint", "renew", "fail")]
        return [connection.execute(f"explain {sql}", unbound).fetchall() for sql in statements]

    before = programs()
    connection.executescript("drop trigger onceward_granted; drop trigger onceward_first_granted")
    assert programs() == before
    connection.close()


def test_cursors_of_our_own_have_no_grants(ow: Onceward) -> None:
    """A name that begins with ~ is an internal lock, not a reader."""
    lease = ow.cursors.acquire("~lock", "w1")
    assert lease is not None
    lease.release()
    assert ow.cursors.acquire("~lock", "w2") is not None
    assert grant_rows(ow, "~lock") == []


def test_a_grant_that_is_undone_was_none(ow: Onceward) -> None:
    """The grant is part of what moves the lease: a seek that is rolled back ends nothing."""
    acquire(ow)
    with pytest.raises(ZeroDivisionError), ow.transaction():
        ow.cursors.seek("c", "5", "r", "me")
        raise ZeroDivisionError
    assert grant_rows(ow) == [(1, "w1", None)]


def test_one_grant_at_a_time_is_open_however_many_want_it(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Workers that take and give back at once leave a line of grants, each ended but the last."""
    barrier = threading.Barrier(4)

    def work(worker: str) -> None:
        barrier.wait()
        for _ in range(10):
            lease = ow.cursors.acquire("c", worker)
            if lease is not None:
                lease.release()

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ow_time.advance(seconds=61)
    acquire(ow, "last")
    found = grant_rows(ow)
    assert [epoch for epoch, _, _ in found] == list(range(1, len(found) + 1))
    assert len(found) == ow.cursors.show("c").epoch
    assert [ending for _, _, ending in found] == ["released"] * (len(found) - 1) + [None]

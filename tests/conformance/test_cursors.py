"""Leases and fences: the same on SQLite and PostgreSQL, with time moved by hand."""

import os
import socket
import threading
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.cursors import Cursors, Lease, Renewal
from onceward.errors import InvalidArgument, LeaseLost
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.moving_time import MovingTime


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (note text)")
    return ow


def effects(ow: Onceward) -> list[str]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select note from effects order by note")]


def acquire(ow: Onceward, worker: str = "w1", seconds: float = 60.0) -> Lease:
    lease = ow.cursors.acquire("c", worker, seconds)
    assert lease is not None
    return lease


def stolen(ow: Onceward, ow_time: MovingTime) -> tuple[Lease, Lease]:
    """A lease that expired, and the one of the worker that took over."""
    first = acquire(ow, "w1")
    ow_time.advance(seconds=61)
    return first, acquire(ow, "w2")


def administer(ow: Onceward, sql: str, *params: Any) -> None:
    with ow.transaction() as tx:
        tx.execute(sql, params)


def test_a_new_cursor_is_made_and_granted(ow: Onceward) -> None:
    """The first acquire makes the row: no position yet, epoch 1, nothing processed."""
    lease = acquire(ow)
    assert (lease.name, lease.worker, lease.epoch, lease.position) == ("c", "w1", 1, None)
    state = ow.cursors.show("c")
    assert (state.lease_owner, state.is_held, state.epoch) == ("w1", True, 1)
    assert (state.processed_count, state.steal_count, state.error_count) == (0, 0, 0)


def test_a_held_cursor_is_not_granted_to_another(ow: Onceward) -> None:
    """None means that another worker holds it; the holder is not disturbed."""
    lease = acquire(ow)
    assert ow.cursors.acquire("c", "w2") is None
    assert lease.renew() is Renewal.RENEWED
    assert ow.cursors.show("c").epoch == 1


def test_a_worker_that_names_itself_by_default_is_host_process_and_chance(ow: Onceward) -> None:
    """The id is new for every start, so that a restarted worker is another one."""
    lease = ow.cursors.acquire("c")
    assert lease is not None
    host, pid, chance = lease.worker.rsplit("/", 2)
    assert (host, int(pid), len(chance)) == (socket.gethostname(), os.getpid(), 8)
    assert Cursors(ow.store, follow=ow.retries.follow).worker != lease.worker


def test_a_lease_lasts_up_to_its_limit_and_no_longer(ow: Onceward, ow_time: MovingTime) -> None:
    """At the very moment it ends it is still held; a moment later it can be taken."""
    acquire(ow, "w1", 60.0)
    if isinstance(ow.store, PostgresStore):
        stop_clock(ow.store, "lease_expires_at")
        assert ow.cursors.acquire("c", "w2") is None
        stop_clock(ow.store, "lease_expires_at + interval '1 microsecond'")
    else:
        ow_time.advance(seconds=60)
        assert ow.cursors.acquire("c", "w2") is None
        ow_time.advance(seconds=0.001)
    lease = acquire(ow, "w2")
    assert lease.epoch == 2
    assert ow.cursors.show("c").steal_count == 1


def stop_clock(store: PostgresStore, moment: str) -> None:
    with store.connection() as connection:
        ((when,),) = connection.execute(
            f"select ({moment})::text from cursor_positions".encode()
        ).fetchall()
        connection.execute(
            "create or replace function onceward_now() returns timestamptz language sql volatile "
            f"as $$ select timestamptz '{when}' $$".encode()
        )


def test_renewals_and_checkpoints_extend_the_lease(ow: Onceward, ow_time: MovingTime) -> None:
    """From each of them on it lasts its whole length again."""
    lease = acquire(ow)
    ow_time.advance(seconds=50)
    assert lease.renew() is Renewal.RENEWED
    ow_time.advance(seconds=50)
    lease.checkpoint("1")
    ow_time.advance(seconds=50)
    assert ow.cursors.acquire("c", "w2") is None
    ow_time.advance(seconds=11)
    assert acquire(ow, "w2").position == "1"


def test_the_epoch_rises_with_every_grant(ow: Onceward, ow_time: MovingTime) -> None:
    """To the same worker, after a release, after a steal: never the same epoch twice."""
    epochs = [acquire(ow).epoch, acquire(ow).epoch]
    lease = acquire(ow)
    lease.release()
    epochs += [lease.epoch, acquire(ow, "w2").epoch]
    ow_time.advance(seconds=61)
    epochs.append(acquire(ow, "w3").epoch)
    assert epochs == [1, 2, 3, 4, 5]
    assert ow.cursors.show("c").steal_count == 1


def test_a_takeover_is_recorded_and_a_plain_grant_is_not(ow: Onceward, ow_time: MovingTime) -> None:
    """The old and the new holder, the position and the epoch."""
    first, _ = stolen(ow, ow_time)
    (entry,) = ow.cursors.history("c")
    assert (entry.kind, entry.actor, entry.epoch) == ("steal", "w2", 2)
    assert "w1" in entry.reason
    assert (entry.from_position, entry.to_position) == (first.position, None)


def test_an_expired_lease_without_a_takeover_is_still_its_holders(
    table: Onceward, ow_time: MovingTime
) -> None:
    """Late is not lost: the epoch is the fence, not the clock."""
    lease = acquire(table)
    ow_time.advance(seconds=3600)
    with table.transaction() as tx:
        tx.execute("insert into effects values ('late')")
        lease.checkpoint("1", tx=tx)
    assert lease.renew() is Renewal.RENEWED
    assert effects(table) == ["late"]


def test_a_stale_checkpoint_sent_together_with_its_commit_leaves_no_effect(
    table: Onceward, ow_time: MovingTime
) -> None:
    """The database itself refuses, so that nothing after it, the commit too, happens."""
    first, second = stolen(table, ow_time)
    with pytest.raises(LeaseLost) as refused, table.transaction() as tx:
        tx.execute("insert into effects values ('stale')")
        first.checkpoint("9", tx=tx)
    assert (refused.value.cursor, refused.value.held_epoch) == ("c", 1)
    assert refused.value.current_epoch == 2
    assert effects(table) == []
    assert second.renew() is Renewal.RENEWED
    assert table.cursors.show("c").position is None


def test_effects_and_checkpoint_happen_together_or_not_at_all(table: Onceward) -> None:
    """A handler that raises moves nothing; one that returns moves both."""
    lease = acquire(table)
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        tx.execute("insert into effects values ('a')")
        lease.checkpoint("1", tx=tx)
        raise ZeroDivisionError
    assert (effects(table), lease.position) == ([], None)
    assert table.cursors.show("c").position is None
    with table.transaction() as tx:
        lease.checkpoint("1", tx=tx, count=3)
        tx.execute("insert into effects values ('a')")
    assert (effects(table), lease.position) == (["a"], "1")
    state = table.cursors.show("c")
    assert (state.position, state.processed_count) == ("1", 3)


def test_h14_a_checkpoint_that_updates_no_row_is_an_error(ow: Onceward) -> None:
    """Not even a cursor that is gone lets a checkpoint pass for a success."""
    lease = acquire(ow)
    administer(ow, "delete from cursor_positions")
    with pytest.raises(LeaseLost) as refused:
        lease.checkpoint("1")
    assert refused.value.current_epoch is None
    with pytest.raises(LeaseLost), ow.transaction() as tx:
        lease.checkpoint("1", tx=tx)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into cursor_positions (cursor_name) values ('c')",
        "insert into cursor_positions (cursor_name, error_count, paused) values ('c', null, null)",
        "insert into cursor_positions (cursor_name, lease_owner) values ('c', 'other')",
    ],
)
def test_h15_a_row_made_by_an_administrator_can_be_acquired(ow: Onceward, sql: str) -> None:
    """A lease without an end has expired, and what was left out is as if it were new."""
    administer(ow, sql)
    lease = acquire(ow)
    assert lease.epoch == 1
    assert lease.fail() == 1
    lease.checkpoint("1")
    assert ow.cursors.show("c").error_count == 0
    assert ow.cursors.acquire("c", "w2") is None


def test_h15_an_administrator_frees_a_cursor_by_hand(ow: Onceward) -> None:
    """Setting the end to NULL lets the next worker in, and shuts the old one out."""
    lease = acquire(ow)
    administer(ow, "update cursor_positions set lease_expires_at = null")
    acquire(ow, "w2")
    with pytest.raises(LeaseLost):
        lease.checkpoint("1")


def test_h17_a_paused_cursor_is_neither_acquired_nor_renewed(
    table: Onceward, ow_time: MovingTime
) -> None:
    """The holder is notified, and its batch finishes whole; no worker begins another."""
    lease = acquire(table)
    ow_time.advance(seconds=30)
    before = table.cursors.show("c").lease_expires_at
    table.cursors.pause("c", "lunch", "me")
    assert lease.renew() is Renewal.PAUSED
    with table.transaction() as tx:
        tx.execute("insert into effects values ('of the batch')")
        lease.checkpoint("1", tx=tx)
    state = table.cursors.show("c")
    assert (state.lease_expires_at, state.position) == (before, "1")
    assert effects(table) == ["of the batch"]
    assert table.cursors.acquire("c", "w1") is None
    ow_time.advance(seconds=61)
    assert table.cursors.acquire("c", "w2") is None
    lease.release()
    assert table.cursors.acquire("c", "w2") is None
    table.cursors.resume("c", "done", "me")
    assert acquire(table, "w2").position == "1"


def test_h17_a_batch_that_fails_while_paused_is_rolled_back_completely(table: Onceward) -> None:
    """Pausing does not make a half batch possible."""
    lease = acquire(table)
    pause = threading.Thread(target=table.cursors.pause, args=["c"])
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:
        pause.start()
        pause.join()
        tx.execute("insert into effects values ('half')")
        lease.checkpoint("1", tx=tx)
        raise ZeroDivisionError
    state = table.cursors.show("c")
    assert (effects(table), state.is_paused, state.position) == ([], True, None)
    assert lease.fail() == 1


def test_a_lease_kept_over_release_and_acquire_is_rejected(table: Onceward) -> None:
    """The same worker and the same cursor, but another grant: the old handle is of no use."""
    old = acquire(table)
    old.release()
    new = acquire(table)
    for call in (
        old.renew,
        old.fail,
        old.release,
        lambda: old.checkpoint("9"),
        lambda: old.checkpoint("9", count=0, failed=1),
    ):
        with pytest.raises(LeaseLost):
            call()
    with pytest.raises(LeaseLost), table.transaction() as tx:
        old.guard(tx)
    with pytest.raises(LeaseLost), table.transaction() as tx:
        tx.execute("insert into effects values ('old')")
        old.checkpoint("9", tx=tx)
    with pytest.raises(LeaseLost), table.transaction() as tx:
        tx.execute("insert into effects values ('old')")
        old.checkpoint("9", tx=tx, count=0, failed=1)
    new.checkpoint("1")
    assert (effects(table), table.cursors.show("c").position) == ([], "1")


def test_a_failure_is_counted_until_the_next_checkpoint(ow: Onceward) -> None:
    """error_count is the number of failures in a row."""
    lease = acquire(ow)
    assert [lease.fail(), lease.fail()] == [1, 2]
    assert ow.cursors.show("c").error_count == 2
    lease.checkpoint("1")
    assert ow.cursors.show("c").error_count == 0


def test_a_checkpoint_past_failed_messages_counts_them(ow: Onceward) -> None:
    """Alone or in a transaction, which may count a failure without a checkpoint, too."""
    lease = acquire(ow)
    lease.checkpoint("1", count=0, failed=2)
    with ow.transaction() as tx:
        lease.checkpoint("2", tx, count=0, failed=1)
    with ow.transaction() as tx:
        lease.guard(tx)
        assert lease.fail(tx) == 4
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        lease.guard(tx)
        lease.fail(tx)
        raise ZeroDivisionError
    state = ow.cursors.show("c")
    assert (state.position, state.error_count, state.processed_count) == ("2", 4, 0)
    lease.checkpoint("2", count=0, failed=0)
    assert ow.cursors.show("c").error_count == 4
    with pytest.raises(InvalidArgument, match="failed: must not be negative"):
        lease.checkpoint("3", count=0, failed=-1)


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_leases_of_before_a_boot_have_run_out(ow: Onceward) -> None:
    """Seconds since boot mean nothing after the next boot: leases of before have expired."""
    lease = acquire(ow)
    ow.store.clock.reboot()  # type: ignore[attr-defined]  # the ow fixture has a ManualClock
    assert acquire(ow, "w2").epoch == 2
    with pytest.raises(LeaseLost):
        lease.renew()


def test_many_workers_ask_at_once_and_one_is_granted(ow: Onceward) -> None:
    """Only the store's statement decides, for a new cursor as for an old one."""
    for _ in range(3):
        granted: list[Lease] = []
        barrier = threading.Barrier(8)

        def ask(number: int, granted: list[Lease], barrier: threading.Barrier) -> None:
            barrier.wait()
            lease = ow.cursors.acquire("c", f"w{number}")
            if lease is not None:
                granted.append(lease)

        threads = [threading.Thread(target=ask, args=[n, granted, barrier]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (lease,) = granted
        lease.release()


def test_bad_arguments_are_named(ow: Onceward) -> None:
    """What neither engine can keep is refused before it is asked."""
    cases: list[Any] = [
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "c", "worker": ""}, "name"),
        ({"name": "c", "lease_seconds": 0}, "lease_seconds"),
        ({"name": "c", "lease_seconds": float("nan")}, "lease_seconds"),
        ({"name": "c", "lease_seconds": 1e9}, "lease_seconds"),
    ]
    for arguments, field in cases:
        with pytest.raises(InvalidArgument) as refused:
            ow.cursors.acquire(**arguments)
        assert refused.value.context["field"] == field


def test_positions_are_opaque_text(ow: Onceward) -> None:
    """Whatever a source calls a position comes back as it was."""
    lease = acquire(ow)
    for position in ("", "42", "(1,2)", "ÿ☃ '\";--", "%s ? :x"):
        lease.checkpoint(position)
        assert ow.cursors.show("c").position == position
    for bad in ("a\0b", "\ud800", "x" * 10_001):
        with pytest.raises(InvalidArgument):
            lease.checkpoint(bad)
    with pytest.raises(InvalidArgument):
        lease.checkpoint("1", count=-1)

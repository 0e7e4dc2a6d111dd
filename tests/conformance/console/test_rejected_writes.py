"""Rejected writes: a stale write is rejected, and the rejection is recorded."""

import os
import threading

import pytest

from onceward.client import Onceward
from onceward.cursors.fence_log import WAITING_MAX, FenceLog
from onceward.cursors.lease_history import RejectedWrite, rejected_writes_of
from onceward.errors import LeaseLost, OncewardError
from onceward.stores import Row
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_cursors import acquire, stolen, table

__all__ = ["table"]


def noted(ow: Onceward) -> list[RejectedWrite]:
    """What was refused, oldest first, once all of it is written."""
    ow.cursors.fence_log.flush(10.0)
    return list(reversed(rejected_writes_of(ow.store, "c", 100)))


def tried(ow: Onceward) -> list[str]:
    return [each.what for each in noted(ow)]


def test_a_late_checkpoint_is_noted(ow: Onceward, ow_time: MovingTime) -> None:
    """The late worker, its epoch, and the holder and epoch that counted then."""
    late, holder = stolen(ow, ow_time)
    with pytest.raises(LeaseLost):
        late.checkpoint("1")
    (found,) = noted(ow)
    assert (found.cursor, found.worker, found.epoch, found.what) == ("c", "w1", 1, "checkpoint")
    assert (found.current_epoch, found.current_owner) == (holder.epoch, "w2")
    assert found.happened_at


@pytest.mark.parametrize("what", ["checkpoint", "guard", "write"])
def test_a_rejection_inside_a_transaction_is_recorded_after_it(
    table: Onceward, ow_time: MovingTime, what: str
) -> None:
    """The transaction holds the write lock when it is refused; the note comes all the same."""
    late, _ = stolen(table, ow_time)
    with pytest.raises(LeaseLost), table.transaction() as tx:
        if what == "write":
            late.mark(tx)
        tx.execute("insert into effects values ('late')")
        if what == "guard":
            late.guard(tx)
        late.checkpoint("1", tx)
    # SQLite has one writer and needs no marks, so the checkpoint is what is refused.
    is_marked = what == "write" and table.store.engine == "postgres"
    expected = "checkpoint" if what == "write" and not is_marked else what
    assert tried(table) == [expected]
    assert late.lost.is_set()


def test_a_handler_that_goes_on_inside_its_lost_transaction_is_not_waited_for(
    table: Onceward, ow_time: MovingTime
) -> None:
    """It is refused at once, even if the note has to wait until its transaction ends."""
    late, _ = stolen(table, ow_time)
    with pytest.raises(OncewardError), table.transaction() as tx:
        tx.execute("insert into effects values ('late')")
        with pytest.raises(LeaseLost):
            late.guard(tx)
        table.cursors.fence_log.flush(0.05)
    assert tried(table) == ["guard"]


def test_each_thing_is_noted_once(ow: Onceward, ow_time: MovingTime) -> None:
    """However often a late holder tries, there is a row for each thing that it tried."""
    late, _ = stolen(ow, ow_time)
    for _ in range(5):
        for refused in (late.renew, lambda: late.checkpoint("1"), late.fail):
            with pytest.raises(LeaseLost):
                refused()
    assert sorted(tried(ow)) == ["checkpoint", "fail", "renew"]


def test_a_worker_whose_cursor_was_moved_is_noted(ow: Onceward) -> None:
    """No worker has it now, and the epoch of the move counts."""
    lease = acquire(ow)
    ow.cursors.seek("c", "5", "r", "me")
    with pytest.raises(LeaseLost):
        lease.checkpoint("1")
    (found,) = noted(ow)
    assert (found.epoch, found.current_epoch, found.current_owner) == (1, 2, None)


def test_who_gave_a_lease_back_is_not_accused(ow: Onceward) -> None:
    """A heartbeat that meets its own release, and a second release, are nothing to tell."""
    lease = acquire(ow)
    lease.release()
    for refused in (lease.renew, lease.release):
        with pytest.raises(LeaseLost):
            refused()
    assert tried(ow) == []


def test_locks_of_our_own_leave_no_notes(ow: Onceward, ow_time: MovingTime) -> None:
    """Names that begin with ~ are internal locks, not readers."""
    late = ow.cursors.acquire("~lock", "w1")
    assert late is not None
    ow_time.advance(seconds=61)
    assert ow.cursors.acquire("~lock", "w2") is not None
    with pytest.raises(LeaseLost):
        late.renew()
    ow.cursors.fence_log.flush(10.0)
    assert rejected_writes_of(ow.store, "~lock", 10) == ()


def test_work_that_is_in_time_starts_no_thread(ow: Onceward) -> None:
    """The good path pays nothing for the notes."""
    lease = acquire(ow)
    lease.renew()
    lease.checkpoint("1")
    lease.release()
    assert "onceward-fence-log" not in {thread.name for thread in threading.enumerate()}


def test_a_store_that_cannot_keep_the_note_does_not_hide_the_loss(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """The holder hears of its lost lease, whatever becomes of the note."""
    late, _ = stolen(ow, ow_time)
    with ow.transaction() as tx:
        tx.execute("drop table onceward_rejected_writes")
    with pytest.raises(LeaseLost):
        late.checkpoint("1")
    ow.cursors.fence_log.flush(10.0)
    with pytest.raises(LeaseLost):
        late.renew()


def test_an_error_of_any_kind_ends_one_note_and_not_all(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors from below the store are logged once, and the next rejection is recorded."""
    write = ow.store.write_query

    def failing(name: str, /, **params: object) -> list[Row]:
        if params["epoch"] in (1, 2):
            raise ZeroDivisionError
        return write(name, **params)

    monkeypatch.setattr(ow.store, "write_query", failing)
    for epoch in (1, 2, 3):
        ow.cursors.fence_log.add("c", "w", epoch, "renew")  # type: ignore[arg-type]  # any number
        ow.cursors.fence_log.flush(10.0)
    assert [each.epoch for each in noted(ow)] == [3]
    assert [each.name for each in caplog.records] == ["onceward.cursors"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_was_ended_is_followed_by_another(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even an error that must not be suppressed leaves no thread that only seems to run."""
    write = ow.store.write_query

    def ending(name: str, /, **params: object) -> list[Row]:
        if params["epoch"] == 1:
            raise SystemExit
        return write(name, **params)

    monkeypatch.setattr(ow.store, "write_query", ending)
    for epoch in (1, 2):
        ow.cursors.fence_log.add("c", "w", epoch, "renew")  # type: ignore[arg-type]  # any number
        ow.cursors.fence_log.flush(10.0)
    assert [each.epoch for each in noted(ow)] == [2]


def test_notes_that_cannot_be_written_do_not_pile_up(ow: Onceward) -> None:
    """While the store is silent there is a limit to what waits."""
    refusals = FenceLog(ow.store)
    with ow.transaction() as tx:
        if ow.store.engine == "sqlite":
            tx.execute("delete from onceward_rejected_writes")
        else:
            tx.execute("lock table onceward_rejected_writes")
        for number in range(WAITING_MAX + 100):
            refusals.add(f"c{number}", "w", 1, "renew")  # type: ignore[arg-type]  # any number
        assert len(refusals._waiting) <= WAITING_MAX
        refusals._waiting.clear()
    refusals.flush(10.0)


def test_a_forked_child_writes_notes_of_its_own(ow: Onceward, ow_time: MovingTime) -> None:
    """The thread of the parent is not in the child; it starts its own."""
    late, _ = stolen(ow, ow_time)
    child = os.fork()
    if child == 0:
        try:
            late.checkpoint("1")
        except LeaseLost:
            ow.cursors.fence_log.flush(10.0)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert tried(ow) == ["checkpoint"]

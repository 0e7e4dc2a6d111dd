"""What grows in a store: what is kept for how long, and what is never removed by age."""

from __future__ import annotations

import pytest

from onceward.client import Onceward
from onceward.retries import Failure, RetryMessage
from onceward.system import ManualClock
from onceward.testing.moving_time import MovingTime
from onceward.workers.pruning import ACTOR, PRUNE_SECONDS, Pruner
from onceward.workers.retention import DAY_SECONDS, Retention
from tests.support.trigger_counts import assert_counts

BROKEN = Failure(type="E", message="broken")


def prune(ow: Onceward, retention: Retention | None = None) -> int:
    clock = ManualClock()
    pruning = Pruner(ow, retention, clock=clock)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    return pruning.run_if_due()


def letter(ow: Onceward, position: str) -> int:
    with ow.transaction() as tx:
        return ow.dead.add(tx, RetryMessage(cursor="c", position=position, raw=b"{}"), BROKEN)


def states(ow: Onceward) -> dict[str, str]:
    return {each.position: each.state for each in ow.dead.list(cursor="c", state=None)}


def kinds(ow: Onceward, name: str = "c") -> list[str]:
    return [each.kind for each in reversed(ow.cursors.history(name))]


def test_settled_letters_are_removed_and_dead_ones_wait_for_ever(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """A letter that an operator dropped is history; one that waits for an operator is not."""
    letter(ow, "1")
    ow.dead.drop(letter(ow, "2"), reason="r", actor="ann")
    ow_time.advance(seconds=29 * DAY_SECONDS)
    prune(ow)
    assert states(ow) == {"1": "dead", "2": "dropped"}
    ow_time.advance(seconds=2 * DAY_SECONDS)
    prune(ow)
    assert states(ow) == {"1": "dead"}
    ow_time.advance(seconds=3650 * DAY_SECONDS)
    prune(ow)
    assert states(ow) == {"1": "dead"}
    assert_counts(ow)


def test_dead_letters_are_dropped_where_that_is_wanted(ow: Onceward, ow_time: MovingTime) -> None:
    """With dead_letters_days, who dropped a letter and why is on record, until that is old too."""
    kept = Retention(dead_letters_days=90)
    number = letter(ow, "1")
    ow_time.advance(seconds=89 * DAY_SECONDS)
    prune(ow, kept)
    assert states(ow) == {"1": "dead"}
    ow_time.advance(seconds=2 * DAY_SECONDS)
    prune(ow, kept)
    found = ow.dead.show(number)
    assert (found.state, found.changed_by) == ("dropped", ACTOR)
    assert found.reason == "dead for 90 days"
    assert_counts(ow)
    ow_time.advance(seconds=31 * DAY_SECONDS)
    prune(ow, kept)
    assert states(ow) == {}


def test_history_keeps_what_can_be_undone_and_the_last_of_each_kind(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Take-overs and pauses of long ago go; a seek can still be undone, and who paused is known."""
    for worker in "abc":
        ow.cursors.acquire("c", worker, 1)
        ow_time.advance(seconds=2)
    ow.cursors.seek("c", "7", reason="r", actor="ann")
    for _ in range(2):
        ow.cursors.pause("c", "r", "ann")
        ow.cursors.resume("c", "r", "ann")
    ow.cursors.pause("c", "the last one", "ann")
    before = kinds(ow)
    assert before == ["steal", "steal", "seek", *["pause", "resume"] * 2, "pause"]
    ow_time.advance(seconds=89 * DAY_SECONDS)
    prune(ow)
    assert kinds(ow) == before
    ow_time.advance(seconds=2 * DAY_SECONDS)
    prune(ow)
    assert kinds(ow) == ["steal", "seek", "resume", "pause"]
    ow.cursors.undo("c", "ann")
    assert ow.cursors.show("c").position is None


def test_the_last_entries_of_one_cursor_do_not_keep_those_of_others(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """What stays is passed over, however much of it is oldest."""
    for number in range(600):
        ow.cursors.acquire(f"old{number}", "a", 1)
    ow_time.advance(seconds=2)
    for number in range(600):
        ow.cursors.acquire(f"old{number}", "b", 1)
    for worker in "abc":
        ow.cursors.acquire("c", worker, 1)
        ow_time.advance(seconds=2)
    ow_time.advance(seconds=91 * DAY_SECONDS)
    prune(ow)
    assert kinds(ow) == ["steal"]
    assert kinds(ow, "old5") == ["steal"]


def test_nothing_more_is_removed_once_the_store_will_be_closed(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Else the thread that prunes would open it again."""
    ow.dead.drop(letter(ow, "1"), reason="r", actor="ann")
    ow.cursors.acquire("c", "a", 1)
    ow_time.advance(seconds=3650 * DAY_SECONDS)
    clock = ManualClock()
    pruning = Pruner(ow, clock=clock, is_over=lambda: True)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    assert pruning.run_if_due() == 0
    assert states(ow) == {"1": "dropped"}
    assert prune(ow) > 0


def test_a_look_at_the_history_goes_on_where_the_last_one_ended(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much stays, a look reads so many entries and no more, and in the end all of them."""
    monkeypatch.setattr("onceward.workers.pruning.BATCH_ROWS", 2)
    monkeypatch.setattr("onceward.workers.pruning.BATCHES_MAX", 1)
    clock = ManualClock()
    pruning = Pruner(ow, clock=clock)

    def look() -> list[int]:
        clock.advance(seconds=2 * PRUNE_SECONDS)
        pruning.run_if_due()
        return [len(kinds(ow, name)) for name in ("first", "second", "last")]

    for name, workers in (("first", "ab"), ("second", "ab"), ("last", "abc")):
        for worker in workers:
            ow.cursors.acquire(name, worker, 1)
            ow_time.advance(seconds=2)
    ow_time.advance(seconds=91 * DAY_SECONDS)
    assert [look() for _ in range(2)] == [[1, 1, 2], [1, 1, 1]]
    ow.cursors.acquire("first", "c", 1)
    assert [look() for _ in range(2)] == [[2, 1, 1], [1, 1, 1]]


def test_entries_written_by_a_clock_that_was_ahead_do_not_keep_later_ones(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay as long as they look new; each look begins after the one before, past them."""
    monkeypatch.setattr("onceward.workers.pruning.BATCH_ROWS", 2)
    clock = ManualClock()
    pruning = Pruner(ow, clock=clock)
    for name, workers in (("ahead", "abcdef"), ("later", "abc")):
        for worker in workers:
            ow.cursors.acquire(name, worker, 1)
            ow_time.advance(seconds=2)
    with ow.transaction() as tx:
        sql = "update cursor_history set happened_at = ? where cursor_name = 'ahead'"
        tx.execute(sql, ["2199-01-01T00:00:00.000Z"])
    before = kinds(ow, "ahead")
    ow_time.advance(seconds=91 * DAY_SECONDS)
    for _ in before:
        clock.advance(seconds=2 * PRUNE_SECONDS)
        pruning.run_if_due()
    assert (kinds(ow, "ahead"), kinds(ow, "later")) == (before, ["steal"])


@pytest.mark.parametrize("field", ["samples_days", "workers_days", "grants_days"])
def test_a_setting_decides_how_long(ow: Onceward, ow_time: MovingTime, field: str) -> None:
    """With a longer retention the same row stays."""
    write_query = ow.store.write_query
    write_query("worker_beat", worker="w", host="h", pid=1, consumers="[]", version="0")
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    measured = '[{"cursor": "c", "processed": 1}]'
    write_query("measure_write", rows=measured)
    write_query("sample_add", names='["c"]', seconds=1.0, characters=9)
    lease.release()
    ow_time.advance(seconds=20 * DAY_SECONDS)
    assert prune(ow, Retention(samples_days=30, workers_days=30, grants_days=30)) == 0
    longer = {"samples_days": 30.0, "workers_days": 30.0, "grants_days": 30.0}
    assert prune(ow, Retention(**{**longer, field: 10.0})) == 1

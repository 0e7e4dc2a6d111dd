"""Position samples: where cursors were over the last day, and when old samples are removed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onceward.client import Onceward
from onceward.cursors.lease_history import grants_of, rejected_writes_of
from onceward.errors import LeaseLost
from onceward.system import ManualClock, SeededRandomness
from onceward.testing.moving_time import MovingTime
from onceward.workers import Lag
from onceward.workers import pruning as pruning_module
from onceward.workers.lag_sampler import POSITION_CHARACTERS_MAX
from onceward.workers.pruning import AHEAD_SECONDS, PRUNE_SECONDS, Pruner
from onceward.workers.retention import DAY_SECONDS, Retention
from onceward.workers.worker_registry import WorkerRegistration, list_workers
from tests.conformance.test_cursors import acquire, stolen
from tests.conformance.workers.test_lag_records import Behind, Bench, bench

__all__ = ["bench"]

TRACES_SECONDS = Retention().grants_days * DAY_SECONDS


def samples(ow: Onceward, name: str = "c") -> list[tuple[str, int, int | None, float | None]]:
    """Position, count and lag of each sample, oldest first."""
    rows = ow.store.read("sample_list", name=name, seconds=10 * DAY_SECONDS, limit=10_000)
    return [row[1:] for row in reversed(rows)]


def waiting(ow: Onceward) -> list[str]:
    """The cursors whose messages wait, whose oldest waits longest first."""
    with ow.transaction() as tx:
        rows = tx.execute(
            "select cursor_name from onceward_measures where waiting_since is not null "
            "order by waiting_since"
        )
    return [row[0] for row in rows]


def test_a_measure_leaves_a_sample(ow: Onceward, bench: Bench) -> None:
    """Where the cursor was, how much it had processed, and its lag."""
    bench.cursor(position="7", count=3)
    bench.measuring.add("c", Behind(Lag(messages=12)), is_partition=False)
    bench.measured()
    assert samples(ow) == [("7", 3, 12, 0.0)]
    bench.cursor(position="9", count=2)
    bench.measured()
    assert samples(ow) == [("7", 3, 12, 0.0), ("9", 5, 12, 0.0)]


def test_a_cursor_that_is_measured_often_leaves_one_line_of_samples(
    ow: Onceward, bench: Bench
) -> None:
    """However many processes measure it, its samples are about ten seconds apart."""
    bench.cursor(position="1")
    source = Behind(Lag(messages=1))
    for each in (processes := [bench.measuring, bench.process()]):
        each.add("c", source, is_partition=False)
    for second in range(30):
        bench.advance(1)
        processes[second % 2].measure(is_last=True)
    assert len(source.asked) == 30
    assert 3 <= len(samples(ow)) <= 4


def test_many_cursors_are_sampled_less_often(ow: Onceward, bench: Bench) -> None:
    """There is a limit to what one process writes in a second, so each has fewer samples."""
    for number in range(300):
        bench.cursor(f"c{number:03}", "1")
        bench.measuring.add(f"c{number:03}", Behind(Lag(messages=1)), is_partition=False)
    for _ in range(4):
        bench.measured()
    assert len(samples(ow, "c007")) == 2


def test_a_long_position_is_left_out_of_its_sample(ow: Onceward, bench: Bench) -> None:
    """What is kept every ten seconds has a size, and a cut position would be another one."""
    bench.measuring.add("c", Behind(Lag(messages=1)), is_partition=False)
    for position in ("p" * POSITION_CHARACTERS_MAX, "p" * (POSITION_CHARACTERS_MAX + 1)):
        bench.cursor(position=position)
        bench.measured()
    assert [row[0] for row in samples(ow)] == ["p" * POSITION_CHARACTERS_MAX, None]


def test_it_is_known_whose_messages_wait_longest(ow: Onceward, bench: Bench) -> None:
    """By the moment they began to wait, whenever measured; cursors without lag are left out."""
    for name, lag in (("old", 50), ("older", 500), ("none", 0), ("caught_up", 0)):
        bench.cursor(name, "1")
        answer = Lag(messages=0) if name == "caught_up" else Lag(messages=3)
        if lag:
            answer = Lag(messages=3, oldest_at=bench.now() - timedelta(seconds=lag))
        if name != "none":
            bench.measuring.add(name, Behind(answer), is_partition=False)
    bench.measured()
    assert waiting(ow) == ["older", "old"]


def test_workers_of_an_older_version_report_since_when_messages_wait(
    ow: Onceward, bench: Bench
) -> None:
    """They write what they measured and know nothing of that moment; it is kept all the same."""
    for name, lag in (("a", 50), ("b", 500)):
        bench.cursor(name, "1")
        oldest_at = bench.now() - timedelta(seconds=lag)
        bench.measuring.add(name, Behind(Lag(messages=3, oldest_at=oldest_at)), is_partition=False)
    bench.measured()
    assert waiting(ow) == ["b", "a"]
    older = "update onceward_measures set lag_messages = ?, lag_seconds = ? where cursor_name = ?"
    with ow.transaction() as tx:
        tx.execute(older, (3, 5000.0, "a"))
    assert waiting(ow) == ["a", "b"]
    with ow.transaction() as tx:
        tx.execute(older, (0, 5000.0, "a"))
        tx.execute(older, (None, None, "b"))
    assert waiting(ow) == []


def sample_of_the_future(ow: Onceward, *, seconds: float) -> None:
    """Leave what a process writes whose clock is so far ahead."""
    ahead = {
        "sqlite": "strftime('%Y-%m-%dT%H:%M:%fZ', taken_at, ? || ' seconds')",
        "postgres": "taken_at + make_interval(secs => ?)",
    }[ow.store.engine]
    with ow.transaction() as tx:
        tx.execute(f"update onceward_samples set taken_at = {ahead}", [seconds])


def test_a_clock_that_was_ahead_does_not_end_the_samples(ow: Onceward, bench: Bench) -> None:
    """One sample of next week is no reason to leave out those of this week."""
    bench.cursor(position="1")
    bench.measuring.add("c", Behind(Lag(messages=1)), is_partition=False)
    bench.measured()
    sample_of_the_future(ow, seconds=7 * DAY_SECONDS)
    bench.cursor(position="2")
    bench.measured()
    assert sorted(str(row[0]) for row in samples(ow)) == ["1", "2"]


# --- what is removed -----------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pruning(ow: Onceward, clock: ManualClock) -> Pruner:
    made = Pruner(ow, clock=clock, randomness=SeededRandomness(1))
    clock.advance(seconds=PRUNE_SECONDS)
    return made


def test_the_past_is_removed_when_it_is_old(
    ow: Onceward, ow_time: MovingTime, bench: Bench, pruning: Pruner, clock: ManualClock
) -> None:
    """A sample and a worker after a day, a grant and a refusal after a week; what lasts stays."""
    late, holder = stolen(ow, ow_time)
    with pytest.raises(LeaseLost):
        late.renew()
    ow.cursors.fence_log.flush(10.0)
    WorkerRegistration(ow, "w", ()).send_heartbeat()
    bench.measuring.add("c", Behind(Lag(messages=1)), is_partition=False)
    bench.measured()
    assert pruning.run_if_due() == 0
    ow_time.advance(seconds=DAY_SECONDS + 1)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    assert pruning.run_if_due() == 2
    assert (samples(ow), list_workers(ow.store)) == ([], ())
    assert len(grants_of(ow.store, "c", 10)) == 2
    ow_time.advance(seconds=TRACES_SECONDS)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    assert pruning.run_if_due() == 2
    assert rejected_writes_of(ow.store, "c", 10) == ()
    (kept,) = grants_of(ow.store, "c", 10)
    assert (kept.epoch, kept.ended_at) == (holder.epoch, None)


def test_a_sample_of_the_far_future_is_removed(
    ow: Onceward, bench: Bench, pruning: Pruner, clock: ManualClock
) -> None:
    """Clocks differ a little; one that is an hour ahead is wrong, and its sample would stay."""
    bench.cursor(position="1")
    bench.measuring.add("c", Behind(Lag(messages=1)), is_partition=False)
    bench.measured()
    sample_of_the_future(ow, seconds=AHEAD_SECONDS - 100)
    assert pruning.run_if_due() == 0
    sample_of_the_future(ow, seconds=200)
    clock.advance(seconds=2 * PRUNE_SECONDS)
    assert pruning.run_if_due() == 1
    assert samples(ow) == []


def test_it_looks_once_a_minute(ow: Onceward, ow_time: MovingTime, pruning: Pruner) -> None:
    """Calls in between cost nothing, however frequent."""
    acquire(ow).release()
    pruning.run_if_due()
    ow_time.advance(seconds=2 * TRACES_SECONDS)
    assert pruning.run_if_due() == 0
    assert len(grants_of(ow.store, "c", 10)) == 1


def test_there_are_never_too_many_grants(
    ow: Onceward, pruning: Pruner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that come and go by the second leave so many rows and no more."""
    monkeypatch.setattr(pruning_module, "BATCH_ROWS", 3)
    few = {"grant_prune": {"seconds": TRACES_SECONDS, "most": 5}}
    monkeypatch.setattr(pruning, "_queries", few)
    for _ in range(20):
        acquire(ow).release()
    held = acquire(ow)
    assert pruning.run_if_due() > 10
    found = grants_of(ow.store, "c", 100)
    assert len(found) == 5
    assert found[0].epoch == held.epoch

"""Measures: the lag of cursors, for every process that asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.system import ManualClock, SeededRandomness, timestamp
from onceward.testing.moving_time import MovingTime
from onceward.workers import Lag
from onceward.workers.lag_records import LagRecords
from onceward.workers.lag_sampler import BATCH_MAX, MEASURE_SECONDS, RECENT_SECONDS, LagSampler
from tests.support.list_source import ListSource


class Behind(ListSource):
    """A source that reports a given lag."""

    def __init__(self, lag: Lag | Exception) -> None:
        super().__init__()
        self.answer = lag
        self.asked: list[str | None] = []

    def lag(self, after: str | None) -> Lag:
        self.asked.append(after)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Bench:
    """One process that measures, its clock and the store's moved together."""

    def __init__(self, ow: Onceward, time: MovingTime) -> None:
        self.ow, self.time, self.clock = ow, time, ManualClock()
        self.measuring = self.process()

    def process(self) -> LagSampler:
        return LagSampler(self.ow, clock=self.clock, randomness=SeededRandomness(1))

    def cursor(self, name: str = "c", position: str | None = None, count: int = 1) -> None:
        lease = self.ow.cursors.acquire(name, "w")
        assert lease is not None
        if position is not None:
            lease.checkpoint(position, count=count)

    def advance(self, seconds: float) -> None:
        self.time.advance(seconds=seconds)
        # On SQLite both are the same kind of clock, on PostgreSQL the store has its own.
        self.clock.advance(seconds=seconds)

    def measured(self, seconds: float = 1.2 * MEASURE_SECONDS) -> int:
        self.advance(seconds)
        return self.measuring.measure()

    def now(self) -> datetime:
        """The store's own time."""
        with self.ow.transaction() as tx:
            tx.query("history_add", **NOTE)
            (entry,) = self.ow.cursors.history("clock", 1)
        return datetime.fromisoformat(entry.happened_at)


NOTE = {
    "name": "clock",
    "kind": "pause",
    "actor": "a",
    "reason": "",
    "from_position": None,
    "to_position": None,
    "epoch": 1,
    "undoes": None,
}


@pytest.fixture
def bench(ow: Onceward, ow_time: MovingTime) -> Bench:
    return Bench(ow, ow_time)


def test_a_measure_says_how_much_is_left_and_since_when(ow: Onceward, bench: Bench) -> None:
    """Messages, the age of the oldest by the store's clock, and what holds the source back."""
    bench.cursor(position="7")
    oldest = bench.now() - timedelta(seconds=100)
    source = Behind(Lag(messages=12, oldest_at=oldest, held_back_by="transaction 99"))
    bench.measuring.add("c", source, is_partition=False)
    assert bench.measured() == 1
    assert source.asked == ["7"]
    found = LagRecords(ow).of(["c", "unknown"])
    assert list(found) == ["c"]
    assert found["c"].messages == 12
    assert found["c"].held_back_by == "transaction 99"
    assert found["c"].oldest_at == timestamp(oldest)
    assert found["c"].lag_seconds == pytest.approx(100 + 1.2 * MEASURE_SECONDS, abs=3)
    assert found["c"].age_seconds == pytest.approx(0, abs=3)


def test_a_cursor_that_has_caught_up_has_no_lag(ow: Onceward, bench: Bench) -> None:
    """Its lag is 0, and stays 0 however old the measure is."""
    bench.cursor()
    bench.measuring.add("c", Behind(Lag(messages=0)), is_partition=False)
    bench.measured()
    bench.advance(3600)
    measure = LagRecords(ow).list()["c"]
    assert (measure.messages, measure.lag_seconds, measure.drain_seconds) == (0, 0.0, 0.0)
    assert measure.age_seconds == pytest.approx(3600, abs=3)


def test_a_cursor_that_was_moved_by_hand_is_not_up_to_date(ow: Onceward, bench: Bench) -> None:
    """What was measured before says nothing of what is left now, until it is measured again."""
    bench.cursor(position="7")
    bench.measuring.add("c", Behind(Lag(messages=0)), is_partition=False)
    bench.measured()
    ow.cursors.seek("c", "3", "again", "ana")
    for found in (LagRecords(ow).list()["c"], LagRecords(ow).of(["c"])["c"]):
        assert (found.messages, found.lag_seconds, found.drain_seconds) == (None, None, None)
    bench.measured()
    assert LagRecords(ow).list()["c"].messages == 0


def test_the_lag_of_a_dead_worker_grows_older(ow: Onceward, bench: Bench) -> None:
    """It is no longer measured, but the lag grows and the measure shows its age."""
    bench.cursor()
    oldest = bench.now()
    bench.measuring.add("c", Behind(Lag(messages=3, oldest_at=oldest)), is_partition=False)
    bench.measured()
    before = LagRecords(ow).list()["c"]
    bench.advance(600)
    after = LagRecords(ow).list()["c"]
    assert before.lag_seconds is not None
    assert after.lag_seconds == pytest.approx(before.lag_seconds + 600, abs=3)
    assert after.age_seconds == pytest.approx(600, abs=3)
    assert after.measured_at == before.measured_at


def test_without_a_time_of_the_message_standing_still_counts(ow: Onceward, bench: Bench) -> None:
    """A source that only counts: the lag is at least how long the cursor has not moved."""
    bench.cursor(position="1")
    bench.measuring.add("c", Behind(Lag(messages=3)), is_partition=False)
    bench.measured()
    assert LagRecords(ow).list()["c"].lag_seconds == pytest.approx(0, abs=3)
    for _ in range(3):
        bench.measured(20)
    assert LagRecords(ow).list()["c"].lag_seconds == pytest.approx(60, abs=4)
    bench.cursor(position="2")
    bench.measured(20)
    assert LagRecords(ow).list()["c"].lag_seconds == pytest.approx(0, abs=3)


def test_a_source_that_cannot_count_is_measured_by_position_only(
    ow: Onceward, bench: Bench
) -> None:
    """There is a rate, but no made-up lag."""
    bench.cursor(position="1")
    bench.measuring.add("c", ListSource(1, 2, 3), is_partition=False)
    bench.measured()
    bench.cursor(position="2", count=20)
    bench.measured(20)
    measure = LagRecords(ow).list()["c"]
    assert (measure.messages, measure.lag_seconds, measure.drain_seconds) == (None, None, None)
    assert measure.rate_per_minute == pytest.approx(60, rel=0.2)


def test_too_many_to_count_lags_all_the_same(ow: Onceward, bench: Bench) -> None:
    """A source that counts only so far is asked whether there is anything at all."""
    bench.cursor(position="1")
    source = Behind(Lag(messages=None))
    source.values = [1, 2, 3]
    bench.measuring.add("c", source, is_partition=False)
    bench.measured()
    bench.measured(20)
    measure = LagRecords(ow).list()["c"]
    assert measure.messages is None
    assert measure.lag_seconds == pytest.approx(20, abs=3)
    source.values = [1]
    bench.measured(20)
    measure = LagRecords(ow).list()["c"]
    assert (measure.messages, measure.lag_seconds) == (0, 0.0)


def test_the_rate_predicts_how_long_it_will_take(ow: Onceward, bench: Bench) -> None:
    """Unknown after one measure, then messages in a minute, and 0 once nothing moves."""
    bench.cursor(position="1")
    bench.measuring.add("c", Behind(Lag(messages=600)), is_partition=False)
    bench.measured()
    assert LagRecords(ow).list()["c"].rate_per_minute is None
    assert LagRecords(ow).list()["c"].drain_seconds is None
    bench.cursor(position="2", count=100)
    bench.measured(20)
    measure = LagRecords(ow).list()["c"]
    assert measure.rate_per_minute == pytest.approx(300, rel=0.2)
    assert measure.drain_seconds == pytest.approx(120, rel=0.2)
    bench.advance(120)
    assert LagRecords(ow).list()["c"].rate_per_minute == 0
    assert LagRecords(ow).list()["c"].drain_seconds is None


def test_a_burst_is_smoothed_and_a_pause_is_seen(ow: Onceward, bench: Bench) -> None:
    """One quiet interval does not make the rate nothing."""
    bench.cursor(position="1")
    bench.measuring.add("c", ListSource(), is_partition=False)
    bench.measured()
    for number in range(20):
        bench.cursor(position=str(number), count=100)
        bench.measured(20)
    steady = LagRecords(ow).list()["c"].rate_per_minute
    assert steady == pytest.approx(300, rel=0.15)
    bench.measured(20)
    pausing = LagRecords(ow).list()["c"].rate_per_minute
    assert pausing is not None
    assert steady is not None
    assert 150 < pausing < steady


def test_idle_partitions_cost_nothing(ow: Onceward, bench: Bench) -> None:
    """A partition is measured while it works and once after; then no query runs for it."""
    source = Behind(Lag(messages=0))
    for number in range(50):
        bench.cursor(f"p{number}")
        bench.measuring.add(f"p{number}", source, is_partition=True)
    assert bench.measured() == 0
    bench.measuring.mark_active("p7")
    assert bench.measured() == 1
    assert list(LagRecords(ow).list()) == ["p7"]
    rounds = 0
    while bench.measured():
        rounds += 1
        assert rounds < 10
    asked = len(source.asked)
    assert bench.measured(10 * RECENT_SECONDS) == 0
    assert len(source.asked) == asked
    bench.measuring.mark_active("p7")
    assert bench.measured() == 1


def test_the_last_measure_of_a_partition_is_taken_after_its_work(
    ow: Onceward, bench: Bench
) -> None:
    """Its backlog does not stay in the store when the work was done after a measure."""
    source = Behind(Lag(messages=9))
    bench.cursor("p")
    bench.measuring.add("p", source, is_partition=True)
    bench.measuring.mark_active("p")
    bench.measured()
    source.answer = Lag(messages=0)
    while bench.measured():
        pass
    assert LagRecords(ow).list()["p"].messages == 0


def test_what_a_dead_process_measured_is_measured_again(ow: Onceward, bench: Bench) -> None:
    """It died after the work and before its last measure; no alarm may come of that for ever."""
    bench.cursor("p")
    bench.measuring.add("p", Behind(Lag(messages=9)), is_partition=True)
    bench.measuring.mark_active("p")
    bench.measured()
    assert LagRecords(ow).list()["p"].messages == 9
    bench.measuring = bench.process()
    bench.measuring.add("p", Behind(Lag(messages=0)), is_partition=True)
    while bench.measured():
        pass
    assert LagRecords(ow).list()["p"].messages == 0


def test_processes_do_not_measure_the_same_twice(bench: Bench) -> None:
    """The second process finds a fresh measure and asks no source."""
    bench.cursor()
    first, second = Behind(Lag(messages=1)), Behind(Lag(messages=1))
    other = bench.process()
    bench.measuring.add("c", first, is_partition=False)
    other.add("c", second, is_partition=False)
    bench.advance(1.2 * MEASURE_SECONDS)
    assert (bench.measuring.measure(), other.measure()) == (1, 0)
    assert second.asked == []


def test_measures_are_spread_out_and_written_together(
    ow: Onceward, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many cursors: not all at once, each about every ten seconds, one commit for each round."""
    source = Behind(Lag(messages=1))
    for number in range(40):
        bench.cursor(f"c{number:02}")
        bench.measuring.add(f"c{number:02}", source, is_partition=False)
    writes: list[object] = []
    write = ow.store.run_in_own_transaction

    def counted(operation: Any) -> Any:
        writes.append(operation)
        return write(operation)

    monkeypatch.setattr(ow.store, "run_in_own_transaction", counted)
    sizes = [bench.measured(1.0) for _ in range(12)]
    assert sum(sizes) in range(40, 60)
    assert max(sizes) < 20
    assert len(writes) <= len(sizes)
    assert len(LagRecords(ow).list()) == 40


def test_more_than_one_batch_is_measured(ow: Onceward, bench: Bench) -> None:
    """A great number of busy cursors takes several commits, and leaves none out."""
    count = BATCH_MAX + 3
    for number in range(count):
        bench.cursor(f"c{number:04}")
        bench.measuring.add(f"c{number:04}", Behind(Lag(messages=1)), is_partition=False)
    assert bench.measured() == count
    assert len(LagRecords(ow).list()) == count


def test_a_source_that_fails_stops_no_other(
    ow: Onceward, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, and the others are measured."""
    bench.cursor("a")
    bench.cursor("b")
    bench.measuring.add("a", Behind(RuntimeError("gone")), is_partition=False)
    bench.measuring.add("b", Behind(Lag(messages=2)), is_partition=False)
    bench.measured()
    bench.measured()
    assert list(LagRecords(ow).list()) == ["b"]
    assert caplog.text.count("lag measurement failed on a") == 1


def test_an_end_leaves_the_latest_truth(ow: Onceward, bench: Bench) -> None:
    """After a worker has run to the end of its work, its measures are there."""
    bench.cursor("p")
    bench.measuring.add("p", Behind(Lag(messages=0)), is_partition=True)
    with bench.measuring.running():
        bench.measuring.mark_active("p")
    assert LagRecords(ow).list()["p"].messages == 0


def test_measures_are_found_by_pattern(ow: Onceward, bench: Bench) -> None:
    """As cursors are."""
    for name in ("a_1", "a_2", "b_1"):
        bench.cursor(name)
        bench.measuring.add(name, Behind(Lag(messages=1)), is_partition=False)
    bench.measured()
    assert list(LagRecords(ow).list("a_*")) == ["a_1", "a_2"]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_restart_of_the_machine_does_not_make_measures_young(
    ow: Onceward, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite the seconds since boot start at zero again; wall time counts then."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    bench.cursor()
    source = Behind(Lag(messages=2, oldest_at=start))
    bench.measuring.add("c", source, is_partition=False)
    bench.measured(20)
    restarted = ManualClock(start + timedelta(seconds=520))
    restarted.reboot()
    monkeypatch.setattr(ow.store, "clock", restarted)
    measure = LagRecords(ow).list()["c"]
    assert measure.age_seconds == pytest.approx(500, abs=0.1)
    assert measure.lag_seconds == pytest.approx(520, abs=0.1)

"""Pruning: in bounded batches, and between any two of them other writers have their turn."""

from __future__ import annotations

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import InvalidArgument
from onceward.outcomes.models import PruneCounts
from onceward.stores.batched_deletes import BATCH_ROWS, BATCH_ROWS_MAX, PAUSE_SECONDS_MIN
from onceward.system import ManualClock
from onceward.workers.pruning import BATCHES_MAX, PRUNE_SECONDS, Pruner
from tests.support.long_history import write_history


class Pauses(ManualClock):
    """A clock in whose pauses another handle of the store writes."""

    def __init__(self, other: Onceward, log: list[str]) -> None:
        super().__init__()
        self._other = other
        self._log = log

    def sleep(self, seconds: float) -> None:
        assert seconds >= PAUSE_SECONDS_MIN
        with self._other.transaction(immediate=True) as tx:
            tx.execute("insert into written (id) values (?)", [len(self._log)])
        self._log.append("write")


@pytest.fixture
def log(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written, in order, by whom."""
    with ow.transaction() as tx:
        tx.execute("create table written (id integer)")
    found: list[str] = []
    for name in ("run_in_own_transaction", "write_query"):
        original = getattr(ow.store, name)

        def noted(*words: object, original: object = original, **params: object) -> object:
            assert callable(original)
            rows = original(*words, **params)
            found.append(f"batch of {len(rows)}")
            return rows

        monkeypatch.setattr(ow.store, name, noted)
    return found


def test_another_writer_gets_the_lock_between_any_two_batches(
    ow: Onceward, ow_url: str, log: list[str]
) -> None:
    """Whatever is pruned, no two commits follow each other: the lock is free in between."""
    write_history(ow, 1, 30)
    expire(ow)
    with open_handle(ow_url) as other:
        pruned = ow.outcomes.prune(batch=3, clock=Pauses(other, log))
    assert pruned == PruneCounts(expired=10, removed=0)
    batches = ["batch of 3"] * 3 + ["batch of 1"]
    assert log == ["batch of 0", *(each for batch in batches for each in (batch, "write"))][:-1]
    with ow.transaction() as tx:
        assert tx.execute("select count(*) from written") == [(3,)]


def test_workers_prune_in_bounded_batches_with_pauses(
    ow: Onceward, ow_url: str, log: list[str]
) -> None:
    """What one look removes is bounded, and other writers pass between its commits."""
    with ow.transaction() as tx:
        tx.execute(_workers(ow), {"last": (BATCHES_MAX + 1) * BATCH_ROWS})
    with open_handle(ow_url) as other:
        clock = Pauses(other, log)
        pruning = Pruner(ow, clock=clock)
        clock.advance(seconds=2 * PRUNE_SECONDS)
        assert pruning.run_if_due() == BATCHES_MAX * BATCH_ROWS
    full = [number for number, each in enumerate(log) if each == f"batch of {BATCH_ROWS}"]
    assert len(full) == BATCHES_MAX
    assert all(log[number - 1] == "write" for number in full[1:])


@pytest.mark.parametrize("rows", [0, -1, BATCH_ROWS_MAX + 1])
def test_a_batch_has_a_size_that_others_can_wait_for(ow: Onceward, rows: int) -> None:
    """None, and one that would hold the lock for long, are refused, and nothing is pruned."""
    with pytest.raises(InvalidArgument, match=f"batch: must be from 1 to {BATCH_ROWS_MAX}"):
        ow.outcomes.prune(batch=rows)


def expire(ow: Onceward) -> None:
    """Let the results that live expire."""
    with ow.transaction() as tx:
        boot = ", until_boot = 'an earlier one'" if ow.store.engine == "sqlite" else ""
        tx.execute(
            "update onceward_outcomes set until_at = claimed_at" + boot + " where state = 'done' "
            "and until_at is not null"
        )


def _workers(ow: Onceward) -> str:
    """Return what writes many workers of long ago."""
    if ow.store.engine == "postgres":
        return (
            "insert into onceward_workers (worker, host, pid, started_at, seen_at, consumers, "
            "version) select 'w' || n, 'h', 1, now() - interval '9 days', "
            "now() - interval '9 days', '[]', '0' from generate_series(1, :last::int) as n"
        )
    return (
        "with recursive numbers (n) as (select 1 union all select n + 1 from numbers "
        "where n < :last) insert into onceward_workers (worker, host, pid, started_at, seen_at, "
        "seen_seconds, seen_boot, consumers, version) select 'w' || n, 'h', 1, "
        "'2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z', 0, 'b', '[]', '0' from numbers"
    )

"""More lock races: consoles, groups, memories and pruners that come to one row at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console import actions, cursor_actions
from onceward.console.cursor_views import version_of
from onceward.cursors import DualBatch, Lease
from onceward.cursors.dual import DualCursor
from onceward.cursors.dual_models import EndedBatch
from onceward.errors import (
    Conflict,
    LeaseLost,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    Superseded,
)
from onceward.memory import models
from onceward.memory.graph.graph_transaction import GraphTransaction
from onceward.memory.models import ChangeId, Link, NewEntity, Removal
from onceward.outcomes import OutcomeState, PruneCounts
from onceward.stores import Transaction
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_lock_races import FACT, HUB, with_a_hub
from tests.support.console_over_store import context_of
from tests.support.counted_charges import DAY, granted
from tests.support.lock_contention import (
    WAIT_SECONDS_MAX,
    Halt,
    postgres_only,
    run_contending,
    settled,
    wait_until_blocked,
)
from tests.support.waiting import until

pytestmark = postgres_only


def acquired(ow: Onceward, worker: str = "w") -> Lease:
    lease = ow.cursors.acquire("c", worker)
    assert lease is not None
    return lease


# --- cursors -------------------------------------------------------------------------------------


def test_of_two_operators_who_saw_the_same_cursor_one_acts(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second operator waits for the first, and gets a conflict."""
    acquired(ow).release()
    context = context_of(ow)
    seen, halt, check = version_of(ow, "c"), Halt(), actions.check_seen
    assert seen is not None

    def halting(what: str, then: str | None, now: str) -> None:
        check(what, then, now)
        if not halt.reached.is_set():
            halt()

    def press() -> None:
        work = cursor_actions.paused(context, "c", "why", seen, is_pause=True)
        with ow.transaction() as tx:
            work(tx)

    monkeypatch.setattr(cursor_actions, "check_seen", halting)
    first, second = run_contending(ow, halt, press, press)
    first.result()
    with pytest.raises(Conflict):
        second.result()


def guards(lease: Lease, tx: Transaction) -> None:
    lease.guard(tx)


def checkpoints(lease: Lease, tx: Transaction) -> None:
    # At once; the commit that is sent after it is what does not come any more.
    tx.query("cursor_checkpoint", **lease.fence, position="9", count=1, seconds=60.0)


@pytest.mark.parametrize("work", [guards, checkpoints])
def test_a_move_does_not_wait_for_a_worker_that_is_frozen(
    ow: Onceward, work: Callable[[Lease, Transaction], None]
) -> None:
    """Its transaction is found and ended, whatever it did last; nothing of it lands."""
    lease = acquired(ow)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises((StoreUnavailable, OutcomeUnknown)), ow.transaction() as tx:
            work(lease, tx)
            pool.submit(ow.cursors.seek, "c", "5", "why", "ana").result(WAIT_SECONDS_MAX)
        assert ow.cursors.show("c").position == "5"


def test_after_ending_a_frozen_worker_the_lock_is_followed_by_another_look(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """Another worker may have taken over meanwhile: two would hold the cursor."""
    assert isinstance(ow.store, PostgresStore)
    acquired(ow, "frozen")
    ow_time.advance(seconds=3600)
    with (
        ThreadPoolExecutor(1) as pool,
        ow.store.connection() as frozen,
        ow.store.connection() as other,
        ow.store.connection() as looking,
    ):
        frozen.execute("begin")
        frozen.execute("select onceward_cursor_guard('c', 'frozen', 1)")
        other.execute("begin")
        other.execute(
            "update cursor_positions set lease_owner = 'other', lease_epoch = lease_epoch + 1,"
            " lease_expires_at = onceward_now() + interval '1 hour' where cursor_name = 'c'"
        )
        taking_over = pool.submit(ow.cursors.acquire, "c", "late")
        alive = "select 1 from pg_stat_activity where pid = %s"
        pid = frozen.info.backend_pid
        until(lambda: not looking.execute(alive, [pid]).fetchall(), "it was not ended")
        settled(ow, taking_over)
        other.execute("commit")
        with suppress(StoreBusy):  # It gives up after a second, on a machine that is very slow.
            assert taking_over.result(WAIT_SECONDS_MAX) is None
    assert ow.cursors.show("c").lease_owner == "other"


def test_a_replaced_worker_cannot_begin_work_during_the_takeover(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """The takeover could not find what it began then, and would wait for its locks."""
    lease = acquired(ow, "old")
    ow_time.advance(seconds=3600)

    def begin() -> None:
        with ow.transaction() as tx:
            lease.mark(tx)
            tx.execute("select 1")

    with ThreadPoolExecutor(1) as pool:
        with ow.transaction() as tx:
            assert tx.query("cursor_acquire", name="c", worker="new", seconds=60.0, version=1)
            late = pool.submit(begin)
            wait_until_blocked(ow, late)
        with pytest.raises(LeaseLost):
            late.result(WAIT_SECONDS_MAX)


def begun(ow: Onceward) -> tuple[DualCursor, DualBatch]:
    dual = ow.dual("chat")
    with ow.transaction() as tx:
        dual.next_sequence(tx, "team")
    dual.advance_global(1)
    return dual, dual.advance_group("team", 1)


@contextmanager
def undoing(
    ow: Onceward, dual: DualCursor, batch: DualBatch, first: Callable[[DualBatch], object]
) -> Iterator[Future[EndedBatch]]:
    """Roll back what a transaction deals with, which waits for it; the block is inside of that."""
    with ThreadPoolExecutor(1) as pool, ow.transaction():
        first(batch)
        undone = pool.submit(dual.rollback_group, batch)
        wait_until_blocked(ow, undone)
        yield undone


def test_work_on_a_group_ends_once(ow: Onceward) -> None:
    """A rollback of what another commits waits, and is refused: its messages are not repeated."""
    dual, batch = begun(ow)
    with undoing(ow, dual, batch, dual.commit_group) as undone:
        pass
    with pytest.raises(Superseded):
        undone.result()
    (pending,) = dual.pending("team")
    assert (pending.after, pending.batch) == (1, None)


def test_work_is_not_ended_between_its_check_and_the_commit(ow: Onceward) -> None:
    """What is said there is said by an agent that has the messages, and by no other."""
    dual, batch = begun(ow)
    with undoing(ow, dual, batch, dual.check) as undone:
        assert dual.in_flight() == [batch]
    assert undone.result().position == 0
    assert dual.in_flight() == []


# --- memory --------------------------------------------------------------------------------------


def last_change(ow: Onceward) -> ChangeId:
    with ow.transaction() as tx:
        ((number,),) = tx.execute("select max(id) from memory_changes")
    return ChangeId(number)


def halt_after_hold(monkeypatch: pytest.MonkeyPatch, change: ChangeId) -> Halt:
    """Let who restores this change stand still once it holds what it touches."""
    halt, query = Halt(), GraphTransaction.query

    def halting(tx: GraphTransaction, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        rows = query(tx, name, **params)
        if name == "memory_entity_hold" and params["change"] == change:
            halt()
        return rows

    monkeypatch.setattr(GraphTransaction, "query", halting)
    return halt


def test_an_entity_is_deleted_only_after_its_fact_is_restored(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fact that came back in between would outlive its entity."""
    graph = with_a_hub(ow)
    graph.write(FACT)
    graph.remove(Removal(observations=FACT.observations))
    change = last_change(ow)
    halt = halt_after_hold(monkeypatch, change)
    restored, removed = run_contending(
        ow, halt, lambda: graph.restore(change=change), lambda: graph.remove(HUB)
    )
    restored.result()
    assert removed.result().observations == 1
    assert graph.problems() == []


def test_a_restored_relation_checks_ends_that_were_not_locked(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It became ours to restore while we waited; the end that we did not hold is being deleted."""
    graph = with_a_hub(ow)
    rim = NewEntity(name="rim", entity_type="thing", observations=())
    link = Link(from_name="hub", to_name="rim", relation_type="has")
    graph.write(models.WriteBatch(entities=(rim,), relations=(link,)))
    graph.remove(HUB)
    of_hub = last_change(ow)
    graph.remove(Removal(entities=("rim",)))
    of_rim = last_change(ow)
    halt = halt_after_hold(monkeypatch, of_rim)
    with ThreadPoolExecutor(1) as pool:
        with ow.transaction():
            graph.restore(change=of_hub)
            restored = pool.submit(graph.restore, change=of_rim)
            wait_until_blocked(ow, restored)
        halt.wait()
        with ow.transaction():
            graph.remove(HUB)
            halt.go_on.set()
            wait_until_blocked(ow, restored)
        restored.result(WAIT_SECONDS_MAX)
    assert graph.problems() == []


# --- pruning -------------------------------------------------------------------------------------


def test_a_key_that_is_claimed_again_is_not_pruned(ow: Onceward, ow_time: MovingTime) -> None:
    """Its tombstone had expired; now a worker holds the key."""
    ow.outcomes.finish(granted(ow), b"1", ttl_seconds=1)
    ow_time.advance(seconds=31 * DAY)
    claim = {"fingerprint": "f", "owner": "w2", "on_crash": "rerun", "lease_seconds": 60.0}
    with ThreadPoolExecutor(1) as pool:
        with ow.transaction() as tx:
            assert tx.query("outcome_claim", scope="shop.charge", key="k", **claim)
            pruned = pool.submit(ow.outcomes.prune)
            settled(ow, pruned)
        assert pruned.result(WAIT_SECONDS_MAX) == PruneCounts(expired=0, removed=0)
    found = ow.outcomes.show("shop.charge", "k")
    assert found is not None
    assert found.state is OutcomeState.RUNNING


def test_a_key_that_is_forgotten_does_not_expire(ow: Onceward, ow_time: MovingTime) -> None:
    """An operator freed it at that moment: it can be run again, and is no tombstone."""
    ow.outcomes.finish(granted(ow), b"1", ttl_seconds=1)
    ow_time.advance(seconds=2)
    place = {"scope": "shop.charge", "key": "k", "fence": None, "updated_at": None}
    with ThreadPoolExecutor(1) as pool:
        with ow.transaction() as tx:
            assert tx.query("outcome_forget", **place, note="{}")
            pruned = pool.submit(ow.outcomes.prune)
            settled(ow, pruned)
        assert pruned.result(WAIT_SECONDS_MAX) == PruneCounts(expired=0, removed=0)
    granted(ow)


OLD, AHEAD = (f"onceward_now() {sign} interval '30 days'" for sign in "-+")
GRANTS = "onceward_grants (cursor_name, epoch, worker, granted_at, ended_at)"
REFUSALS = "onceward_rejected_writes (cursor_name, happened_at, worker, epoch, what)"
SAMPLES = "onceward_samples (cursor_name, taken_at, processed_count)"
WORKERS = "onceward_workers (worker, host, pid, started_at, seen_at, consumers, version)"
#: By statement: a row that it removes, and its parameters.
PRUNED: dict[str, tuple[str, dict[str, float]]] = {
    "grant_prune": (f"{GRANTS} values ('c', 1, 'w', {OLD}, {OLD})", {"most": 100}),
    "rejected_write_prune": (f"{REFUSALS} values ('c', {OLD}, 'w', 1, 'renew')", {"most": 100}),
    "sample_prune": (f"{SAMPLES} values ('c', {OLD}, 1)", {"ahead": DAY}),
    "sample_prune ahead": (f"{SAMPLES} values ('c', {AHEAD}, 1)", {"ahead": DAY}),
    "worker_prune": (f"{WORKERS} values ('w', 'h', 1, {OLD}, {OLD}, '[]', '0')", {}),
}


@pytest.mark.parametrize("what", PRUNED)
def test_concurrent_prunes_do_not_wait(ow: Onceward, what: str) -> None:
    """Many processes prune one store; a second one leaves to the first what that is at."""
    row, more = PRUNED[what]
    name, params = what.partition(" ")[0], {**more, "seconds": DAY, "limit": 10}
    with ow.transaction() as tx:
        tx.execute(f"insert into {row}")
    with ThreadPoolExecutor(1) as pool, ow.transaction() as tx:
        assert tx.query(name, **params) == [(1,)]
        second = pool.submit(ow.store.write_query, name, **params)
        assert settled(ow, second), "it waits"
        assert second.result(WAIT_SECONDS_MAX) == []

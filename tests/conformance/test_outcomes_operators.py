"""Outcomes in the hands of operators and of time: verdicts, forgetting, expiry, pruning."""

from collections.abc import Callable
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import Conflict, FenceLost, InvalidArgument, KeyInFlight, NotReconcilable
from onceward.outcomes import Ambiguous, Expired, PruneCounts, Replay
from onceward.stores import Transaction
from onceward.system import ManualClock
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import DAY, claim, granted


def test_an_expired_key_is_rejected_for_thirty_days(ow: Onceward, ow_time: MovingTime) -> None:
    """After its ttl the result is gone, the key is not; after the tombstone it is new."""
    first = granted(ow)
    ow.outcomes.finish(first, b"1", ttl_seconds=100)
    ow_time.advance(seconds=99)
    assert claim(ow) == Replay(b"1")
    ow_time.advance(seconds=1)
    assert isinstance(claim(ow), Expired)
    assert isinstance(claim(ow, fingerprint="other"), Expired)
    ow_time.advance(seconds=30 * DAY - 10)
    assert isinstance(claim(ow), Expired)
    ow_time.advance(seconds=10)
    assert granted(ow, fingerprint="other").number == first.number + 1


def test_pruning_goes_in_small_batches(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results go first, tombstones thirty days later; what has no ttl stays for ever."""
    for number in range(7):
        ow.outcomes.finish(granted(ow, f"old{number}"), b"1", ttl_seconds=10)
    ow.outcomes.fail(granted(ow, "failed"), ValueError("x"), retryable=False, ttl_seconds=10)
    ow.outcomes.fail(granted(ow, "free"), ValueError("x"), retryable=True)
    ow.outcomes.finish(granted(ow, "kept"), b"1")
    granted(ow, "silent", lease_seconds=5)
    ow_time.advance(seconds=11)
    commits: list[object] = []
    run_in_own_transaction = ow.store.run_in_own_transaction

    def counted(operation: Callable[[Transaction], Any]) -> Any:
        commits.append(operation)
        return run_in_own_transaction(operation)

    monkeypatch.setattr(ow.store, "run_in_own_transaction", counted)
    assert ow.outcomes.prunable() == PruneCounts(expired=8, removed=0)
    assert commits == []
    first = ow.outcomes.prune(batch=3)
    assert (first.expired, first.removed) == (8, 0)
    assert len(commits) == 1 + 3
    assert isinstance(claim(ow, "old3"), Expired)
    found = ow.outcomes.show("shop.charge", "old3")
    assert found is not None
    assert found.result is None
    ow_time.advance(seconds=30 * DAY)
    assert ow.outcomes.prunable() == PruneCounts(expired=0, removed=9)
    second = ow.outcomes.prune(batch=3)
    assert (second.expired, second.removed) == (0, 9)
    assert {each.key for each in ow.outcomes.list()} == {"kept", "silent"}
    assert ow.outcomes.prune().removed == 0
    granted(ow, "old3", fingerprint="changed")


def test_a_stale_fence_is_rejected_for_a_key_created_again(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """A pruned key starts at fence 1 again, and an old fence 1 is still not the new one."""
    old = granted(ow, on_crash="rerun")
    ow_time.advance(seconds=61)
    ow.outcomes.finish(granted(ow, owner="w2"), b"1", ttl_seconds=1)
    ow_time.advance(seconds=31 * DAY)
    assert ow.outcomes.prune().removed == 1
    new = granted(ow)
    assert (new.number, new.owner) == (old.number, old.owner)
    with pytest.raises(FenceLost):
        ow.outcomes.finish(old, b'"old"')
    ow.outcomes.finish(new, b"2")


def test_a_verdict_of_done_is_the_result(ow: Onceward, ow_time: MovingTime) -> None:
    """Reconciled work replays what was said, with a note; the old holder is refused."""
    fence = granted(ow)
    ow_time.advance(seconds=61)
    words: dict[str, Any] = {"actor": "ann", "reason": "found it in the bank's list"}
    ow.outcomes.reconcile("shop.charge", "k", done={"id": 7}, **words)
    assert claim(ow, owner="w2") == Replay(b'{"id":7}')
    found = ow.outcomes.show("shop.charge", "k")
    assert found is not None
    assert "bank's list" in (found.note or "")
    assert found.fence == fence.number + 1
    with pytest.raises(FenceLost):
        ow.outcomes.finish(fence, b"1")
    with pytest.raises(NotReconcilable):
        ow.outcomes.reconcile("shop.charge", "k", done=1, **words)


def test_a_verdict_of_not_done_lets_it_run_again(ow: Onceward, ow_time: MovingTime) -> None:
    """It is granted again under a higher fence, and the old holder is refused."""
    fence = granted(ow)
    ow_time.advance(seconds=61)
    ow.outcomes.reconcile("shop.charge", "k", not_done=True, actor="ann", reason="no trace")
    with pytest.raises(FenceLost):
        ow.outcomes.finish(fence, b"1")
    assert granted(ow, owner="w2").number > fence.number


def test_a_running_call_cannot_be_reconciled(ow: Onceward, ow_time: MovingTime) -> None:
    """A live claim, an unknown key and a later claim are not reconciled."""
    words: dict[str, Any] = {"actor": "ann", "reason": "guess"}
    with pytest.raises(NotReconcilable):
        ow.outcomes.reconcile("shop.charge", "k", done=1, **words)
    fence = granted(ow)
    with pytest.raises(NotReconcilable):
        ow.outcomes.reconcile("shop.charge", "k", done=1, **words)
    ow_time.advance(seconds=61)
    with pytest.raises(NotReconcilable):
        ow.outcomes.reconcile("shop.charge", "k", done=1, fence=fence.number + 1, **words)
    for said in ({}, {"done": 1, "not_done": True}):
        with pytest.raises(InvalidArgument):
            ow.outcomes.reconcile("shop.charge", "k", **{**said, **words})
    with pytest.raises(InvalidArgument, match="reason"):
        ow.outcomes.reconcile("shop.charge", "k", done=1, actor="ann", reason=" ")
    ow.outcomes.reconcile("shop.charge", "k", done=1, fence=fence.number, **words)


def test_a_forgotten_key_is_free_for_any_work(ow: Onceward) -> None:
    """Result and fingerprint are erased, the fence stays; a live claim is not forgotten."""
    fence = granted(ow)
    with pytest.raises(KeyInFlight):
        ow.outcomes.forget("shop.charge", "k", actor="ann", reason="wrong")
    ow.outcomes.finish(fence, b'"secret"')
    assert ow.outcomes.forget("shop.charge", "k", actor="ann", reason="wrong")
    assert not ow.outcomes.forget("shop.charge", "other", actor="ann", reason="wrong")
    found = ow.outcomes.show("shop.charge", "k")
    assert found is not None
    assert (found.result, found.fingerprint) == (None, None)
    assert granted(ow, fingerprint="other").number > fence.number


def test_a_changed_outcome_is_not_forgotten(ow: Onceward) -> None:
    """Run again within the same instant, it is another outcome, and stays."""
    words: dict[str, Any] = {"actor": "ann", "reason": "wrong"}
    ow.outcomes.finish(granted(ow), b"1")
    seen = ow.outcomes.show("shop.charge", "k")
    ow.outcomes.forget("shop.charge", "k", **words)
    ow.outcomes.finish(granted(ow), b"2")
    with pytest.raises(Conflict, match="changed since"):
        ow.outcomes.forget("shop.charge", "k", **words, seen=seen)
    found = ow.outcomes.show("shop.charge", "k")
    assert found is not None
    assert found.result == b"2"
    assert ow.outcomes.forget("shop.charge", "k", **words, seen=found)


def test_another_boot_ends_leases_but_not_lives(ow: Onceward, ow_time: MovingTime) -> None:
    """On SQLite a restart of the machine ends every claim; results live on by the wall's time."""
    clock = getattr(ow.store, "clock", None)
    ow.outcomes.finish(granted(ow, "done"), b"1", ttl_seconds=100)
    granted(ow, "running")
    if isinstance(clock, ManualClock):
        clock.reboot()
        assert isinstance(claim(ow, "running", owner="w2"), Ambiguous)
    assert ow.outcomes.prune() == PruneCounts(expired=0, removed=0)
    assert claim(ow, "done") == Replay(b"1")
    ow_time.advance(seconds=101)
    assert isinstance(claim(ow, "done"), Expired)
    assert ow.outcomes.prune() == PruneCounts(expired=1, removed=0)
    assert isinstance(claim(ow, "done"), Expired)
    ow_time.advance(seconds=30 * DAY)
    if isinstance(clock, ManualClock):
        clock.reboot()
    assert ow.outcomes.prune().removed == 1
    granted(ow, "done", fingerprint="changed")


def test_listing_filters_and_limits(ow: Onceward, ow_time: MovingTime) -> None:
    """Latest change first; by state, by scope, and no more than asked for."""
    for number in range(3):
        ow.outcomes.finish(granted(ow, f"k{number}"), b"1")
        ow_time.advance(seconds=1)
    ow.outcomes.claim("other", "k", fingerprint="f", owner="w1")
    assert [each.key for each in ow.outcomes.list(state="done")] == ["k2", "k1", "k0"]
    assert [each.scope for each in ow.outcomes.list(limit=2)] == ["other", "shop.charge"]
    assert len(ow.outcomes.list(scope="shop.charge")) == 3
    with pytest.raises(InvalidArgument, match="there is no state 'lost'"):
        ow.outcomes.list(state="lost")
    with pytest.raises(InvalidArgument, match="limit"):
        ow.outcomes.list(limit=0)

"""Outcomes: claim, finish, replay; the same on SQLite and PostgreSQL."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward.errors import (
    FenceLost,
    InvalidArgument,
    InvalidJson,
    KeyInFlight,
    NotReconcilable,
    WriterHeld,
)
from onceward.handle import Onceward
from onceward.outcomes import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    Failure,
    Fence,
    Fresh,
    InFlight,
    Mismatch,
    OutcomeState,
    Pruned,
    Replay,
)
from onceward.outcomes.claims import Wanted
from onceward.seams import ManualClock
from onceward.stores import Transaction
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.moving_time import MovingTime

DAY = 86_400.0


def claim(ow: Onceward, key: str = "k", **changed: Any) -> Claim:
    asked = {"fingerprint": "f", "owner": "w1", **changed}
    return ow.outcomes.claim("shop.charge", key, **asked)


def granted(ow: Onceward, key: str = "k", **changed: Any) -> Fence:
    answer = claim(ow, key, **changed)
    assert isinstance(answer, Fresh), answer
    return answer.fence


def state(ow: Onceward, key: str = "k") -> OutcomeState:
    found = ow.outcomes.show("shop.charge", key)
    assert found is not None
    return found.state


def test_a_result_is_replayed_byte_for_byte(ow: Onceward) -> None:
    """Whoever claims finished work gets the bytes that were recorded, spaces, order and all."""
    result = '{"b": 1.50,  "a":"ü\\u0000\\n", "c":[]}'.encode()
    ow.outcomes.finish(granted(ow), result)
    assert claim(ow, owner="w2") == Replay(result)
    assert state(ow) is OutcomeState.DONE


def test_a_replay_writes_nothing(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished, failed, running and ambiguous keys are answered from a read."""
    ow.outcomes.finish(granted(ow, "done"), b"1")
    ow.outcomes.fail(granted(ow, "failed"), ValueError("no"), retryable=False)
    ow.outcomes.doubt(granted(ow, "doubt"), ValueError("who knows"))
    granted(ow, "running")

    def refuse(*_: object) -> None:
        pytest.fail("this writes")

    monkeypatch.setattr(ow.store, "write_apart", refuse)
    monkeypatch.setattr(ow.store, "write", refuse)
    answers = [claim(ow, key, owner="w2") for key in ("done", "failed", "doubt", "running")]
    assert [type(answer) for answer in answers] == [Replay, Failed, Ambiguous, InFlight]


def test_other_work_under_the_same_key_is_a_mismatch(ow: Onceward) -> None:
    """The first fingerprint wins, whatever state the work is in."""
    fence = granted(ow)
    assert claim(ow, fingerprint="g", owner="w2") == Mismatch("f")
    assert claim(ow, fingerprint="g") == Mismatch("f")
    ow.outcomes.fail(fence, ValueError("later"), retryable=True)
    assert claim(ow, fingerprint="g") == Mismatch("f")
    ow.outcomes.finish(granted(ow), b"1")
    assert claim(ow, fingerprint="g") == Mismatch("f")


def test_keys_of_different_scopes_are_different(ow: Onceward) -> None:
    """A key means something only inside its scope; neither can be cut differently."""
    for scope, key in [("a", "bc"), ("ab", "c"), ("a", "b"), ("a", "B")]:
        answer = ow.outcomes.claim(scope, key, fingerprint="f", owner="w1")
        assert isinstance(answer, Fresh), (scope, key)


def test_a_claim_in_flight_says_until_when(ow: Onceward, ow_time: MovingTime) -> None:
    """A second caller learns how long the first one's lease lasts."""
    granted(ow, lease_seconds=30)
    ow_time.advance(seconds=10)
    answer = claim(ow, owner="w2")
    assert isinstance(answer, InFlight)
    assert 15 < answer.seconds_left <= 20
    assert answer.until.endswith("Z")


def test_the_same_owner_is_granted_again(ow: Onceward) -> None:
    """Whoever lost the answer to its claim asks again; only the newest fence counts."""
    first = granted(ow)
    second = granted(ow)
    assert second.number == first.number + 1
    with pytest.raises(FenceLost):
        ow.outcomes.finish(first, b"1")
    ow.outcomes.finish(second, b"2")
    assert claim(ow) == Replay(b"2")


def test_a_fence_counts_even_when_time_stands_still(ow: Onceward) -> None:
    """Two grants to one owner at the same moment differ by their numbers alone."""
    if isinstance(ow.store, PostgresStore):
        with ow.store.connection() as connection:
            sql = "create or replace function onceward_now() returns timestamptz language sql as "
            connection.execute(sql + "$$ select timestamptz '2026-01-01 00:00:00+00' $$")
    first, second = granted(ow), granted(ow)
    assert first.granted_at == second.granted_at
    for call in (ow.outcomes.renew, lambda fence: ow.outcomes.finish(fence, b"1")):
        with pytest.raises(FenceLost):
            call(first)
        call(second)


def test_the_insert_alone_decides(ow: Onceward, ow_time: MovingTime) -> None:
    """Whoever looked too early is refused by the statement itself, whatever happened since."""
    ow.outcomes.finish(granted(ow, "done"), b"1")
    ow.outcomes.finish(granted(ow, "expired"), b"1", ttl_seconds=10)
    ow.outcomes.fail(granted(ow, "failed"), ValueError("no"), retryable=False)
    ow.outcomes.fail(granted(ow, "free"), ValueError("no"), retryable=True)
    ow.outcomes.doubt(granted(ow, "doubt"), ValueError("who knows"))
    granted(ow, "silent")
    granted(ow, "abandoned", on_crash="rerun")
    ow_time.advance(seconds=61)
    granted(ow, "running")

    def insert(key: str, fingerprint: str = "f", owner: str = "w2") -> bool:
        wanted = Wanted("shop.charge", key, fingerprint, owner)
        return ow.outcomes.grant(wanted, 60.0, "ambiguous") is not None

    for key in ("done", "expired", "failed", "doubt", "silent", "running"):
        assert not insert(key), key
    assert not insert("silent", owner="w1")
    for key in ("free", "abandoned"):
        assert not insert(key, fingerprint="g"), key
        assert insert(key), key
    assert insert("running", owner="w1")
    assert insert("new")


def test_silence_after_the_lease_is_ambiguous(ow: Onceward, ow_time: MovingTime) -> None:
    """Work that may have happened is not granted again, not even to its owner, and is listed."""
    granted(ow, lease_seconds=30)
    ow_time.advance(seconds=31)
    for owner in ("w1", "w2"):
        answer = claim(ow, owner=owner)
        assert isinstance(answer, Ambiguous)
        assert (answer.owner, answer.fence) == ("w1", 1)
    assert [each.key for each in ow.outcomes.list(state="ambiguous")] == ["k"]
    assert ow.outcomes.list(state="running") == []


def test_a_holder_that_comes_back_may_say_how_it_ended(ow: Onceward, ow_time: MovingTime) -> None:
    """Late is better than never, as long as nobody has decided for it."""
    fence = granted(ow, lease_seconds=30)
    ow_time.advance(seconds=31)
    assert isinstance(claim(ow, owner="w2"), Ambiguous)
    ow.outcomes.finish(fence, b'"late"')
    assert claim(ow, owner="w2") == Replay(b'"late"')


def test_work_declared_harmless_to_repeat_is_taken_over(ow: Onceward, ow_time: MovingTime) -> None:
    """After the lease the next caller is granted it, and the old holder is refused everything."""
    old = granted(ow, lease_seconds=30, on_crash="rerun")
    ow_time.advance(seconds=31)
    assert state(ow) is OutcomeState.ABANDONED
    new = granted(ow, owner="w2", on_crash="rerun")
    assert new.number == old.number + 1
    refused: list[Callable[[], None]] = [
        lambda: ow.outcomes.renew(old),
        lambda: ow.outcomes.finish(old, b"1"),
        lambda: ow.outcomes.fail(old, ValueError("x"), retryable=False),
        lambda: ow.outcomes.fail(old, ValueError("x"), retryable=True),
        lambda: ow.outcomes.doubt(old, ValueError("x")),
    ]
    for call in refused:
        with pytest.raises(FenceLost):
            call()
    assert state(ow) is OutcomeState.RUNNING
    ow.outcomes.finish(new, b"2")
    for call in refused:
        with pytest.raises(FenceLost):
            call()
    assert claim(ow) == Replay(b"2")


def test_a_renewed_claim_stays(ow: Onceward, ow_time: MovingTime) -> None:
    """Renewing counts from now, not from the claim."""
    fence = granted(ow, lease_seconds=30)
    ow_time.advance(seconds=25)
    ow.outcomes.renew(fence, lease_seconds=30)
    ow_time.advance(seconds=25)
    assert isinstance(claim(ow, owner="w2"), InFlight)
    ow_time.advance(seconds=6)
    assert isinstance(claim(ow, owner="w2"), Ambiguous)


def test_a_retryable_failure_frees_the_key(ow: Onceward) -> None:
    """The next caller is granted it, under a higher fence."""
    fence = granted(ow)
    ow.outcomes.fail(fence, ValueError("busy"), retryable=True)
    assert state(ow) is OutcomeState.FREE
    assert granted(ow, owner="w2").number == fence.number + 1


def test_any_other_failure_is_recorded(ow: Onceward) -> None:
    """Its class, message and data come back for every later caller."""

    class Declined(Exception):
        data = ("code", 51)

    ow.outcomes.fail(granted(ow), Declined("no funds"), retryable=False)
    name = f"{__name__}.{Declined.__qualname__}"
    failure = Failure(type=name, message="no funds", data=["code", 51])
    assert claim(ow, owner="w2") == Failed(failure)
    with pytest.raises(FenceLost):
        ow.outcomes.finish(Fence(**_fence_of(ow)), b"1")


def _fence_of(ow: Onceward) -> dict[str, Any]:
    found = ow.outcomes.show("shop.charge", "k")
    assert found is not None
    return {
        "scope": found.scope,
        "key": found.key,
        "fingerprint": "f",
        "number": found.fence,
        "owner": found.owner,
        "granted_at": found.claimed_at,
    }


def test_a_holder_may_repeat_itself(ow: Onceward) -> None:
    """Finishing again with the same result is fine, as its first answer may have been lost."""
    fence = granted(ow)
    ow.outcomes.finish(fence, b"1")
    ow.outcomes.finish(fence, b"1")
    with pytest.raises(FenceLost):
        ow.outcomes.finish(fence, b"2")
    with pytest.raises(FenceLost):
        ow.outcomes.renew(fence)


def test_an_expired_key_is_refused_for_thirty_days(ow: Onceward, ow_time: MovingTime) -> None:
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
    write_apart = ow.store.write_apart

    def counted(operation: Callable[[Transaction], Any]) -> Any:
        commits.append(operation)
        return write_apart(operation)

    monkeypatch.setattr(ow.store, "write_apart", counted)
    assert ow.outcomes.prunable() == Pruned(expired=8, removed=0)
    assert commits == []
    first = ow.outcomes.prune(batch=3)
    assert (first.expired, first.removed) == (8, 0)
    assert len(commits) == 1 + 3
    assert isinstance(claim(ow, "old3"), Expired)
    found = ow.outcomes.show("shop.charge", "old3")
    assert found is not None
    assert found.result is None
    ow_time.advance(seconds=30 * DAY)
    assert ow.outcomes.prunable() == Pruned(expired=0, removed=9)
    second = ow.outcomes.prune(batch=3)
    assert (second.expired, second.removed) == (0, 9)
    assert {each.key for each in ow.outcomes.list()} == {"kept", "silent"}
    assert ow.outcomes.prune().removed == 0
    granted(ow, "old3", fingerprint="anew")


def test_a_stale_fence_is_void_for_a_key_made_anew(ow: Onceward, ow_time: MovingTime) -> None:
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
    with pytest.raises(FenceLost):
        ow.outcomes.finish(fence, b"1")
    with pytest.raises(NotReconcilable):
        ow.outcomes.reconcile("shop.charge", "k", done=1, **words)


def test_a_verdict_of_not_done_lets_it_run_again(ow: Onceward, ow_time: MovingTime) -> None:
    """It is granted anew under a higher fence, and the old holder is refused."""
    fence = granted(ow)
    ow_time.advance(seconds=61)
    ow.outcomes.reconcile("shop.charge", "k", not_done=True, actor="ann", reason="no trace")
    with pytest.raises(FenceLost):
        ow.outcomes.finish(fence, b"1")
    assert granted(ow, owner="w2").number > fence.number


def test_nobody_decides_about_work_in_progress(ow: Onceward, ow_time: MovingTime) -> None:
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


def test_only_one_of_many_claimers_is_granted(ow: Onceward) -> None:
    """Sixteen threads claim one key at once; the others are told that it is in flight."""
    answers: list[Claim] = []
    barrier = threading.Barrier(16)

    def work(number: int) -> None:
        barrier.wait()
        answers.append(claim(ow, owner=f"w{number}"))

    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [type(answer) for answer in answers]
    assert kinds.count(Fresh) == 1
    assert kinds.count(InFlight) == 15


def test_a_claim_is_a_commit_of_its_own(ow: Onceward) -> None:
    """Rolling the caller's transaction back does not undo it; SQLite refuses a second writer."""
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key)")
    with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
        assert tx.execute("select count(*) from effects") == [(0,)]
        granted(ow)
        raise ZeroDivisionError
    assert state(ow) is OutcomeState.RUNNING
    with ow.transaction() as tx:
        tx.execute("insert into effects values (1)")
        if ow.store.engine == "sqlite":
            with pytest.raises(WriterHeld):
                claim(ow, "other")
        else:
            granted(ow, "other")


def test_another_boot_ends_leases_but_not_lives(ow: Onceward, ow_time: MovingTime) -> None:
    """On SQLite a restart of the machine ends every claim; results live on by the wall's time."""
    clock = getattr(ow.store, "clock", None)
    ow.outcomes.finish(granted(ow, "done"), b"1", ttl_seconds=100)
    granted(ow, "running")
    if isinstance(clock, ManualClock):
        clock.reboot()
        assert isinstance(claim(ow, "running", owner="w2"), Ambiguous)
    assert claim(ow, "done") == Replay(b"1")
    ow_time.advance(seconds=101)
    assert isinstance(claim(ow, "done"), Expired)
    ow_time.advance(seconds=30 * DAY)
    if isinstance(clock, ManualClock):
        clock.reboot()
    assert ow.outcomes.prune().removed == 1
    granted(ow, "done", fingerprint="anew")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"key": ""}, "key: must have 1 to"),
        ({"key": "x" * 1025}, "key: must have 1 to"),
        ({"key": "a\0b"}, "cannot be stored"),
        ({"key": "a\ud800"}, "cannot be stored"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": float("nan")}, "lease_seconds"),
        ({"lease_seconds": float("inf")}, "lease_seconds"),
    ],
)
def test_bad_arguments_are_named(ow: Onceward, changed: dict[str, Any], says: str) -> None:
    """What no store can hold is refused before anything is written."""
    with pytest.raises(InvalidArgument, match=says):
        claim(ow, **changed)
    assert ow.outcomes.list() == []


def test_only_json_is_a_result(ow: Onceward) -> None:
    """Bytes that are not JSON are refused, and the claim stays."""
    fence = granted(ow)
    for result in (b"", b"{", b"\xff", b"NaN"):
        with pytest.raises(InvalidJson):
            ow.outcomes.finish(fence, result)
    with pytest.raises(InvalidArgument, match="ttl_seconds"):
        ow.outcomes.finish(fence, b"1", ttl_seconds=0)
    ow.outcomes.finish(fence, b"1")


def test_listing_filters_and_limits(ow: Onceward, ow_time: MovingTime) -> None:
    """Latest change first; by state, by scope, and no more than asked for."""
    for number in range(3):
        ow.outcomes.finish(granted(ow, f"k{number}"), b"1")
        ow_time.advance(seconds=1)
    ow.outcomes.claim("other", "k", fingerprint="f", owner="w1")
    assert [each.key for each in ow.outcomes.list(state="done")] == ["k2", "k1", "k0"]
    assert [each.scope for each in ow.outcomes.list(limit=2)] == ["other", "shop.charge"]
    assert len(ow.outcomes.list(scope="shop.charge")) == 3
    with pytest.raises(InvalidArgument, match="no outcome is 'lost'"):
        ow.outcomes.list(state="lost")
    with pytest.raises(InvalidArgument, match="limit"):
        ow.outcomes.list(limit=0)

"""Outcomes: claim, finish, replay; the same on SQLite and PostgreSQL."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import (
    FenceLost,
    InvalidArgument,
    InvalidJson,
    WriterHeld,
)
from onceward.outcomes import (
    Ambiguous,
    Claim,
    Failed,
    Fence,
    Fresh,
    InFlight,
    Mismatch,
    OutcomeState,
    Replay,
    StoredFailure,
)
from onceward.outcomes.claims import ClaimRequest
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.moving_time import MovingTime
from tests.support.counted_charges import claim, granted


def state(ow: Onceward, key: str = "k") -> OutcomeState:
    found = ow.outcomes.show("shop.charge", key)
    assert found is not None
    return found.state


def test_a_result_is_replayed_byte_for_byte(ow: Onceward) -> None:
    """A claim of finished work gets the bytes that were recorded, spaces, order and all."""
    result = '{"b": 1.50,  "a":"ü\\u0000\\n", "c":[]}'.encode()
    ow.outcomes.finish(granted(ow), result)
    assert claim(ow, owner="w2") == Replay(result)
    assert state(ow) is OutcomeState.DONE


def test_a_replay_writes_nothing(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished, failed, running and ambiguous keys are answered from a read."""
    ow.outcomes.finish(granted(ow, "done"), b"1")
    ow.outcomes.fail(granted(ow, "failed"), ValueError("no"), retryable=False)
    ow.outcomes.mark_ambiguous(granted(ow, "ambiguous"), ValueError("who knows"))
    granted(ow, "running")

    def refuse(*_: object, **_named: object) -> None:
        pytest.fail("this writes")

    monkeypatch.setattr(ow.store, "run_in_own_transaction", refuse)
    monkeypatch.setattr(ow.store, "write_query", refuse)
    monkeypatch.setattr(ow.store, "write", refuse)
    answers = [claim(ow, key, owner="w2") for key in ("done", "failed", "ambiguous", "running")]
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
    """A caller that lost the answer to its claim asks again; only the newest fence counts."""
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
    """A claim after a stale read is refused by the statement itself, whatever happened since."""
    ow.outcomes.finish(granted(ow, "done"), b"1")
    ow.outcomes.finish(granted(ow, "expired"), b"1", ttl_seconds=10)
    ow.outcomes.fail(granted(ow, "failed"), ValueError("no"), retryable=False)
    ow.outcomes.fail(granted(ow, "free"), ValueError("no"), retryable=True)
    ow.outcomes.mark_ambiguous(granted(ow, "ambiguous"), ValueError("who knows"))
    granted(ow, "silent")
    granted(ow, "abandoned", on_crash="rerun")
    ow_time.advance(seconds=61)
    granted(ow, "running")

    def insert(key: str, fingerprint: str = "f", owner: str = "w2") -> bool:
        wanted = ClaimRequest("shop.charge", key, fingerprint, owner)
        return ow.outcomes.grant(wanted, 60.0, "ambiguous") is not None

    for key in ("done", "expired", "failed", "ambiguous", "silent", "running"):
        assert not insert(key), key
    assert not insert("silent", owner="w1")
    for key in ("free", "abandoned"):
        assert not insert(key, fingerprint="g"), key
        assert insert(key), key
    assert insert("running", owner="w1")
    assert insert("new")


def test_an_unreported_result_after_the_lease_is_ambiguous(
    ow: Onceward, ow_time: MovingTime
) -> None:
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
    """Late is better than never, as long as no operator has decided the key."""
    fence = granted(ow, lease_seconds=30)
    ow_time.advance(seconds=31)
    assert isinstance(claim(ow, owner="w2"), Ambiguous)
    ow.outcomes.finish(fence, b'"late"')
    assert claim(ow, owner="w2") == Replay(b'"late"')


def test_work_declared_idempotent_is_taken_over(ow: Onceward, ow_time: MovingTime) -> None:
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
        lambda: ow.outcomes.mark_ambiguous(old, ValueError("x")),
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
    failure = StoredFailure(type=name, message="no funds", data=["code", 51])
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


def test_only_one_of_many_claimers_is_granted(ow: Onceward) -> None:
    """Sixteen threads claim one key at once; the others learn that it is in flight."""
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


def test_bad_arguments_are_named(ow: Onceward) -> None:
    """What no store can hold is refused before anything is written."""
    cases: list[Any] = [
        ({"key": ""}, "key: must have 1 to"),
        ({"key": "x" * 1025}, "key: must have 1 to"),
        ({"key": "a\0b"}, "cannot be stored"),
        ({"key": "a\ud800"}, "cannot be stored"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": float("nan")}, "lease_seconds"),
        ({"lease_seconds": float("inf")}, "lease_seconds"),
    ]
    for changed, says in cases:
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

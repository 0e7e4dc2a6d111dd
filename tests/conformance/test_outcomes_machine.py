"""Outcomes against a model: any order of calls, by any fence that was ever granted."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
)

from onceward.client import Onceward
from onceward.errors import FenceLost, KeyInFlight, NotReconcilable
from onceward.outcomes import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    Fence,
    Fresh,
    InFlight,
    Mismatch,
    Replay,
    StoredFailure,
)
from onceward.testing.moving_time import MovingTime
from tests.support.proof_length import examples_for, run_machine

LEASE_SECONDS, TTL_SECONDS, TOMBSTONE_SECONDS = 60.0, 500.0, 30 * 86_400.0
#: No sum of these comes near an end: on PostgreSQL time runs on its own as well.
STEPS_SECONDS = (7.0, 70.0, 700.0, 31 * 86_400.0)
SCOPE = "machine"
WORDS: dict[str, Any] = {"actor": "machine", "reason": "chance"}
FAILURE = StoredFailure(type="ValueError", message="no", data=None)
_numbers = itertools.count()
owners = st.sampled_from(["w1", "w2"])
#: Mostly one kind of work, so that keys live long enough to become interesting.
mostly = st.sampled_from(["f", "f", "f", "g"])
lives = st.sampled_from([None, TTL_SECONDS])


@dataclass
class Known:
    """What the model knows of the one key."""

    state: str = "none"
    fence: int = 0
    fingerprint: str | None = None
    holder: Fence | None = None
    owner: str = ""
    on_crash: str = ""
    until: float | None = None
    result: bytes | None = None

    def standing(self, now: float) -> str:
        if self.state == "running":
            assert self.until is not None
            lapsed = "abandoned" if self.on_crash == "rerun" else "ambiguous"
            return "running" if now < self.until else lapsed
        if self.state in ("none", "ambiguous") or self.until is None:
            return self.state
        if now >= self.until + TOMBSTONE_SECONDS:
            return "gone"
        return self.state if self.state == "free" or now < self.until else "expired"


class OutcomeMachine(RuleBasedStateMachine):
    """One key, its model, and every fence that was ever granted."""

    fences = Bundle("fences")

    def __init__(self, ow: Onceward, time: MovingTime) -> None:
        super().__init__()
        self.ow, self.time = ow, time
        self.key = f"key-{next(_numbers)}"
        self.now = 0.0
        self.known = Known()

    # --- claims ---------------------------------------------------------------------------------

    def expected(self, fingerprint: str, owner: str) -> type[Claim]:
        known, standing = self.known, self.known.standing(self.now)
        if standing in ("none", "gone"):
            return Fresh
        if standing == "expired":
            return Expired
        if known.fingerprint not in (None, fingerprint):
            return Mismatch
        if standing == "running" and known.owner != owner:
            return InFlight
        return {"done": Replay, "failed": Failed, "ambiguous": Ambiguous}.get(standing, Fresh)

    def check(self, answer: Claim, expected: type[Claim]) -> None:
        assert type(answer) is expected, (answer, self.known)
        if isinstance(answer, Replay):
            assert answer.result == self.known.result
        if isinstance(answer, Ambiguous):
            assert answer.fence == self.known.fence

    @rule(
        target=fences,
        owner=owners,
        fingerprint=mostly,
        on_crash=st.sampled_from(["ambiguous", "rerun"]),
    )
    def claim(self, owner: str, fingerprint: str, on_crash: Any) -> object:
        expected = self.expected(fingerprint, owner)
        answer = self.ow.outcomes.claim(
            SCOPE,
            self.key,
            fingerprint=fingerprint,
            owner=owner,
            lease_seconds=LEASE_SECONDS,
            on_crash=on_crash,
        )
        self.check(answer, expected)
        if not isinstance(answer, Fresh):
            return multiple()
        assert answer.fence.number == self.known.fence + 1
        self.known = Known(
            state="running",
            fence=answer.fence.number,
            fingerprint=fingerprint,
            holder=answer.fence,
            owner=owner,
            on_crash=on_crash,
            until=self.now + LEASE_SECONDS,
        )
        return answer.fence

    @rule(owner=owners, fingerprint=mostly, ttl=lives, commits=st.booleans())
    def work_in_a_transaction(
        self, owner: str, fingerprint: str, ttl: float | None, commits: bool
    ) -> None:
        expected = self.expected(fingerprint, owner)
        result = b'"%d"' % (self.known.fence + 1)
        try:
            with self.ow.transaction() as tx:
                asked: dict[str, Any] = {"fingerprint": fingerprint, "owner": owner}
                answer = self.ow.outcomes.claim_in(tx, SCOPE, self.key, **asked)
                self.check(answer, expected)
                if not isinstance(answer, Fresh):
                    return
                self.ow.outcomes.finish_in(tx, answer.fence, result, ttl_seconds=ttl)
                assert commits  # Rolls back.
        except AssertionError:
            if commits:
                raise
            return
        self.known = Known(
            state="done",
            fence=self.known.fence + 1,
            fingerprint=fingerprint,
            owner=owner,
            until=None if ttl is None else self.now + ttl,
            result=result,
        )

    # --- what holders say, old ones too ---------------------------------------------------------

    def settle(self, fence: Fence, call: Callable[[], object], after: Known) -> None:
        """Call, and make sure that it is refused exactly when the fence is void."""
        known = self.known
        is_repeated = (known.state, known.result) == (after.state, after.result)
        if known.holder is not fence or (
            known.state not in ("running", "ambiguous") and not is_repeated
        ):
            with pytest.raises(FenceLost):
                call()
        else:
            call()
            if known.state in ("running", "ambiguous"):
                self.known = after

    def after(self, state: str, ttl: float | None = None, result: bytes | None = None) -> Known:
        until = None if ttl is None else self.now + ttl
        return Known(**{**vars(self.known), "state": state, "until": until, "result": result})

    @rule(fence=fences, ttl=lives, result=st.sampled_from([b"1", b'{"b": 2}']))
    def finish(self, fence: Fence, ttl: float | None, result: bytes) -> None:
        call = lambda: self.ow.outcomes.finish(fence, result, ttl_seconds=ttl)  # noqa: E731
        self.settle(fence, call, self.after("done", ttl, result))

    @rule(fence=fences, ttl=lives)
    def fail(self, fence: Fence, ttl: float | None) -> None:
        call = lambda: self.ow.outcomes.fail(  # noqa: E731
            fence, FAILURE, retryable=False, ttl_seconds=ttl
        )
        self.settle(fence, call, self.after("failed", ttl))

    @rule(fence=fences)
    def free(self, fence: Fence) -> None:
        call = lambda: self.ow.outcomes.fail(fence, FAILURE, retryable=True)  # noqa: E731
        self.settle(fence, call, self.after("free", 0.0))

    @rule(fence=fences)
    def become_ambiguous(self, fence: Fence) -> None:
        call = lambda: self.ow.outcomes.mark_ambiguous(fence, FAILURE)  # noqa: E731
        self.settle(fence, call, self.after("ambiguous"))

    @rule(fence=fences)
    def renew(self, fence: Fence) -> None:
        if self.known.holder is fence and self.known.state == "running":
            self.ow.outcomes.renew(fence, lease_seconds=LEASE_SECONDS)
            self.known.until = self.now + LEASE_SECONDS
        else:
            with pytest.raises(FenceLost):
                self.ow.outcomes.renew(fence)

    # --- what people do -------------------------------------------------------------------------

    @rule(is_done=st.booleans())
    def reconcile(self, is_done: bool) -> None:
        said: dict[str, Any] = {"done": "found"} if is_done else {"not_done": True}
        if self.known.standing(self.now) not in ("ambiguous", "abandoned"):
            with pytest.raises(NotReconcilable):
                self.ow.outcomes.reconcile(SCOPE, self.key, **said, **WORDS)
            return
        self.ow.outcomes.reconcile(SCOPE, self.key, **said, **WORDS)
        self.known = self.after("done", None, b'"found"') if is_done else self.after("free", 0.0)
        self.known.fence += 1
        self.known.holder = None

    @rule()
    def forget(self) -> None:
        if self.known.standing(self.now) == "running":
            with pytest.raises(KeyInFlight):
                self.ow.outcomes.forget(SCOPE, self.key, **WORDS)
            return
        forgotten = self.ow.outcomes.forget(SCOPE, self.key, **WORDS)
        assert forgotten == (self.known.state != "none")
        if forgotten:
            self.known = self.after("free", 0.0)
            self.known.fence += 1
            self.known.holder = self.known.fingerprint = None

    @rule()
    def prune(self) -> None:
        self.ow.outcomes.prune(batch=2)
        standing = self.known.standing(self.now)
        if standing == "gone":
            self.known = Known()
        elif standing == "expired":
            self.known.state, self.known.result, self.known.holder = "expired", None, None

    @rule(seconds=st.sampled_from(STEPS_SECONDS))
    def advance(self, seconds: float) -> None:
        self.time.advance(seconds=seconds)
        self.now += seconds

    @invariant()
    def the_store_agrees(self) -> None:
        found = self.ow.outcomes.show(SCOPE, self.key)
        standing = self.known.standing(self.now)
        if found is None:
            assert standing == "none"
            return
        assert found.state == ("free" if standing == "gone" else standing)
        assert found.fence == self.known.fence
        assert found.result == self.known.result


@pytest.mark.prove
def test_any_order_of_calls_agrees_with_the_model(
    ow: Onceward, ow_time: MovingTime, prove: bool, soak: bool
) -> None:
    """Whatever is called, by whomever, however late: the store does what the model does."""
    examples = examples_for(ow, prove=prove, soak=soak)
    run_machine(lambda: OutcomeMachine(ow, ow_time), examples=examples, steps=30)

"""Effects: steps inside a piece of work, known before they happen, on SQLite and PostgreSQL."""

import asyncio
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import (
    FenceLost,
    InvalidArgument,
    KeyAmbiguous,
    NotReconcilable,
    OutcomeUnknown,
    RecordedFailure,
    Retryable,
)
from onceward.outcomes import Done, EffectState, NotDone, OutcomeState, effect
from onceward.outcomes.claims import fence_params
from onceward.outcomes.running_call import CURRENT_CALL
from onceward.system.crash_points import Crashed
from onceward.testing.moving_time import MovingTime


class Calls:
    """What was called, and what to do in the middle of it."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.trouble: dict[str, BaseException] = {}

    def __call__(self, name: str) -> dict[str, int]:
        self.made.append(name)
        if name in self.trouble:
            raise self.trouble.pop(name)
        return {"number": len(self.made)}


@pytest.fixture
def calls() -> Calls:
    return Calls()


def states(ow: Onceward) -> dict[str, EffectState]:
    (found,) = ow.outcomes.list()
    return {each.name: each.state for each in ow.outcomes.effects(found.scope, found.key)}


def order(ow: Onceward, calls: Calls, **options: Any) -> Any:
    reconcile = options.pop("step_reconcile", None)

    @ow.once(key="order", **options)
    def place() -> list[Any]:
        charged = ow.effect("charge", calls, "charge", reconcile=reconcile)
        return [charged, ow.effect("mail", calls, "mail")]

    return place


def test_steps_that_were_done_are_replayed_in_a_rerun(ow: Onceward, calls: Calls) -> None:
    """The function runs again, what it did before does not."""
    place = order(ow, calls)
    calls.trouble["mail"] = Retryable("try later")
    with pytest.raises(Retryable):
        place()
    assert states(ow) == {"charge": EffectState.DONE, "mail": EffectState.FREE}
    assert place() == place() == [{"number": 1}, {"number": 3}]
    assert calls.made == ["charge", "mail", "mail"]


def test_a_step_without_a_reported_result_is_ambiguous(
    ow: Onceward, ow_time: MovingTime, calls: Calls
) -> None:
    """A rerun finds it intended, skips it, and is ambiguous until an operator decides."""
    place = order(ow, calls, on_crash="rerun")
    calls.trouble["mail"] = Crashed()
    with pytest.raises(Crashed):
        place()
    assert states(ow)["mail"] is EffectState.INTENDED
    ow_time.advance(seconds=61)
    with pytest.raises(KeyAmbiguous, match="step mail") as caught:
        place()
    assert caught.value.context["effect"] == "mail"
    (found,) = ow.outcomes.list()
    assert found.state is OutcomeState.AMBIGUOUS
    words: dict[str, Any] = {"actor": "ann", "reason": "asked them"}
    ow.outcomes.reconcile(found.scope, found.key, done="sent", effect="mail", **words)
    ow.outcomes.reconcile(found.scope, found.key, not_done=True, **words)
    assert place() == [{"number": 1}, "sent"]
    assert calls.made == ["charge", "mail"]


@pytest.mark.parametrize(("verdict", "made"), [(Done("yes"), 1), (NotDone(), 2), (None, 1)])
def test_a_hook_decides_about_a_step(
    ow: Onceward, ow_time: MovingTime, calls: Calls, verdict: Any, made: int
) -> None:
    """It is asked with the step's own arguments."""
    place = order(ow, calls, on_crash="rerun", step_reconcile=lambda _: verdict)
    calls.trouble["charge"] = Crashed()
    with pytest.raises(Crashed):
        place()
    ow_time.advance(seconds=61)
    if verdict is None:
        with pytest.raises(KeyAmbiguous):
            place()
    else:
        assert place()[0] == ("yes" if made == 1 else {"number": 2})
    assert calls.made.count("charge") == made


def test_a_failed_step_fails_the_same_way_again(ow: Onceward, calls: Calls) -> None:
    """The function may go on without it; a rerun finds the same failure."""
    attempts: list[int] = []

    @ow.once(key="order")
    def place() -> str:
        attempts.append(1)
        try:
            effect("charge", calls, "charge")
        except (ValueError, RecordedFailure) as exc:
            if len(attempts) == 1:
                raise Retryable from exc
            return str(exc)
        return "charged"

    calls.trouble["charge"] = ValueError("declined")
    with pytest.raises(Retryable):
        place()
    assert place() == "ValueError: declined"
    assert calls.made == ["charge"]


def test_a_step_that_does_not_know_makes_the_work_ambiguous(ow: Onceward, calls: Calls) -> None:
    """If a step is ambiguous, the whole is."""
    calls.trouble["charge"] = OutcomeUnknown("no answer")
    place = order(ow, calls)
    with pytest.raises(OutcomeUnknown):
        place()
    assert states(ow) == {"charge": EffectState.AMBIGUOUS}
    (found,) = ow.outcomes.list()
    assert found.state is OutcomeState.AMBIGUOUS


def test_a_step_of_lost_work_does_not_happen(
    ow: Onceward, ow_time: MovingTime, calls: Calls
) -> None:
    """Another worker took over: the intention is refused before the effect."""

    @ow.once(key="order", on_crash="rerun", lease_seconds=30)
    def place() -> object:
        if not calls.made:
            calls("slow")
            ow_time.advance(seconds=31)
            assert place() == "new"
            effect("charge", calls, "charge")
        return "new"

    with pytest.raises(FenceLost):
        place()
    assert calls.made == ["slow"]


def test_a_running_step_cannot_be_reconciled(ow: Onceward) -> None:
    """While its work runs, an intended step is not ambiguous."""
    words: dict[str, Any] = {"actor": "ann", "reason": "guess"}

    @ow.once(key="order")
    def place() -> None:
        def step() -> None:
            (found,) = ow.outcomes.list()
            with pytest.raises(NotReconcilable):
                ow.outcomes.reconcile(found.scope, "order", not_done=True, effect="step", **words)

        effect("step", step)

    place()


def test_an_intention_is_not_taken_twice(ow: Onceward) -> None:
    """A worker that looked too early is refused by the statement itself."""

    @ow.once(key="order")
    def place() -> None:
        def step() -> None:
            work = CURRENT_CALL.get()
            assert work is not None
            assert work.fence is not None
            params = {**fence_params(work.fence), "name": "step"}
            assert (
                ow.store.run_in_own_transaction(lambda tx: tx.query("effect_intend", **params))
                == []
            )

        effect("step", step)

    place()


@pytest.mark.parametrize("name", ["", "\0"])
def test_a_bad_name_is_reported_as_the_argument(ow: Onceward, calls: Calls, name: str) -> None:
    """The error names the argument `name`, not the call's key."""

    @ow.once(key="order")
    def place() -> None:
        effect(name, calls, "a")

    with pytest.raises(InvalidArgument, match=r"^name: ") as refused:
        place()
    assert refused.value.context["field"] == "name"
    assert calls.made == []


def test_a_name_is_used_once_in_a_call(ow: Onceward, calls: Calls) -> None:
    """Two steps of one name would be one step, and the second would silently not happen."""

    @ow.once(key="order")
    def place() -> None:
        effect("mail", calls, "a")
        effect("mail", calls, "b")

    with pytest.raises(InvalidArgument, match="has a step 'mail' already"):
        place()
    with pytest.raises(InvalidArgument, match="outside"):
        effect("mail", calls, "c")
    assert calls.made == ["a"]


def test_async_steps_are_awaited(ow: Onceward, calls: Calls) -> None:
    """An `async def` step in an `async def` function, replayed in a rerun."""

    async def step(name: str) -> object:
        await asyncio.sleep(0)
        return calls(name)

    @ow.once(key="order")
    async def place() -> object:
        return [await effect("charge", step, "charge"), await effect("mail", step, "mail")]

    calls.trouble["mail"] = Retryable("later")
    with pytest.raises(Retryable):
        asyncio.run(place())
    assert asyncio.run(place()) == [{"number": 1}, {"number": 3}]
    assert calls.made == ["charge", "mail", "mail"]


def test_forgetting_work_forgets_its_steps(ow: Onceward, ow_time: MovingTime, calls: Calls) -> None:
    """Everything runs again; pruned work takes its steps along."""
    place = order(ow, calls, ttl=10)
    place()
    (found,) = ow.outcomes.list()
    ow.outcomes.forget(found.scope, found.key, actor="ann", reason="wrong")
    assert ow.outcomes.effects(found.scope, found.key) == []
    place()
    assert calls.made == ["charge", "mail"] * 2
    ow_time.advance(seconds=31 * 86_400)
    assert ow.outcomes.prune().removed == 1
    assert ow.outcomes.effects(found.scope, found.key) == []

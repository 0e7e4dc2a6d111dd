"""Simulations bite: each of these mistakes, made on purpose, is found within some hundred seeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from onceward.cursors import DualBatch, DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.models import OutboxMessage
from onceward.errors import FenceLost
from onceward.outcomes import claims
from onceward.outcomes.call_execution import CallExecution
from onceward.outcomes.claims import Claims
from onceward.stores import Transaction, queries
from onceward.stores.sqlite import transaction
from tests.proof.simulation.campaign import World, run
from tests.proof.simulation.dual import Dual
from tests.proof.simulation.outcomes import Outcomes
from tests.proof.simulation.scheduler import Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

#: A mistake that is not found within so many schedules is not found.
SEEDS_MAX = 600
#: Rare ones are looked for from here on, to save time; any other place would do.
BEGIN = {"the read cursor goes back": 160, "a try is ended by a late dispatcher": 90}
Break = Callable[[pytest.MonkeyPatch], None]


def rewritten(*changes: tuple[str, str, str]) -> Break:
    """Return what changes the text of our statements: name, what to find, and what to put there."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        original = queries.query

        def query(engine: Any, name: str) -> str:
            text = original(engine, name)
            for changed, find, replace in changes:
                if changed == name:
                    assert find in text, f"{name} does not say {find}"
                    text = text.replace(find, replace)
            return text

        monkeypatch.setattr(transaction, "query", query)

    return apply


def replaced(owner: Any, name: str, by: Any) -> Break:
    """Return what puts something else in the place of a part of the code."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, by)


def both(*breaks: Break) -> Break:
    """Return what makes several mistakes at once."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in breaks:
            each(monkeypatch)

    return apply


def check_found(
    kind: type[World], mistakes: dict[str, Break], mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """See a world turn red, and say how to see it again."""
    mistakes[mistake](monkeypatch)
    first = BEGIN.get(mistake, 0)
    with pytest.raises(AssertionError) as found:
        run(kind, range(first, first + SEEDS_MAX))
    assert f"{kind.name} --seed" in found.value.__notes__[-1]


# --- outcomes ------------------------------------------------------------------------------------


def two_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit what a function with `tx` does, and only then how it ended."""
    finish, run_all = Claims.finish_in, CallExecution._run_with_tx
    later: list[tuple[Any, ...]] = []

    def keep(self: Claims, _tx: Transaction, *args: Any, **kwargs: Any) -> None:
        later.append((self, args, kwargs))

    def run_then_finish(self: CallExecution) -> Any:
        answer = yield from run_all(self)
        while later:
            outcomes, args, kwargs = later.pop()

            def settle(tx: Transaction) -> None:
                finish(outcomes, tx, *args, **kwargs)  # noqa: B023 - it is called at once

            with suppress(FenceLost):
                outcomes.store.run_in_own_transaction(settle)
        return answer

    monkeypatch.setattr(Claims, "finish_in", keep)
    monkeypatch.setattr(CallExecution, "_run_with_tx", run_then_finish)


def fail_whatever_concurrent_calls_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report to a caller that its work failed, when a concurrent call has succeeded meanwhile."""
    original = Claims.fail_after

    def fail_after(self: Claims, *args: Any, **kwargs: Any) -> None:
        with suppress(FenceLost):
            original(self, *args, **kwargs)

    monkeypatch.setattr(Claims, "fail_after", fail_after)


_FENCED = """fence = :fence and owner = :owner
  and claimed_at = :granted_at and (state = 'running' or state = 'ambiguous')"""

OUTCOME_MISTAKES: dict[str, Break] = {
    "claimed while another runs it": rewritten(
        ("outcome_find", "when state = 'running' and until_boot = :boot", "when false"),
        ("outcome_find", "when state = 'running' then 'ambiguous'", "when false then ''"),
        ("outcome_claim", "then outcome.owner = excluded.owner", "then true"),
    ),
    "finished without a fence": rewritten(("outcome_settle", _FENCED, "true")),
    "run again after silence": rewritten(
        (
            "outcome_find",
            "when state = 'running' then 'ambiguous'",
            "when state = 'running' then 'abandoned'",
        ),
        ("outcome_claim", "else outcome.on_crash = 'rerun'", "else true"),
    ),
    "other arguments get the answer": rewritten(("outcome_find", "  fingerprint,\n", "  null,\n")),
    "no tombstone": rewritten(
        ("outcome_find", "until_seconds + 2592000", "until_seconds"),
        ("outcome_claim", "until_seconds + 2592000", "until_seconds"),
        ("outcome_settle_new", "until_seconds + 2592000", "until_seconds"),
    ),
    "concurrent calls in transactions do not see each other": both(
        replaced(claims, "_check_unsettled", lambda *_: None),
        rewritten(
            (
                "outcome_settle_new",
                "where\n  outcome.fence = excluded.fence - 1\n  and (",
                "where true or (",
            )
        ),
    ),
    "a step is done before it happens": rewritten(
        (
            "effect_intend",
            "state, fence, updated_at)",
            "state, fence, updated_at, result)",
        ),
        ("effect_intend", "'intended', fence, :wall", "'done', fence, :wall, '\"early\"'"),
        ("effect_settle", "and state = 'intended'", ""),
    ),
    "a step is intended by any worker": rewritten(
        ("effect_intend", "where effect.state = 'free'", "where true"),
        (
            "effect_find",
            "select state,",
            "select case state when 'intended' then 'free' else state end,",
        ),
    ),
    "effect and outcome in two commits": two_commits,
    "a failure after a concurrent success": fail_whatever_concurrent_calls_did,
}


@pytest.mark.parametrize("mistake", OUTCOME_MISTAKES)
def test_outcomes_find(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation of outcomes finds this mistake."""
    check_found(Outcomes, OUTCOME_MISTAKES, mistake, monkeypatch)


# --- dual cursors --------------------------------------------------------------------------------


class Crowded(Dual):
    """Two dispatchers get into each other's way at a slow channel, more often than elsewhere."""

    mixes = (("keyed",), ("blind",))
    leases = (10.0,)
    troubles = (0.6,)
    slowness = (9,)

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        # No process dies, so that there are two of them, and the steps are long enough for a lease.
        options = simulation.options
        options.kill, options.freeze, options.fault_steps = 0.0, 0.02, 400
        options.step_seconds = options.freeze_seconds = 5.0
        super().__init__(simulation, stores)


def draw_apart(self: DualCursor, tx: Transaction, group: str | None = None) -> Arrival:
    """Draw an arrival number in a commit of its own, before that of the message."""
    ((drawn,),) = self._store.run_in_own_transaction(
        lambda own: own.query("dual_sequence", dual=self.name)
    )
    if group is not None:
        tx.query("dual_arrived", dual=self.name, group=group, position=drawn)
    return Arrival(drawn)


DUAL_MISTAKES: dict[str, Break] = {
    "a failure does not go back": replaced(
        DualBatch, "rollback_position", property(lambda self: self.position)
    ),
    "a failure goes back over what was seen": rewritten(
        ("dual_output", "where dual_name", "where false and dual_name")
    ),
    "a batch is ended by any former holder": replaced(
        DualCursor, "_fenced", lambda _self, _group, named, current: current or named
    ),
    "the place of a group is a time": rewritten(
        (
            "dispatch_message_between",
            "m.seq > :after",
            "m.sent_at > (select b.sent_at from dispatch_messages as b where b.seq = :after)",
        )
    ),
    "the read cursor goes back": rewritten(
        ("dual_advance_read", "where r.read_position < excluded.read_position", "")
    ),
    "numbers are not in the order of commits": replaced(DualCursor, "next_sequence", draw_apart),
    "what a crash left is not looked at": replaced(Deliveries, "recover", lambda *_: []),
    "rollbacks are not recorded": rewritten(
        ("dual_note", "values", "select * from (values"),
        ("dual_note", ":number)", ":number)) where false"),
    ),
    "what is taken back is sent": rewritten(
        ("dispatch_outbox_sending", "state in ('pending', 'sending')", "true"),
        ("dispatch_outbox_cancel", "state = 'pending'", "false"),
    ),
}
CROWDED_MISTAKES: dict[str, Break] = {
    "a try is ended by a late dispatcher": rewritten(
        ("dispatch_outbox_mark_ambiguous", " and attempt_count = :attempts", ""),
        ("dispatch_outbox_later", " and attempt_count = :attempts", ""),
    ),
    "no try is ambiguous": rewritten(
        ("dispatch_outbox_open", "o.state, o.attempt_count", "'pending', o.attempt_count")
    ),
    "what is ambiguous is sent again": both(
        replaced(OutboxMessage, "is_ambiguous", property(lambda _: False)),
        replaced(Crowded, "mixes", (("blind",),)),
    ),
}


@pytest.mark.parametrize("mistake", DUAL_MISTAKES)
def test_dual_finds(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation of dual cursors finds this mistake."""
    check_found(Dual, DUAL_MISTAKES, mistake, monkeypatch)


@pytest.mark.parametrize("mistake", CROWDED_MISTAKES)
def test_a_crowd_finds(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dispatchers that send at the same time find this mistake."""
    check_found(Crowded, CROWDED_MISTAKES, mistake, monkeypatch)

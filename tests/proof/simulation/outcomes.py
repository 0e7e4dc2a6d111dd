"""Outcomes: callers who want the same work done, operators who decide what was left open.

Every kind of function is called by several processes under the same keys, some of them with other
arguments. Each run gives a result of its own, so that a second run would be seen in the answers.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import orjson

from onceward.client import Onceward
from onceward.errors import (
    FenceLost,
    KeyAmbiguous,
    KeyExpired,
    KeyInFlight,
    KeyReused,
    NotReconcilable,
    OutcomeUnknown,
    RecordedFailure,
    StoreBusy,
)
from onceward.outcomes.models import Done, EffectState, OutcomeState, Verdict
from tests.proof.simulation.campaign import World
from tests.proof.simulation.manual_heartbeat import silence_logger
from tests.proof.simulation.outcomes_calls import (
    ASKING,
    IN_STORE,
    KINDS,
    STEPS,
    TOMBSTONE_SECONDS,
    TTL_SECONDS,
    Busy,
    Calls,
    Declined,
    Outside,
)
from tests.proof.simulation.scheduler import Process, Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

#: What a caller waits for, and then asks again.
AGAIN = (KeyInFlight, KeyAmbiguous, StoreBusy, OutcomeUnknown, FenceLost, Busy)


class Outcomes(World):
    """A few keys, and all callers want all of them."""

    name = "outcomes"
    claims = ("I1", "I2", "I3", "I4")
    sometimes = (
        "killed between effect and outcome",
        "killed between commit and acknowledgement",
        "replayed to a second caller",
        "a failure was replayed",
        "commit ambiguous, then found done",
        "other arguments were refused",
        "overtaken by a concurrent call at the first write",
        "taken over after the lease had expired",
        "renewed while it worked",
        "a late finisher was refused",
        "ambiguous, then reconciled as done",
        "ambiguous, then found not done",
        "a hook decided what became of a call",
        "a hook decided what became of a step",
        "an operator decided about a step",
        "a step was replayed in a rerun",
        "a result had expired",
        "a key was used again after its tombstone",
    )
    #: Ten leases.
    settle_seconds_max = 600.0
    tables = (
        "create table effects (id integer primary key, key text, amount int, result text, at real)",
    )

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        super().__init__(simulation, stores)
        silence_logger("onceward.outcomes")
        self.random = simulation.random
        self.outside = Outside()
        kinds = self.random.sample(KINDS, self.random.randint(1, 4))
        self.keys = [f"{kind}-{n}" for kind in kinds for n in range(self.random.randint(1, 2))]
        #: By key: arguments and outcome, as callers got them.
        self.answers: defaultdict[str, set[tuple[int, str]]] = defaultdict(set)
        callers = self.random.randint(2, 3)
        #: Which arguments a caller means by a key: mostly the same.
        self.amounts = {
            (f"c{number}", key): self.random.choice((1, 1, 1, 2))
            for number in range(callers)
            for key in self.keys
        }
        #: Keys that callers found ambiguous.
        self.silent: list[str] = []
        self.months = self.random.choice((0, 1)) if "brief" in kinds else 0
        self.has_month_passed = False
        for number in range(callers):
            simulation.add(f"c{number}", self.call_all)
        simulation.add("operator", self.operate)

    # --- callers ------------------------------------------------------------------------------

    def call_all(self, process: Process) -> None:
        calls = Calls(process, self.stores, self.outside)
        for key in self.random.sample(self.keys, len(self.keys)):
            self.call(calls, key, self.amounts[process.name, key])
        if any(key.startswith("brief") for key in self.keys) and not self.simulation.is_healed:
            # Results of some work expire, and it is asked for again.
            self.simulation.sleep(self.random.uniform(TTL_SECONDS, 2 * TTL_SECONDS))
            for key in self.keys:
                self.call(calls, key, self.amounts[process.name, key])

    def call(self, calls: Calls, key: str, amount: int) -> None:
        """Ask until there is an answer that will not change."""
        was_ambiguous = False
        while True:
            try:
                answer = orjson.dumps(calls.call(key, amount)).decode()
            except KeyReused:
                self.simulation.sometimes("other arguments were refused")
                return
            except KeyExpired:
                assert key.startswith("brief"), f"{key}: expired"
                self.simulation.sometimes("a result had expired")
                return
            except Declined as exc:
                self.answered(key, amount, str(exc))
                return
            except RecordedFailure as exc:
                self.simulation.sometimes("a failure was replayed")
                self.answered(key, amount, exc.failure_message)
                return
            except AGAIN as exc:
                was_ambiguous = isinstance(exc, OutcomeUnknown)
                if isinstance(exc, FenceLost):
                    self.simulation.sometimes("a late finisher was refused")
                if isinstance(exc, KeyAmbiguous) and key not in self.silent:
                    self.silent.append(key)
                self.simulation.note(f"{key}: {type(exc).__name__}")
                self.simulation.sleep(self.random.uniform(1, 40))
                continue
            if not calls.has_run:
                found = "commit ambiguous, then found done" if was_ambiguous else None
                self.simulation.sometimes(found or "replayed to a second caller")
            self.answered(key, amount, answer)
            return

    def answered(self, key: str, amount: int, answer: str) -> None:
        """Keep what a caller got; all get the same."""
        self.simulation.note(f"{key}: {answer}")
        given = self.answers[key]
        given.add((amount, answer))
        if not key.startswith("brief"):
            assert len(given) == 1, f"{key}: {sorted(given)}"

    # --- operators ----------------------------------------------------------------------------

    def operate(self, process: Process) -> None:
        ow = self.stores.handle(process)
        while True:
            self.simulation.sleep(self.random.uniform(20, 100))
            if self.months and not self.simulation.is_healed and self.random.random() < 0.2:
                self.months, self.has_month_passed = 0, True
                self.simulation.now += TOMBSTONE_SECONDS + 2 * TTL_SECONDS
            try:
                if self.random.random() < 0.3:
                    ow.outcomes.prune(batch=self.random.choice((1, 500)))
                while self.silent:
                    self.decide(ow, self.silent.pop(0))
            except (StoreBusy, OutcomeUnknown, NotReconcilable):
                pass

    def decide(self, ow: Onceward, key: str) -> None:
        """Say what became of a call that fell silent, as the ledger outside knows it."""
        record = ow.outcomes.show("simulated", key)
        if record is None or record.state is not OutcomeState.AMBIGUOUS:
            return
        if key.startswith("steps"):
            for step in ow.outcomes.effects("simulated", key):
                if step.state in (EffectState.INTENDED, EffectState.AMBIGUOUS):
                    self.say(ow, key, step.name, step.fence, self.outside.verdict(key, step.name))
                    self.simulation.sometimes("an operator decided about a step")
            self.outside.verdicts[key, ""] += 1
            self.say(ow, key, "", record.fence, None)
            return
        verdict = self.outside.verdict(key)
        self.say(ow, key, "", record.fence, verdict)
        how = "reconciled as done" if isinstance(verdict, Done) else "found not done"
        self.simulation.sometimes(f"ambiguous, then {how}")

    def say(self, ow: Onceward, key: str, step: str, fence: int, verdict: Verdict) -> None:
        what = {"done": verdict.result} if isinstance(verdict, Done) else {"not_done": True}
        try:
            ow.outcomes.reconcile(
                "simulated",
                key,
                effect=step or None,
                fence=fence,
                actor="operator",
                reason="asked the bank",
                **what,
            )
        except (NotReconcilable, StoreBusy):
            if "not_done" in what:
                self.outside.verdicts[key, step] -= 1
            raise

    # --- what must hold -----------------------------------------------------------------------

    def is_settled(self) -> bool:
        return all(each.is_done for each in self.simulation.processes[:-1])

    def check(self) -> None:
        outcomes = {
            key: (state, result)
            for key, state, result in self.stores.rows(
                "select key, state, result from onceward_outcomes"
            )
        }
        for key in self.keys:
            state, result = outcomes.get(key, (None, None))
            kind = key.partition("-")[0]
            if kind in IN_STORE:
                self.check_in_store(key, state, result)
            else:
                self.check_outside(key, state, result)
        self.work = sum(map(len, self.answers.values()))
        killed = self.simulation.killed_at
        if killed["outcome.run.after_effect"] or killed["effect.run.after_effect"]:
            self.simulation.sometimes("killed between effect and outcome")
        if killed["transaction.after_commit"] or killed["outcome.finish.after_commit"]:
            self.simulation.sometimes("killed between commit and acknowledgement")

    def check_in_store(self, key: str, state: object, result: object) -> None:
        """Effects and outcome are in one commit: both, or neither."""
        rows = self.stores.rows("select amount, result, at from effects where key = ?", key)
        reported = {orjson.dumps(given).decode() for _, given, _ in rows}
        if key.startswith("brief"):
            for (*_, before), (*_, after) in pairwise(rows):
                apart = after - before
                assert apart >= TTL_SECONDS + TOMBSTONE_SECONDS, f"{key}: {rows}"
                self.simulation.sometimes("a key was used again after its tombstone")
        else:
            assert state in ("done", "failed"), f"{key} ends as {state}"
            assert len(rows) == (state == "done"), f"{key} is {state} with {rows}"
            assert state == "failed" or reported == {result}, f"{key}: {result} with {rows}"
            assert len({amount for amount, *_ in rows}) <= 1, f"{key}: {rows}"
        for _, answer in self.answers[key]:
            assert answer in reported or answer.startswith("declined"), f"{key}: {answer}, {rows}"

    def check_outside(self, key: str, state: object, result: object) -> None:
        """Nothing happens twice that was not allowed to; what is done has happened."""
        assert state in ("done", "failed"), f"{key} ends as {state}"
        happened = self.outside.effects
        steps = STEPS if key.startswith("steps") else ("",)
        for step in steps:
            times = happened.get((key, step), [])
            # A key that was free for a month is new, and its steps with it.
            is_new = self.has_month_passed and self.outside.freed[key, ""] > 0
            limit = 1 + self.outside.verdicts[key, step] + is_new
            is_limited = step or key.partition("-")[0] in ASKING
            assert not is_limited or len(times) <= limit, f"{key} {step}: {times}"
        if state != "done":
            return
        assert isinstance(result, str)
        found = orjson.loads(result)
        for step, each in zip(steps, found if steps == STEPS else [found], strict=True):
            assert each in happened.get((key, step), []), f"{key}: {result} never happened"
        assert {answer for _, answer in self.answers[key]} <= {result}, f"{key}: {result}"

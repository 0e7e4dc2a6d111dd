"""Calls: functions with one outcome, as one simulated process has them, and what they do outside.

Work in the store leaves a row in a table. Work outside of it leaves an entry in a ledger that
survives every kill, as a bank would; hooks and operators look there, and tell the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from onceward.errors import OutcomeUnknown, StoreBusy
from onceward.outcomes.claims import ClaimRequest, KeyAlreadySettled
from onceward.outcomes.models import Done, Fence, Fresh, NotDone, Replay, Verdict
from onceward.outcomes.rejections import rejection_error
from onceward.outcomes.running_call import CURRENT_CALL
from onceward.stores import Transaction
from tests.proof.simulation.manual_heartbeat import ManualHeartbeat
from tests.proof.simulation.scheduler import Process, Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

LEASE_SECONDS = 60.0
#: How long results of the brief kind are kept, and how long their tombstones stand.
TTL_SECONDS = 120.0
TOMBSTONE_SECONDS = 30 * 86_400.0
STEPS = ("one", "two")
#: Kinds whose effects are in the store, kinds that must not be run again by themselves, the others.
IN_STORE = ("tx", "brief")
ASKING = ("plain", "hook", "bare")
RERUN = ("rerun", "steps")
KINDS = (*IN_STORE, *ASKING, *RERUN)


class Declined(Exception):
    """The other side will never do this."""


class Busy(Exception):
    """The other side has done nothing, and may later."""


@dataclass
class Outside:
    """What happened outside the store, and what was decided there."""

    #: Key and step, with the result of each time that it happened.
    effects: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    #: How often a key or a step was begun, found not done, or ended in a way that frees it.
    begun: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    freed: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By key: who runs it, and until when the store keeps others away.
    held: dict[str, dict[str, float]] = field(default_factory=dict)

    def verdict(self, key: str, step: str = "") -> Verdict:
        """Look whether something happened, and say so."""
        found = self.effects.get((key, step))
        if found:
            return Done(found[0])
        self.verdicts[key, step] += 1
        return NotDone()


class Calls:
    """The functions of one life of one process."""

    def __init__(self, process: Process, stores: SimulatedStores, outside: Outside) -> None:
        self.process, self.stores, self.outside = process, stores, outside
        self.simulation: Simulation = process.simulation
        self.random = self.simulation.random
        self.ow = stores.handle(process)
        self.heart = self.ow.outcomes.heartbeat = ManualHeartbeat(stores.clock)
        self._made: dict[str, Callable[[str, int], Any]] = {}
        self._count = 0
        #: Whether the last call has run its function.
        self.has_run = False

    def call(self, key: str, amount: int) -> Any:
        """Call the function of a key; the kind is a part of its name."""
        kind = key.partition("-")[0]
        self.has_run = False
        if kind == "bare":
            return self.bare(key, amount)
        if kind not in self._made:
            self._made[kind] = self._decorated(kind)
        return self._made[kind](key, amount)

    def _decorated(self, kind: str) -> Callable[[str, int], Any]:
        functions: dict[str, Callable[..., Any]] = {"tx": self.in_store, "brief": self.in_store}
        functions["steps"] = self.in_steps
        once = self.ow.once(
            key=lambda key, amount: key,  # noqa: ARG005 - the other part tells two calls apart
            scope="simulated",
            lease_seconds=LEASE_SECONDS,
            ttl=TTL_SECONDS if kind == "brief" else None,
            retry_on=Busy,
            on_crash="rerun" if kind in RERUN else "ambiguous",
            wait=self.random.choice((0.0, 0.0, 5.0)),
            reconcile=self.decide if kind == "hook" else None,
        )
        return once(functions.get(kind, self.outright))

    def decide(self, key: str, amount: int) -> Verdict:
        """Be asked what became of a call that fell silent."""
        del amount
        self.simulation.sometimes("a hook decided what became of a call")
        return self.outside.verdict(key)

    # --- functions ----------------------------------------------------------------------------

    def in_store(self, key: str, amount: int, tx: Transaction) -> str:
        """Leave a row in the transaction of the outcome."""
        self.has_run = True
        self.dawdle()
        self.perhaps_fail()
        result = self.new_result(amount)
        try:
            tx.execute(
                "insert into effects (key, amount, result) values (?, ?, ?)", [key, amount, result]
            )
            # Not before: it may have waited for its turn to write.
            at = [self.simulation.now, result]
            tx.execute("update effects set at = ? where result = ?", at)
        except KeyAlreadySettled:
            self.simulation.sometimes("overtaken by a concurrent call at the first write")
            raise
        if self.random.random() < 0.2:
            self.simulation.sleep(self.random.uniform(0, 5))
        self.perhaps_fail()
        return result

    def outright(self, key: str, amount: int) -> str:
        """Do something outside, at one go."""
        work = CURRENT_CALL.get()
        assert work is not None
        assert work.fence is not None
        with self.holding(work.fence):
            self.dawdle()
            self.perhaps_fail(key)
            result = self.happen(key, "", amount)
            self.dawdle()
            self.perhaps_ambiguous()
        return result

    def in_steps(self, key: str, amount: int) -> list[str]:
        """Do something outside, in steps of which each is known before it happens."""
        work = CURRENT_CALL.get()
        assert work is not None
        assert work.fence is not None
        with self.holding(work.fence):
            return [self._step(key, each, amount) for each in STEPS]

    def _step(self, key: str, step: str, amount: int) -> str:
        ran = False

        def run() -> str:
            nonlocal ran
            ran = True
            self.outside.begun[key, step] += 1
            self.dawdle()
            self.perhaps_fail(key, step)
            result = self.happen(key, step, amount)
            self.perhaps_ambiguous()
            return result

        def decide() -> Verdict:
            self.simulation.sometimes("a hook decided what became of a step")
            return self.outside.verdict(key, step)

        hook = decide if self.random.random() < 0.5 else None
        result: str = self.ow.effect(step, run, reconcile=hook)
        if not ran:
            self.simulation.sometimes("a step was replayed in a rerun")
        self.dawdle()
        return result

    def bare(self, key: str, amount: int) -> Any:
        """Do the same as `outright`, with claims alone."""
        self._count += 1
        wanted = ClaimRequest("simulated", key, str(amount), f"{self.process.id}/{self._count}")
        outcomes = self.ow.outcomes
        scope, _, fingerprint, owner = wanted
        claim = outcomes.claim(
            scope, key, fingerprint=fingerprint, owner=owner, lease_seconds=LEASE_SECONDS
        )
        if isinstance(claim, Replay):
            return orjson.loads(claim.result)
        if not isinstance(claim, Fresh):
            raise rejection_error(claim, wanted)
        with self.holding(claim.fence), self.heart.keep_alive(outcomes, claim.fence, LEASE_SECONDS):
            self.dawdle()
            result = self.happen(key, "", amount)
            self.dawdle()
        for _ in range(3):
            try:
                outcomes.finish(claim.fence, orjson.dumps(result))
            except (StoreBusy, OutcomeUnknown):
                self.simulation.sleep(1.0)
            else:
                return result
        message = "the end of a call could not be recorded"
        raise OutcomeUnknown(message, fix="look")

    # --- what happens in them -----------------------------------------------------------------

    def happen(self, key: str, step: str, amount: int) -> str:
        """Have an effect that cannot be taken back."""
        result = self.new_result(amount)
        self.outside.effects.setdefault((key, step), []).append(result)
        self.simulation.note(f"effect {key} {step}")
        return result

    def new_result(self, amount: int) -> str:
        """Return what no other run would."""
        self._count += 1
        return f"{amount} by {self.process.id} at {self.simulation.steps}.{self._count}"

    def dawdle(self) -> None:
        """Take some time, and let the heart beat or not."""
        if self.simulation.is_healed or self.random.random() < 0.6:
            return
        self.simulation.sleep(self.random.choice((1.0, 25.0, LEASE_SECONDS, 2 * LEASE_SECONDS)))
        if self.random.random() < 0.6:
            self.heart.renew_due()
            self.look_at_lease()

    def perhaps_fail(self, key: str = "", step: str = "") -> None:
        """Fail before anything has happened, for good or for now."""
        chance = self.random.random()
        if chance < 0.05:
            self._count += 1
            message = f"declined {self.process.id} at {self.simulation.steps}.{self._count}"
            raise Declined(message)
        if chance < 0.15 and not self.simulation.is_healed:
            self.outside.freed[key, step] += 1
            if step:
                self.outside.freed[key, ""] += 1
            raise Busy

    def perhaps_ambiguous(self) -> None:
        """Do not hear from the other side, which has done it."""
        if self.random.random() < 0.05 and not self.simulation.is_healed:
            message = "the bank did not answer"
            raise OutcomeUnknown(message, fix="ask the bank")

    # --- who may be at it ---------------------------------------------------------------------

    @contextmanager
    def holding(self, fence: Fence) -> Iterator[None]:
        """Be at it, when no other process can be, and when it was not to be left alone."""
        self.has_run = True
        key, outside = fence.key, self.outside
        place = (key, "")
        outside.begun[place] += 1
        allowed = 1 + outside.verdicts[place] + outside.freed[place]
        if key.partition("-")[0] in ASKING:
            assert outside.begun[place] <= allowed, f"{key}: run again without being asked"
        until = self.lease_of(fence)
        for other, lasts in outside.held.get(key, {}).items():
            # A caller that lost its claim on the way here does not know when it was granted.
            assert until is None or lasts <= until - LEASE_SECONDS, f"{key}: {other} holds it"
            self.simulation.sometimes("taken over after the lease had expired")
        outside.held.setdefault(key, {})[fence.owner] = until or 0.0
        try:
            yield
        except Exception:
            # It is over, and says so; one that does not come to that keeps its place.
            del outside.held[key][fence.owner]
            raise

    def lease_of(self, fence: Fence) -> float | None:
        """Return until when a claim lasts; None when it is lost."""
        rows = self.stores.rows(
            "select until_seconds from onceward_outcomes"
            " where key = ? and owner = ? and fence = ? and state = 'running'",
            fence.key,
            fence.owner,
            fence.number,
        )
        return rows[0][0] if rows else None

    def look_at_lease(self) -> None:
        """See how long the lease lasts since the heart has beaten."""
        for kept in self.heart._renewed:
            until = self.lease_of(kept.fence)
            held = self.outside.held[kept.fence.key]
            if until is not None and until > held[kept.fence.owner]:
                self.simulation.sometimes("renewed while it worked")
                held[kept.fence.owner] = until

"""Outcomes under kill -9: one process after another, what each key came to, and what was done."""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import KeyAmbiguous, OutcomeUnknown, RecordedFailure, Retryable
from onceward.outcomes import Done, Fresh, NotDone, OutcomeState
from onceward.stores import Transaction
from onceward.system import SystemClock
from onceward.testing.moving_time import MovingTime
from tests.support.killed_processes import Ack, Life, Place, Scenario

ROUNDS_MAX = 3000
LEASE_SECONDS = 60.0


class Bank:
    """Effects that no store can see: lines of a file, each written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def charge(self, key: str) -> str:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{key}\n".encode())
        os.close(descriptor)
        return f"charged {key}"

    def charges(self) -> Counter[str]:
        return Counter(self.path.read_text().splitlines() if self.path.exists() else ())


class LifeClock(SystemClock):
    """A machine that restarts with every process, so that leases of the dead expire at once."""

    def __init__(self, life: int) -> None:
        self.life = life

    def boot_id(self) -> str:
        return f"life {self.life}"


def opened(url: str, life: int) -> Onceward:
    """Open the store as of this life; on PostgreSQL its time has jumped past every lease."""
    ow = open_handle(url, clock=LifeClock(life))
    if ow.store.engine == "postgres":
        MovingTime(ow.store).advance(seconds=life * (LEASE_SECONDS + 1))
    return ow


def everything(lives: Sequence[Life]) -> list[str]:
    """Return all that was acknowledged."""
    return [ack for life in lives for ack in life.acks]


def outcome(charge: Callable[[str], str], order: str) -> str:
    try:
        return charge(order)
    except (ValueError, RecordedFailure):
        return "failed"
    except (OutcomeUnknown, KeyAmbiguous):
        return "ambiguous"


class Ordering(Scenario):
    """One order after another, each placed by one call, and the answers that callers got."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.bank = Bank(self.directory / "bank")
        self.answers: dict[str, str] = {}

    def function(self, ow: Onceward) -> Callable[[str], str]:
        """Return what places an order."""
        raise NotImplementedError

    def work(self, life: int, ack: Ack) -> None:
        with opened(self.url, life) as ow:
            function = self.function(ow)
            for number in range(ROUNDS_MAX):
                order = f"{life}-{number}"
                ack(json.dumps([order, self.placed(function, order)]))

    def placed(self, function: Callable[[str], str], order: str) -> str:
        """Place an order, and return what became of it."""
        return outcome(function, order)

    def retell(self, function: Callable[[str], str], lives: Sequence[Life]) -> None:
        """Check that repeated calls get the answers of the first ones."""
        self.answers |= dict(map(json.loads, everything(lives)))
        for order, answer in self.answers.items():
            assert outcome(function, order) == answer, order


class Charging(Ordering):
    """A charge that fell silent is ambiguous and not repeated; every other one has one outcome."""

    def function(self, ow: Onceward) -> Callable[[str], str]:
        @ow.once(key=lambda order: order, scope="charge", lease_seconds=LEASE_SECONDS)
        def charge(order: str) -> str:
            kind = int(order.split("-")[1]) % 5
            if kind == 1:
                raise ValueError(order)
            if kind == 2 and ow.outcomes.list(state="free", limit=1) == []:
                raise Retryable
            result = self.bank.charge(order)
            if kind == 3:
                raise OutcomeUnknown(order)
            return result

        return charge

    def work(self, life: int, ack: Ack) -> None:
        with opened(self.url, life) as ow:
            charge = self.function(ow)
            for number in range(ROUNDS_MAX):
                order = f"{life}-{number}"
                self.renew(ow, order)
                with contextlib.suppress(Retryable):
                    ack(json.dumps([order, outcome(charge, order)]))

    def renew(self, ow: Onceward, order: str) -> None:
        """Hold a claim of another kind for a while."""
        fresh = ow.outcomes.claim("renewed", order, fingerprint="", owner=order)
        assert isinstance(fresh, Fresh), fresh
        ow.outcomes.renew(fresh.fence)
        ow.outcomes.finish(fresh.fence, b"1")

    def check(self, lives: Sequence[Life]) -> None:
        with opened(self.url, lives[-1].number + 1) as ow:
            charge, charges = self.function(ow), self.bank.charges()
            known = {each.key: each for each in ow.outcomes.list(scope="charge", limit=10**6)}
            assert set(charges) <= set(known), "an effect before its claim was durable"
            assert max(charges.values(), default=1) == 1, charges
            self.retell(charge, lives)
            for record in known.values():
                assert record.state is not OutcomeState.RUNNING, record

    def settle(self, lives: Sequence[Life]) -> None:
        with opened(self.url, lives[-1].number + 1) as ow:
            charge = self.function(ow)
            for record in ow.outcomes.list(scope="charge", limit=10**6):
                if record.state is OutcomeState.AMBIGUOUS:
                    self.decide(ow, charge, record.key)
                # Calling it again, whether it was acknowledged or not, does not do it twice.
                with contextlib.suppress(Retryable):
                    outcome(charge, record.key)
        assert max(self.bank.charges().values(), default=1) == 1

    def decide(self, ow: Onceward, charge: Callable[[str], str], order: str) -> None:
        """Ask the bank, as a person would, and see that the verdict counts."""
        assert outcome(charge, order) == "ambiguous"
        words: dict[str, Any] = {"actor": "matrix", "reason": "asked the bank"}
        if order in self.bank.charges():
            ow.outcomes.reconcile("charge", order, done="found", **words)
            assert charge(order) == "found"
            self.answers[order] = "found"
        else:
            ow.outcomes.reconcile("charge", order, not_done=True, **words)


class ChargingInTransaction(Ordering):
    """Effects and outcomes are the same set after any crash; acknowledged answers stay."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with opened(self.url, 0) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists charges (name text)")

    def function(self, ow: Onceward) -> Any:
        @ow.once(scope="charge", key=lambda order: order)
        def charge(order: str, tx: Transaction) -> str:
            tx.execute("insert into charges values (?)", [order])
            if int(order.split("-")[1]) % 3 == 1:
                raise ValueError(order)
            return f"charged {order}"

        return charge

    def check(self, lives: Sequence[Life]) -> None:
        with opened(self.url, lives[-1].number + 1) as ow:
            self.retell(self.function(ow), lives)
            with ow.transaction() as tx:
                charges = [row[0] for row in tx.execute("select name from charges")]
            done = [each.key for each in ow.outcomes.list(state="done", limit=10**6)]
            assert sorted(charges) == sorted(done)
            assert all(self.answers.get(name, "charged").startswith("charged") for name in charges)


class Stepping(Ordering):
    """Work that is run again repeats no step that was done; ambiguous steps ask the bank."""

    def look(self, name: str) -> Done | NotDone:
        return Done(f"charged {name}") if name in self.bank.charges() else NotDone()

    def function(self, ow: Onceward) -> Callable[[str], str]:
        @ow.once(key=lambda order: order, scope="order", on_crash="rerun")
        def place(order: str) -> str:
            taken = [
                ow.effect(step, self.bank.charge, f"{order} {step}", reconcile=self.look)
                for step in ("pay", "mail")
            ]
            return ", ".join(taken)

        return place

    def placed(self, function: Callable[[str], str], order: str) -> str:
        """Place an order, which neither fails nor is ambiguous."""
        return function(order)

    def check(self, lives: Sequence[Life]) -> None:
        charges = self.bank.charges()
        assert max(charges.values(), default=1) == 1, charges
        acknowledged = {json.loads(ack)[0] for ack in everything(lives)}
        assert {f"{order} {step}" for order in acknowledged for step in ("pay", "mail")} <= set(
            charges
        )

    def settle(self, lives: Sequence[Life]) -> None:
        with opened(self.url, lives[-1].number + 1) as ow:
            place = self.function(ow)
            for record in ow.outcomes.list(limit=10**6):
                order = record.key
                assert place(order) == f"charged {order} pay, charged {order} mail"
        self.check(lives)


class Tidying(Scenario):
    """Verdicts, deletions and pruning are whole or not at all, and stay once acknowledged."""

    passes_max = 12

    def work(self, life: int, ack: Ack) -> None:
        with opened(self.url, life) as ow:
            words: dict[str, Any] = {"actor": "matrix", "reason": "test"}
            for number in range(ROUNDS_MAX):
                name = f"{life}-{number}"
                fresh = ow.outcomes.claim("doubt", name, fingerprint="", owner=name)
                assert isinstance(fresh, Fresh), fresh
                ow.outcomes.mark_ambiguous(fresh.fence, ValueError(name))
                ow.outcomes.reconcile("doubt", name, done=name, ttl_seconds=1e-3, **words)
                ack(f"doubt {name}")
                fresh = ow.outcomes.claim("wrong", name, fingerprint="", owner=name)
                assert isinstance(fresh, Fresh), fresh
                ow.outcomes.finish(fresh.fence, b"1")
                ow.outcomes.forget("wrong", name, **words)
                ack(f"wrong {name}")
                ow.outcomes.prune(batch=2)

    def check(self, lives: Sequence[Life]) -> None:
        with opened(self.url, lives[-1].number + 1) as ow:
            wanted = {"doubt": OutcomeState.EXPIRED, "wrong": OutcomeState.FREE}
            for acked in everything(lives):
                scope, _, key = acked.partition(" ")
                found = ow.outcomes.show(scope, key)
                assert found is not None
                assert found.state is wanted[scope], found


SCENARIOS: dict[str, type[Scenario]] = {
    "outcome.claim.": Charging,
    "outcome.renew.": Charging,
    "outcome.run.": Charging,
    "outcome.finish.": Charging,
    "outcome.fail.": Charging,
    "outcome.mark_ambiguous.": Charging,
    "outcome.claim_in.": ChargingInTransaction,
    "outcome.finish_in.": ChargingInTransaction,
    "outcome.fail_after.": ChargingInTransaction,
    "outcome.reconcile.": Tidying,
    "outcome.forget.": Tidying,
    "outcome.prune.": Tidying,
    "effect.": Stepping,
}

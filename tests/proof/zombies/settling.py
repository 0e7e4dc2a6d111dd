"""Settling: a function with one outcome, whose process freezes between its effect and its end.

Its effects are lines of a file that no store can see, or rows of the transaction. A later caller
runs it, decides, or waits, as the function's owner declared; the one that wakes up has to
take what counts by then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import KeyAmbiguous, OncewardError
from onceward.outcomes import Done, NotDone
from onceward.outcomes.models import OnCrash
from onceward.stores import Transaction
from tests.proof.zombies.cells import ENGINES, LEASE_SECONDS, Cell, Place, Seen
from tests.proof.zombies.frozen import Child, Talk
from tests.proof.zombies.leasing import SILENCE_SECONDS
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX

TABLE = "create table if not exists charged (cell text, who text)"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a function is declared, and what must come of it when its process freezes."""

    on_crash: OnCrash = "ambiguous"
    #: Its effects are in the transaction of its outcome.
    in_tx: bool = False
    #: It has two steps, each with a hook that can look.
    in_steps: bool = False
    #: It takes longer than a lease.
    is_long: bool = False
    #: An operator decides that it was done, while it is frozen.
    is_decided: bool = False
    #: The heir has an answer only when the zombie is awake again.
    heir_waits: bool = False
    #: What all callers are answered in the end.
    answer: str = "by heir"
    #: How the woken one is refused, if it is.
    refused: tuple[str, ...] = ("FenceLost",)
    #: How often each effect happens; a function that may be run again may have it twice.
    effects: int = 1


class Bank:
    """Effects outside of every store: lines of a file, each written at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def charge(self, what: str, who: str) -> str:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{what} {who}\n".encode())
        os.close(descriptor)
        return who

    def look(self, what: str, _: str) -> Done | NotDone:
        """Say whether something was charged, as a hook does."""
        found = [who for each, who in self.charges() if each == what]
        return Done(found[0]) if found else NotDone()

    def charges(self) -> list[tuple[str, str]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(what, who) for what, _, who in (line.rpartition(" ") for line in lines)]


def made(ow: Onceward, way: Way, bank: Bank, who: str, talk: Talk) -> Callable[[str], str]:
    """Return the function as this process has it."""
    options: dict[str, Any] = {
        "scope": "charge",
        "key": lambda order: order,
        "on_crash": way.on_crash,
        "lease_seconds": LEASE_SECONDS,
        "wait": WAIT_SECONDS_MAX,
    }
    if way.in_tx:

        @ow.once(**options)
        def charge_in(order: str, tx: Transaction) -> str:
            tx.execute("insert into charged values (?, ?)", [order, who])
            return f"by {who}"

        return cast("Callable[[str], str]", charge_in)  # Its callers pass no tx.

    @ow.once(**options)
    def charge(order: str) -> str:
        if way.in_steps:
            for step in ("pay", "mail"):
                ow.effect(step, bank.charge, f"{order} {step}", who, reconcile=bank.look)
        else:
            bank.charge(order, who)
        if way.is_long and who == "zombie":
            talk.wait()
        return f"by {who}"

    return charge


def call(place: Place, name: str, way: Way, talk: Talk) -> None:
    """Be the one that freezes: call, tell what came of it, and call again."""
    with open_handle(place.url) as ow:
        charge = made(ow, way, Bank(place.directory / "bank"), "zombie", talk)
        try:
            talk.tell("answered", result=charge(name))
        except OncewardError as exc:
            talk.tell("refused", error=type(exc).__name__)
        talk.tell("answered", result=charge(name))


def call_instead(place: Place, name: str, way: Way, talk: Talk) -> None:
    """Be the one that comes later, and decide where a person would have to."""
    with open_handle(place.url) as ow:
        charge = made(ow, way, Bank(place.directory / "bank"), "heir", talk)
        talk.tell("asking")
        try:
            result = charge(name)
        except KeyAmbiguous:
            if way.is_decided:
                ow.outcomes.reconcile("charge", name, done="found", actor="ann", reason="asked")
            else:
                talk.tell("ambiguous")
                talk.wait()
            result = charge(name)
        talk.tell("answered", result=result)
        talk.wait()
        talk.tell("answered", result=charge(name))


def freeze(place: Place, *, name: str, way: Way, spec: str) -> Seen:
    """Run one cell."""
    with open_handle(place.url) as ow, ow.transaction() as tx:
        tx.execute(TABLE)
    zombie = Child(partial(call, place, name, way), spec)
    zombie.until_frozen()
    frozen_at = time.monotonic()
    heir = Child(partial(call_instead, place, name, way))
    heir.hear("asking")
    seen, reports = Seen(), []
    if not way.heir_waits:
        reports.append(heir.hear("answered"))
        seen.takeover_seconds = reports[0]["at"] - frozen_at
        seen.reached.append("answered by another while frozen")
    elif way.in_tx:
        assert heir.is_silent(SILENCE_SECONDS), "another worker settled what was at work"
        seen.reached.append("waited for, and not done twice")
    else:
        heir.hear("ambiguous")
        seen.reached.append("ambiguous, and not done twice")
    zombie.wake()
    zombie.go()
    reports += zombie.heard()
    if way.heir_waits:
        heir.go()
        reports.append(heir.hear("answered"))
    heir.go()
    reports += heir.heard()
    seen.refused = [each["error"] for each in reports if each["what"] == "refused"]
    judge(place, name, way, seen, [each["result"] for each in reports if "result" in each])
    return seen


def judge(place: Place, name: str, way: Way, seen: Seen, answers: list[str]) -> None:
    """Count effects, and make sure that all callers were answered the same."""
    with open_handle(place.url) as ow, ow.transaction() as tx:
        inside = [row[0] for row in tx.execute("select cell from charged where cell = ?", [name])]
    charges = Bank(place.directory / "bank").charges()
    outside = [what for what, _ in charges if what == name or what.startswith(f"{name} ")]
    done = [*inside, *outside]
    seen.work = len(set(done))
    seen.lost = (2 if way.in_steps else 1) - len(set(done))
    seen.repeated = (way.effects - 1) * len(set(done))
    seen.doubled = len(done) - len(set(done)) - seen.repeated
    assert tuple(seen.refused) == way.refused, seen.refused
    assert set(answers) == {way.answer}, answers
    assert (seen.lost, seen.doubled) == (0, 0), done
    if seen.refused:
        seen.reached.append("refused after waking")


def cell(name: str, point: str, way: Way, *, nth: int = 1, is_quick: bool = False) -> Cell:
    """Return a cell of `@once`."""
    run = partial(freeze, name=name, way=way, spec=f"{point}:{nth}:stop")
    claims = ("I1", "I3") if way.in_tx else ("I1", "I4")
    return Cell(
        name=name,
        point=point,
        nth=nth,
        run=run,
        claims=claims,
        quick_on=ENGINES if is_quick else (),
    )


#: The one that froze is still the one that counts.
_MINE = Way(answer="by zombie", refused=())
CELLS = [
    cell("once-unclaimed", "outcome.claim.before_commit", Way(refused=())),
    cell(
        "once-may-rerun",
        "outcome.run.after_effect",
        Way(on_crash="rerun", effects=2),
        is_quick=True,
    ),
    cell("once-decided", "outcome.run.after_effect", Way(is_decided=True, answer="found")),
    cell("once-ambiguous", "outcome.run.after_effect", replace(_MINE, heir_waits=True)),
    cell("once-unfinished", "outcome.finish.before_commit", Way(on_crash="rerun", effects=2)),
    cell("once-finished", "outcome.finish.after_commit", _MINE),
    cell(
        "once-in-tx", "outcome.finish_in.before_commit", replace(_MINE, in_tx=True, heir_waits=True)
    ),
    cell(
        "once-renewing",
        "outcome.renew.after_commit",
        Way(on_crash="rerun", is_long=True, effects=2),
        nth=2,
    ),
    cell("step-taken", "effect.run.after_effect", Way(on_crash="rerun", in_steps=True)),
    cell("step-settled", "effect.settle.after_commit", Way(on_crash="rerun", in_steps=True)),
]

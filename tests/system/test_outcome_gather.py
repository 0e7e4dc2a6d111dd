"""Hundreds of nested `async def` calls on one event loop, cancelled at random moments."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import Retryable
from onceward.outcomes import OutcomeState
from onceward.stores import Transaction
from tests.support.async_calls import CALLBACK_SECONDS_MAX, CALLS, timed_callbacks
from tests.support.evidence import Entry, Evidence

#: Rounds of so many calls: as a slice, as a whole, and for hours.
ROUNDS_SLICE, ROUNDS_PROVE, ROUNDS_SOAK = 1, 20, 1_000
#: The share of calls that are cancelled in a round, and of functions that fail at first.
CANCELLED, FAILING = 0.3, 0.1


class Calls:
    """Calls of three functions, one inside the other, and what has become of them."""

    def __init__(self, ow: Onceward, chance: random.Random) -> None:
        self._ow, self._chance = ow, chance
        #: Which numbers the function without `tx` ran for.
        self.noted: Counter[int] = Counter()
        self.met: Counter[str] = Counter()
        with ow.transaction() as tx:
            tx.execute("create table effects (id bigint)")

        @ow.once()
        async def note(number: int) -> int:
            self.noted[number] += 1
            return number

        @ow.once()
        async def store(number: int, tx: Transaction) -> int:
            await asyncio.sleep(0)
            tx.execute("insert into effects values (?)", [number])
            return number

        @ow.once()
        async def outer(number: int, tx: Transaction) -> int:
            assert tx is not None
            joined: Any = store
            found = await note(number) + await joined(number)
            if self._chance.random() < FAILING:
                raise Retryable
            return int(found)

        self._outer: Any = outer

    async def gathered(self, numbers: list[int]) -> list[int]:
        """Call for all of them at once and cancel some; return those without a result."""
        tasks = {number: asyncio.create_task(self._outer(number)) for number in numbers}
        doomed = [number for number in numbers if self._chance.random() < CANCELLED]
        for number in doomed:
            for _ in range(self._chance.randrange(8)):
                await asyncio.sleep(0)
            tasks[number].cancel()
        ended = await asyncio.gather(*tasks.values(), return_exceptions=True)
        return [number for number, each in zip(numbers, ended, strict=True) if self._judge(each)]

    def _judge(self, ended: int | BaseException) -> bool:
        """Note how a call ended; return whether it must be called again."""
        if isinstance(ended, int):
            self.met["done"] += 1
            return False
        assert isinstance(ended, (asyncio.CancelledError, Retryable)), repr(ended)
        self.met["cancelled" if isinstance(ended, asyncio.CancelledError) else "failed"] += 1
        return True

    def check(self, count: int) -> tuple[int, int]:
        """Return how many effects of so many calls are lost, and how many are doubled."""
        rows = Counter(row[0] for row in self._ow.store.select("select id from effects"))
        assert {each.state for each in self._ow.outcomes.list(limit=4 * count)} == {
            OutcomeState.DONE
        }
        lost = sum(1 for number in range(count) for kept in (rows, self.noted) if not kept[number])
        doubled = sum(each - 1 for kept in (rows, self.noted) for each in kept.values())
        return lost, doubled


@pytest.mark.prove
def test_h52_cancelled_calls_of_a_gather_lose_and_double_nothing(
    ow_url: str, evidence: Evidence, *, prove: bool, soak: bool
) -> None:
    """Every call ends; those that were cancelled or failed are called again until all are done."""
    rounds = ROUNDS_SOAK if soak else ROUNDS_PROVE if prove else ROUNDS_SLICE
    with open_handle(ow_url) as ow:
        calls = Calls(ow, random.Random(52))
        for each in range(rounds):
            left = list(range(each * CALLS, (each + 1) * CALLS))
            while left:
                with timed_callbacks() as longest:
                    left = asyncio.run(calls.gathered(left))
                assert longest() < CALLBACK_SECONDS_MAX
        lost, doubled = calls.check(rounds * CALLS)
        engine = ow.store.engine
    evidence.record(
        Entry(
            campaign="gather of 500 calls with nested calls, some of them cancelled",
            layer="storms",
            claims=("I1", "I3"),
            engine=engine,
            schedules=rounds,
            faults={"cancel": calls.met["cancelled"], "failure": calls.met["failed"]},
            work=calls.met["done"],
            lost=lost,
            doubled=doubled,
            reached={"done": calls.met["done"], "cancelled": calls.met["cancelled"]},
        )
    )

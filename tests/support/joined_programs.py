"""Joined programs: random nestings of joined calls, savepoints and errors; what must remain."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from onceward.client import Onceward
from onceward.errors import ResultNotStored, SqlFailed
from onceward.outcomes import OutcomeState
from onceward.stores import Transaction

Kind = Literal["write", "last", "call", "savepoint", "block"]
Ending = Literal["return", "raise", "interrupt", "bad statement", "bad result"]
KEYS = 4
#: What a call that ends so raises.
ERRORS: dict[Ending, type[BaseException]] = {
    "raise": ValueError,
    "interrupt": KeyboardInterrupt,
    "bad statement": SqlFailed,
    "bad result": ResultNotStored,
}
CAUGHT = tuple(ERRORS.values())
_numbers = itertools.count(1)


@dataclass
class Step:
    """One step of a program, and the steps inside it."""

    kind: Kind
    key: int = 0
    ending: Ending = "return"
    is_caught: bool = True
    #: Set when its function returned what cannot be stored.
    is_unstored: bool = False
    inside: list["Step"] = field(default_factory=list)


@dataclass
class Kept:
    """What must be there at the end."""

    rows: list[int] = field(default_factory=list)
    #: Statements that run with the commit.
    lasts: list[int] = field(default_factory=list)
    #: Keys whose call has returned.
    done: set[int] = field(default_factory=set)
    #: Those of them whose result could not be stored.
    unstored: set[int] = field(default_factory=set)


def programs() -> st.SearchStrategy[list[Step]]:
    endings: list[Ending] = ["return", "return", *ERRORS]
    leaves = st.builds(Step, kind=st.sampled_from(["write", "write", "last"]))

    def around(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
        return st.builds(
            Step,
            kind=st.sampled_from(["call", "call", "call", "savepoint", "block"]),
            key=st.integers(0, KEYS - 1),
            ending=st.sampled_from(endings),
            is_caught=st.sampled_from([True, True, True, False]),
            inside=st.lists(steps, max_size=4),
        )

    return st.lists(st.recursive(leaves, around, max_leaves=12), max_size=5)


class Program:
    """Runs a program against the store, and the model beside it."""

    def __init__(self, ow: Onceward, *, is_async: bool, seen: Counter[str]) -> None:
        self.ow, self.is_async, self.seen = ow, is_async, seen
        self.scope = f"program{next(_numbers)}"
        self.kept = Kept()
        self.after_commit: list[int] = []
        self.running: list[int] = []
        self.ids = itertools.count(1)

        def named(step: Step, **_: Any) -> str:
            return str(step.key)

        @ow.once(scope=self.scope, key=named, fingerprint=None)
        def work(step: Step, tx: Transaction) -> object:
            return finished(self.body(step, tx))

        @ow.once(scope=self.scope, key=named, fingerprint=None)
        async def work_async(step: Step, tx: Transaction) -> object:
            await asyncio.sleep(0)
            return await self.body(step, tx)

        self.now: Any = work
        self.awaited: Any = work_async

    def run(self, steps: list[Step], *, is_rolled_back: bool) -> None:
        """Run the program in one transaction, then look; then call every key alone, and look."""
        if self.is_async:
            asyncio.run(self.transaction(steps, is_rolled_back=is_rolled_back))
        else:
            finished(self.transaction(steps, is_rolled_back=is_rolled_back))
        self.check()
        for key in range(KEYS):
            finished(self.called(Step("call", key, inside=[Step("write")]), is_awaited=False))
        self.check()

    async def transaction(self, steps: list[Step], *, is_rolled_back: bool) -> None:
        before = deepcopy(self.kept)
        try:
            with self.ow.transaction() as tx:
                await self.steps(steps, tx)
                if is_rolled_back:
                    raise ValueError
        except CAUGHT:
            self.kept = before
            self.seen["whole transaction undone"] += 1

    async def steps(self, steps: list[Step], tx: Transaction) -> None:
        for step in steps:
            await getattr(self, step.kind)(step, tx)

    async def write(self, _step: Step, tx: Transaction) -> None:
        number = next(self.ids)
        tx.execute("insert into effects values (?)", [number])
        self.kept.rows.append(number)

    async def last(self, _step: Step, tx: Transaction) -> None:
        number = next(self.ids)
        tx.run_with_commit("list_migrations", lambda _: self.after_commit.append(number))
        self.kept.lasts.append(number)

    async def savepoint(self, step: Step, tx: Transaction) -> None:
        """Undo what is inside, or keep it."""
        before = deepcopy(self.kept)
        undo = tx.savepoint()
        await self.steps(step.inside, tx)
        if step.ending == "return":
            undo.release()
        else:
            undo()
            self.kept = before
            self.seen["savepoint undone"] += 1

    async def block(self, step: Step, tx: Transaction) -> None:
        await self.guarded(step, self.in_block(step, tx))

    async def in_block(self, step: Step, tx: Transaction) -> None:
        with tx.nested():
            await self.body(step, tx)

    async def body(self, step: Step, tx: Transaction) -> object:
        """Do what is inside, then end in this way."""
        await self.steps(step.inside, tx)
        if step.ending == "bad statement":
            tx.execute("insert into nowhere values (1)")
        elif step.ending == "bad result" and step.kind == "call":
            step.is_unstored = True
            return object()
        elif step.ending != "return":
            raise ValueError if step.ending == "bad result" else ERRORS[step.ending]
        return step.key

    async def call(self, step: Step, _tx: Transaction) -> None:
        """Call by key, unless it runs around this step already; a key that is done replays."""
        if step.key in self.running:
            return
        if step.key in self.kept.done:
            self.seen["replayed"] += 1
            await self.called(step)
            return
        self.running.append(step.key)
        try:
            await self.guarded(step, self.called(step))
        finally:
            self.running.pop()

    async def called(self, step: Step, *, is_awaited: bool | None = None) -> None:
        """Call it. One that returned what cannot be stored is done, and so it says, ever again."""
        try:
            if self.is_async if is_awaited is None else is_awaited:
                await self.awaited(step)
            else:
                self.now(step)
        except ResultNotStored:
            if not step.is_unstored and step.key not in self.kept.unstored:
                raise  # Of a call inside it, which was not caught there.
            self.kept.unstored.add(step.key)
            self.seen["result not stored"] += 1
        self.kept.done.add(step.key)

    async def guarded(self, step: Step, work: Coroutine[Any, Any, object]) -> None:
        """Catch what it raises, or let it pass; in the model it leaves nothing either way."""
        before = deepcopy(self.kept)
        try:
            await work
        except CAUGHT:
            self.kept = before
            self.seen[f"{step.kind} undone"] += 1
            if not step.is_caught:
                raise

    def check(self) -> None:
        with self.ow.transaction() as tx:
            assert tx.execute("select id from effects order by id") == [
                (number,) for number in self.kept.rows
            ]
        assert self.after_commit == self.kept.lasts
        done = self.ow.outcomes.list(scope=self.scope)
        assert {(each.key, each.state) for each in done} == {
            (str(key), OutcomeState.DONE) for key in self.kept.done
        }


def finished(work: Coroutine[Any, Any, object]) -> object:
    """Run what never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    finally:
        work.close()
    message = "it waited"
    raise AssertionError(message)

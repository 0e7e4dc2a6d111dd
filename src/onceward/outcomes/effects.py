"""Effects: finer steps inside a piece of work, each of them known before it happens.

A step is intended, durably, then happens, then is done. When its work is run again, what was done
is replayed, and what was only intended is in doubt.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from onceward.crash import crash_point
from onceward.errors import (
    InvalidArgument,
    KeyAmbiguous,
    NotReconcilable,
    OutcomeUnknown,
    ResultNotStored,
    Retryable,
)
from onceward.outcomes.claims import check_names, fence_lost, named
from onceward.outcomes.failures import (
    failure_of,
    is_replayed,
    read_failure,
    recorded,
    write_failure,
)
from onceward.outcomes.models import Done, Fence, NotDone, Verdict
from onceward.outcomes.results import Results, stored
from onceward.outcomes.running import CURRENT, Work
from onceward.outcomes.steps import Ask, Call, Ended, Step, Steps, drive, drive_async
from onceward.stores import Row, Store


def effect(
    name: str,
    function: Callable[..., Any],
    *args: Any,  # noqa: ANN401 - the function's own
    reconcile: Callable[..., Verdict] | None = None,
    **kwargs: Any,  # noqa: ANN401 - the function's own
) -> Any:  # noqa: ANN401 - what the function returns, or an awaitable of it
    """Run one step of a function with one outcome, so that a rerun of it does not repeat the step.

    The name is the step's own within one call. When an earlier run fell silent in the middle of the
    step, `reconcile`, called with the same arguments, answers `Done(result)` or `NotDone()`;
    otherwise KeyAmbiguous is raised. Await it when `function` is `async def`.
    """
    work = CURRENT.get()
    if work is None:
        message = "effect: is a step of a function with @once, and was called outside of one"
        raise InvalidArgument(message, fix="call it in the function itself", field="effect")
    if work.fence is None:
        message = "effect: a function that takes `tx` has its effects in the transaction"
        raise InvalidArgument(message, fix="leave out `tx`, or the step", field="effect")
    check_names("effect", name)
    if name in work.steps:
        message = f"effect: this call has a step {name!r} already"
        raise InvalidArgument(message, fix="give each step a name of its own", field="name")
    work.steps.add(name)
    decide = partial(reconcile, *args, **kwargs) if reconcile is not None else None
    steps = _Taken(work, work.fence, name, Results(function)).steps(
        partial(function, *args, **kwargs), decide
    )
    if inspect.iscoroutinefunction(function):
        return _awaited(steps, work.outcomes.store)
    return drive(steps, work.clock).outcome()


async def _awaited(steps: Steps, store: Store) -> Any:  # noqa: ANN401 - what the function returns
    return (await drive_async(steps, store)).outcome()


class _Taken:
    """One step that is being taken."""

    def __init__(self, work: Work, fence: Fence, name: str, results: Results) -> None:
        self._results = results
        self._outcomes = work.outcomes
        self._store = work.outcomes.store
        self._retry_on = work.retry_on
        self._fence = fence
        self._place = {"scope": fence.scope, "key": fence.key, "name": name}
        self._name = f"{fence.scope} {fence.key}: the step {name}"

    def steps(self, run: Callable[[], Any], decide: Callable[[], Verdict] | None) -> Steps:
        """Replay it, or run it, or say that nobody knows."""
        while True:
            rows = yield Ask(partial(self._store.read, "effect_look", **self._place))
            state, text, fence = rows[0] if rows else ("free", "", 0)
            if state == "done":
                return self._replayed(text)
            if state == "failed":
                return Ended(error=recorded(read_failure(text)))
            if state == "free":
                return (yield from self._take(run))
            ended = yield from self._reconcile(decide, fence)
            if ended is not None:
                return ended

    def _replayed(self, text: str | None) -> Ended:
        if text is not None:
            return Ended(value=self._results.read(text.encode()))
        message = f"{self._name}: was done, and its result could not be stored"
        return Ended(error=ResultNotStored(message, **self._place))

    def _take(self, run: Callable[[], Any]) -> Steps:
        if not (yield Ask(partial(self._write, "effect_intend", **named(self._fence)))):
            return Ended(error=fence_lost(self._fence))
        crash_point("effect.intend.after_commit")
        ended: Ended = yield Call(run)
        crash_point("effect.run.after_effect")
        ended, state, result, failure = self._judged(ended)
        settle = {"state": state, "result": result, "failure": failure}
        number = self._fence.number
        if not (yield Ask(partial(self._write, "effect_settle", fence=number, **settle))):
            return Ended(error=fence_lost(self._fence))
        crash_point("effect.settle.after_commit")
        return ended

    def _judged(self, ended: Ended) -> tuple[Ended, str, str | None, str | None]:
        """Return how it ended as the caller is told, and as it is recorded."""
        error = ended.error
        if error is None:
            result, told = stored(self._results, ended.value, self._name)
            return told, "done", None if result is None else result.decode(), None
        state = "failed"
        if isinstance(error, (OutcomeUnknown, KeyAmbiguous)):
            state = "ambiguous"
        elif isinstance(error, (Retryable, *self._retry_on)) and not is_replayed(error):
            state = "free"
        return Ended(error=error), state, None, write_failure(failure_of(error))

    def _reconcile(
        self, decide: Callable[[], Verdict] | None, fence: int
    ) -> Generator[Step, Any, Ended | None]:
        place = self._place
        ended: Ended = (yield Call(decide)) if decide is not None else Ended()
        if ended.error is not None:
            return ended
        verdict = ended.value
        if not isinstance(verdict, (Done, NotDone)):
            message = f"{place['scope']} {place['key']}: the step {place['name']} was begun, then "
            return Ended(error=KeyAmbiguous(f"{message}silence", **place, effect=place["name"]))
        said: dict[str, Any] = {"not_done": True}
        if isinstance(verdict, Done):
            said = {"done": json.loads(self._results.write(verdict.result))}
        decided = partial(
            self._outcomes.reconcile,
            place["scope"],
            place["key"],
            **said,
            effect=place["name"],
            fence=fence,
            actor="reconcile hook",
            reason="asked at the next run",
        )
        with suppress(NotReconcilable):  # Somebody else has decided; look again.
            yield Ask(decided)
        return None

    def _write(self, name: str, **params: object) -> list[Row]:
        every = {**self._place, **params}
        return self._store.write_apart(lambda tx: tx.query(name, **every))

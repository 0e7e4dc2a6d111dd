"""Steps: what a running call asks for, and two drivers that do it: here and now, or awaited.

The logic of a call is a generator that yields steps, so that it is written once for `def` and
`async def`. Knows nothing of outcomes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from onceward.errors import Retryable
from onceward.outcomes.threads import Cancellation
from onceward.seams import Clock


@dataclass(slots=True)
class Ended:
    """How a call ended: with a value, or with an error."""

    value: Any = None
    error: Exception | None = None

    def outcome(self) -> Any:  # noqa: ANN401 - whatever the function returned
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(slots=True)
class Ask:
    """Something short that may block, such as a commit."""

    call: Callable[[], Any]


@dataclass(slots=True)
class Call:
    """The user's function or hook; answered with how it ended."""

    call: Callable[[], Any]


@dataclass(slots=True)
class Sleep:
    """A wait."""

    seconds: float


@dataclass(slots=True)
class Turn:
    """Begin or end work of which an event loop may have one at a time: a thread writes once."""

    begin: bool


Step = Ask | Call | Sleep | Turn
Steps = Generator[Step, Any, Ended]


def drive(steps: Steps, clock: Clock) -> Ended:
    """Do every step in this thread."""
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                answer = _do(step, clock)
            except BaseException as exc:  # noqa: BLE001 - the generator decides
                step = steps.throw(exc)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


def _do(step: Step, clock: Clock) -> object:
    if isinstance(step, Call):
        try:
            return Ended(value=step.call())
        except Exception as exc:  # noqa: BLE001 - recorded, or given to the caller
            return Ended(error=exc)
    if isinstance(step, Sleep):
        clock.sleep(step.seconds)
    return step.call() if isinstance(step, Ask) else None


async def drive_async(steps: Steps, turns: Turns | None) -> Ended:
    """Await the user's function, and let nothing block the event loop.

    A commit that was begun is awaited even when the task is cancelled meanwhile: what it did is
    known then. A function that has not begun does not begin any more.
    """
    held: asyncio.Lock | None = None
    cancellation = Cancellation()
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Turn):
                    held = await _turn(step, turns, held)
                    answer = None
                elif isinstance(step, Ask):
                    answer = await cancellation.after(step.call)
                else:
                    answer = await _await(step, cancellation)
            except BaseException as exc:  # noqa: BLE001 - the generator decides
                step = steps.throw(exc)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended
    finally:
        if held is not None:
            held.release()
        cancellation.go_on()


async def _await(step: Call | Sleep, cancellation: Cancellation) -> object:
    if isinstance(step, Sleep):
        cancellation.go_on()
        await asyncio.sleep(step.seconds)
        return None
    if cancellation.was_asked:
        return Ended(error=Retryable("cancelled before it began"))
    try:
        made = step.call()
        return Ended(value=await made if inspect.isawaitable(made) else made)
    except Exception as exc:  # noqa: BLE001 - recorded, or given to the caller
        return Ended(error=exc)


class Turns:
    """One lock for each event loop."""

    def __init__(self) -> None:
        """Begin without any."""
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def here(self) -> asyncio.Lock:
        """Return the lock of the running loop."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


async def _turn(step: Turn, turns: Turns | None, held: asyncio.Lock | None) -> asyncio.Lock | None:
    if held is not None and not step.begin:
        held.release()
        return None
    if step.begin and turns is not None:
        held = turns.here()
        await held.acquire()
    return held


_turns: WeakKeyDictionary[object, Turns] = WeakKeyDictionary()


def turns_of(store: object) -> Turns:
    """Return the locks for those who write to this store from event loops."""
    return _turns.setdefault(store, Turns())

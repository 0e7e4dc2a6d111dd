"""Steps: what a running call asks for, and two drivers that do it: here and now, or awaited.

The logic of a call is a generator that yields steps, so that it is written once for `def` and
`async def`. Knows nothing of outcomes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from onceward.errors import Retryable, StoreBusy
from onceward.outcomes.threads import Cancellation, Kind
from onceward.seams import Clock
from onceward.stores import Store
from onceward.stores.semaphore import FairSemaphore

#: How long a task waits for a transaction while none of those that are open ends.
STALLED_SECONDS_MAX: Final = 60.0


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
    #: The threads that an event loop runs it in. Default: `kind_for` the store.
    kind: Kind | None = None


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
    """Begin or end a transaction; an event loop may have only so many open at a time.

    On SQLite one, because a thread writes once; on PostgreSQL as many as the store has places.
    Answered with whether the driver has waited for that.
    """

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


async def drive_async(steps: Steps, store: Store) -> Ended:
    """Await the user's function, and let nothing of ours block the event loop.

    A commit that was begun is awaited even when the task is cancelled meanwhile: what it did is
    known then. A function that has not begun does not begin any more.
    """
    release: Callable[[], None] | None = None
    cancellation = Cancellation()
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Turn):
                    ended_turn, release = release, None
                    if ended_turn is not None:
                        ended_turn()
                    release = await turn_of(store) if step.begin else None
                    answer = release is not None
                elif isinstance(step, Ask):
                    kind = step.kind or kind_for(store)
                    answer = await cancellation.after(step.call, kind=kind)
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
        if release is not None:
            release()
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
    """One place for each event loop."""

    def __init__(self) -> None:
        """Begin without any."""
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, FairSemaphore] = (
            WeakKeyDictionary()
        )

    def here(self) -> FairSemaphore:
        """Return the place of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._places.get(loop)
        if found is None or found.is_of_the_parent:
            found = self._places[loop] = FairSemaphore(1)
        return found


async def turn_of(store: Store) -> Callable[[], None]:
    """Wait until this event loop may open a transaction; return what lets the next one do so."""
    places = store.places or turns_of(store.shared_writer).here()
    if not await places.acquire_async(STALLED_SECONDS_MAX):
        message = f"no transaction of this process ended in {STALLED_SECONDS_MAX:g} s"
        fix = "keep them short; await nothing inside one that needs another one to end"
        raise StoreBusy(message, fix=fix)
    return places.release


def kind_for(store: Store) -> Kind:
    """Return the threads for a step that may wait for others.

    Those may wait for the transaction that this context has open: it needs threads apart from them.
    """
    tx = store.current()
    return "going_on" if tx is not None and tx.is_writing else "waiting"


_turns: WeakKeyDictionary[object, Turns] = WeakKeyDictionary()


def turns_of(writer: object) -> Turns:
    """Return the places for those who write from event loops, by `Store.shared_writer`."""
    return _turns.setdefault(writer, Turns())

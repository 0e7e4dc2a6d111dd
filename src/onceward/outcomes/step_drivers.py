"""Step drivers: run the steps of an idempotent call synchronously or in an event loop.

The logic of a call is a generator that yields steps, so that `def` and `async def` share it.
Knows nothing of outcomes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from onceward.errors import Retryable, StoreBusy
from onceward.outcomes.blocking_calls import DeferredCancellation, ThreadKind
from onceward.stores import Store
from onceward.stores.semaphore import FairSemaphore
from onceward.system import Clock

#: How long a task waits for a slot to open a transaction.
SLOT_WAIT_SECONDS_MAX: Final = 60.0


@dataclass(slots=True)
class CallResult:
    """The value of a call, or its error."""

    value: Any = None
    error: Exception | None = None

    def outcome(self) -> Any:  # noqa: ANN401 - whatever the function returned
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(slots=True)
class BlockingStep:
    """A short call that may block, such as a commit."""

    call: Callable[[], Any]
    #: The threads that an event loop runs it in. Default: `thread_kind_for` the store.
    kind: ThreadKind | None = None


@dataclass(slots=True)
class UserCallStep:
    """A call of the user's function or hook; the driver answers with its CallResult."""

    call: Callable[[], Any]


@dataclass(slots=True)
class SleepStep:
    """A pause."""

    seconds: float


@dataclass(slots=True)
class TransactionSlotStep:
    """Acquire or release a slot to open a transaction in an event loop.

    SQLite has one slot, because a thread writes once; PostgreSQL has the store's `places`.
    The driver answers whether it holds a slot.
    """

    begin: bool


Step = BlockingStep | UserCallStep | SleepStep | TransactionSlotStep
Steps = Generator[Step, Any, CallResult]


def drive(steps: Steps, clock: Clock) -> CallResult:
    """Run every step in this thread."""
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                answer = _run_step(step, clock)
            except BaseException as exc:  # noqa: BLE001 - the generator decides
                step = steps.throw(exc)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        ended: CallResult = stop.value
        return ended


def _run_step(step: Step, clock: Clock) -> object:
    if isinstance(step, UserCallStep):
        try:
            return CallResult(value=step.call())
        except Exception as exc:  # noqa: BLE001 - recorded, or given to the caller
            return CallResult(error=exc)
    if isinstance(step, SleepStep):
        clock.sleep(step.seconds)
    return step.call() if isinstance(step, BlockingStep) else None


async def drive_async(steps: Steps, store: Store) -> CallResult:
    """Run the steps in an event loop: await the user's function, run blocking steps in threads.

    A commit that has begun is awaited even when the task is cancelled, so that its result is known.
    A function that has not begun is not called any more.
    """
    release: Callable[[], None] | None = None
    cancellation = DeferredCancellation()
    answer: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, TransactionSlotStep):
                    release_ended, release = release, None
                    if release_ended is not None:
                        release_ended()
                    release = await acquire_transaction_slot(store) if step.begin else None
                    answer = release is not None
                elif isinstance(step, BlockingStep):
                    kind = step.kind or thread_kind_for(store)
                    answer = await cancellation.run(step.call, kind=kind)
                else:
                    answer = await _run_step_async(step, cancellation)
            except BaseException as exc:  # noqa: BLE001 - the generator decides
                step = steps.throw(exc)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        ended: CallResult = stop.value
        return ended
    finally:
        if release is not None:
            release()
        cancellation.raise_if_requested()


async def _run_step_async(
    step: UserCallStep | SleepStep, cancellation: DeferredCancellation
) -> object:
    if isinstance(step, SleepStep):
        cancellation.raise_if_requested()
        await asyncio.sleep(step.seconds)
        return None
    if cancellation.is_requested:
        message = "the call was cancelled before its function began; nothing was done"
        return CallResult(error=Retryable(message, fix="call again"))
    try:
        made = step.call()
        return CallResult(value=await made if inspect.isawaitable(made) else made)
    except Exception as exc:  # noqa: BLE001 - recorded, or given to the caller
        return CallResult(error=exc)


class LoopSlots:
    """One slot for each event loop."""

    def __init__(self) -> None:
        """Begin without any."""
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, FairSemaphore] = (
            WeakKeyDictionary()
        )

    def of_running_loop(self) -> FairSemaphore:
        """Return the slot of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._slots.get(loop)
        if found is None or found.is_of_the_parent:
            found = self._slots[loop] = FairSemaphore(1)
        return found


async def acquire_transaction_slot(store: Store) -> Callable[[], None]:
    """Wait until this event loop may open a transaction; return what frees the slot."""
    slots = store.transaction_slots or loop_slots_of(store.writer_identity).of_running_loop()
    if not await slots.acquire_async(SLOT_WAIT_SECONDS_MAX):
        message = (
            "no transaction could be opened, because no open one of this process ended within "
            f"{SLOT_WAIT_SECONDS_MAX:g} s; nothing was done"
        )
        fix = "keep transactions short; inside one, await nothing that needs a second one"
        raise StoreBusy(message, fix=fix)
    return slots.release


def thread_kind_for(store: Store) -> ThreadKind:
    """Return the kind of thread for a step that may wait for other transactions.

    They may wait for the transaction that this context has open, so it needs separate threads.
    """
    tx = store.current()
    return "in_transaction" if tx is not None and tx.is_writing else "waiting"


_loop_slots: WeakKeyDictionary[object, LoopSlots] = WeakKeyDictionary()


def loop_slots_of(writer: object) -> LoopSlots:
    """Return the slots for writers in event loops, by `Store.writer_identity`."""
    return _loop_slots.setdefault(writer, LoopSlots())

"""HTTP concurrency: limit how many requests have transactions open; on SQLite, to one writer.

A transaction stays open until its request is answered, which needs the event loop. A handler that
blocked the loop to wait for it would deadlock, so requests queue here: handlers in threads block,
handlers on the loop await.
"""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from onceward.errors import StoreBusy
from onceward.outcomes.step_drivers import loop_slots_of
from onceward.stores import Store
from onceward.stores.semaphore import FairSemaphore

#: How long a request waits for a slot.
SLOT_WAIT_SECONDS_MAX: Final = 10.0


class RequestSlot:
    """The slot that one request needs to open its transaction."""

    def __init__(self, store: Store) -> None:
        """Prepare a slot of this store; `acquire` takes it."""
        self._store = store
        self._slots = store.transaction_slots or _writer_slot_of(store.writer_identity)
        self._loop_slot: FairSemaphore | None = None

    def acquire(self) -> None:
        """Wait in a thread; on the event loop, which must not block, take only a free slot."""
        if not self._slots.acquire(0 if _is_on_loop() else SLOT_WAIT_SECONDS_MAX):
            fix = "try again; in an `async def` handler, open it with `async with`"
            raise StoreBusy(self._busy(), fix=fix)

    async def acquire_async(self) -> None:
        """Wait on the event loop; on SQLite, also for functions with @once on that loop."""
        try:
            async with asyncio.timeout(SLOT_WAIT_SECONDS_MAX):
                await self._acquire_async()
        except TimeoutError:
            raise StoreBusy(self._busy()) from None

    async def _acquire_async(self) -> None:
        if self._store.transaction_slots is None:
            self._loop_slot = loop_slots_of(self._store.writer_identity).of_running_loop()
            await self._loop_slot.acquire_async()
        try:
            await self._slots.acquire_async()
        except BaseException:
            if self._loop_slot is not None:
                self._loop_slot.release()
            raise

    def release(self) -> None:
        """Let the next request in. Safe to call from any thread."""
        self._slots.release()
        if self._loop_slot is not None:
            self._loop_slot.release()

    def _busy(self) -> str:
        if self._store.transaction_slots is None:
            return "another request has its transaction open; nothing was done"
        return "all transactions that this process may have open are in use; nothing was done"


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_writer_slots: Final[WeakKeyDictionary[object, FairSemaphore]] = WeakKeyDictionary()
_mutex: Final = Lock()


def _writer_slot_of(writer: object) -> FairSemaphore:
    with _mutex:
        found = _writer_slots.get(writer)
        if found is None or found.is_of_the_parent:
            found = _writer_slots[writer] = FairSemaphore(1)
        return found

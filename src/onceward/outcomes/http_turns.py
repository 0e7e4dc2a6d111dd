"""Turns: how many requests have transactions open at a time; on SQLite, where they write, one.

A transaction stays open until its request is answered, which needs the event loop. Whoever blocked
the loop to wait for it would wait for ever, so requests queue here, where a handler in a thread can
wait as well as one on the loop.
"""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from onceward.errors import StoreBusy
from onceward.outcomes.steps import turns_of
from onceward.stores import Store
from onceward.stores.semaphore import FairSemaphore

#: How long a request waits for its turn.
TURN_SECONDS_MAX: Final = 10.0


class Turn:
    """The turn of one request."""

    def __init__(self, store: Store) -> None:
        """Wait before this store; nothing is taken yet."""
        self._store = store
        self._places = store.places or _one_place_of(store.shared_writer)
        self._held: FairSemaphore | None = None

    def wait(self) -> None:
        """Wait in a thread; on the event loop, where nobody may wait, only take what is free."""
        if not self._places.acquire(0 if _is_on_loop() else TURN_SECONDS_MAX):
            fix = "try again; in an `async def` handler, open it with `async with`"
            raise StoreBusy(self._busy(), fix=fix)

    async def wait_async(self) -> None:
        """Wait on the event loop; on SQLite, for functions with @once there too."""
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._wait_async()
        except TimeoutError:
            raise StoreBusy(self._busy()) from None

    async def _wait_async(self) -> None:
        if self._store.places is None:
            self._held = turns_of(self._store.shared_writer).here()
            await self._held.acquire_async()
        try:
            await self._places.acquire_async()
        except BaseException:
            if self._held is not None:
                self._held.release()
            raise

    def leave(self) -> None:
        """Let the next one in, from whatever thread."""
        self._places.release()
        if self._held is not None:
            self._held.release()

    def _busy(self) -> str:
        if self._store.places is None:
            return "another request has its transaction open"
        return "as many transactions are open in this process as may be"


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_places: Final[WeakKeyDictionary[object, FairSemaphore]] = WeakKeyDictionary()
_mutex: Final = Lock()


def _one_place_of(writer: object) -> FairSemaphore:
    with _mutex:
        found = _places.get(writer)
        if found is None or found.is_of_the_parent:
            found = _places[writer] = FairSemaphore(1)
        return found

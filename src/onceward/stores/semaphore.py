"""Semaphore: a limited number of slots that threads and asyncio tasks wait for in one FIFO queue.

asyncio's semaphore serves one event loop; threading's would block it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock

from onceward.stores import fork_safety


class FairSemaphore:
    """Slots, granted in the order of the requests."""

    def __init__(self, slots: int) -> None:
        """Start with this many free slots."""
        self._mutex = Lock()
        self._free = slots
        self._requests: deque[Future[None]] = deque()
        #: How often a slot was released.
        self._releases = 0
        self._fork_number = fork_safety.number

    @property
    def is_of_the_parent(self) -> bool:
        """Return whether this is a forked child, which must create a new semaphore."""
        return self._fork_number != fork_safety.number

    def acquire(self, seconds: float) -> bool:
        """Take a slot, blocking this thread at most this long; return whether there was one."""
        if self._is_taken():
            return True
        request = self._request()
        try:
            request.result(seconds)
        except TimeoutError:
            self._withdraw(request)
            return False
        except BaseException:
            self._withdraw(request)
            raise
        return True

    async def acquire_async(self, stalled_seconds: float | None = None) -> bool:
        """Take a slot without blocking the event loop; a cancelled task leaves the queue.

        Return False if no slot was released for `stalled_seconds`: the tasks that hold
        them may be waiting for this one.
        """
        if self._is_taken():
            return True
        request = self._request()
        granted = asyncio.wrap_future(request)
        try:
            releases = -1
            while not granted.done() and releases != self._releases:
                releases = self._releases
                await asyncio.wait((granted,), timeout=stalled_seconds)
        except BaseException:
            self._withdraw(request)
            raise
        if not granted.done():
            self._withdraw(request)
        return granted.done()

    def release(self) -> None:
        """Release a slot, from any thread; the oldest request gets it."""
        if self.is_of_the_parent:
            return  # The parent process took it, and its mutex may be locked for ever here.
        with self._mutex:
            self._releases += 1
            while self._requests:
                request = self._requests.popleft()
                if request.set_running_or_notify_cancel():
                    break
            else:
                self._free += 1
                return
        request.set_result(None)

    def _is_taken(self) -> bool:
        """Take a free slot if there is one; then no requests are queued."""
        with self._mutex:
            if self._free:
                self._free -= 1
                return True
        return False

    def _request(self) -> Future[None]:
        """Return a future that is done once a slot is granted to it."""
        request: Future[None] = Future()
        with self._mutex:
            if not self._free:
                self._requests.append(request)
                return request
            self._free -= 1
        request.set_running_or_notify_cancel()
        request.set_result(None)
        return request

    def _withdraw(self, request: Future[None]) -> None:
        """Leave the queue, or release a slot that was granted at the same moment."""
        if not request.cancel():
            self.release()
            return
        with self._mutex, suppress(ValueError):
            self._requests.remove(request)

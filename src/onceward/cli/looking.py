"""Looking: waiting for something that other processes may write, so that one can always leave.

A look can block for as long as somebody else holds a lock, and it can fail for a moment; neither is
the end of the waiting, and neither keeps the command from ending. Knows not what is looked for.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from onceward.errors import OncewardError, StorageError
from onceward.seams import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceward.lab.lab import Lab

T = TypeVar("T")
#: How often to look for what other processes did; what this one did is known at once.
LOOK_SECONDS: Final = 1.0
#: When every look has failed for so long, it is no longer a moment.
FAILING_SECONDS_MAX: Final = 60.0
#: How long the last look may take when the command is about to end.
LAST_LOOK_SECONDS: Final = 0.5
#: A page asks again at most five seconds after its server went away.
ANSWER_SECONDS_MAX: Final = 6.0


class Looking(Generic[T]):
    """A search that goes on until something is found; each look is in a thread left to itself."""

    def __init__(self, look: Callable[[], T | None], *, clock: Clock | None = None) -> None:
        """Look with this, which gives None as long as there is nothing."""
        self._look, self._clock = look, clock or SystemClock()
        #: What was found; None until then.
        self.found: T | None = None
        #: Why the last look failed; None when it did not.
        self.error: StorageError | None = None
        self._failing_since = 0.0
        self._thread: threading.Thread | None = None

    async def until_found(
        self, on_change: Callable[[Callable[[], None]], None], seconds: float | None
    ) -> None:
        """Return when something is found, or after so many seconds; looks after every change.

        Raises:
            StorageError: For a minute, no look has succeeded; this is why the last one failed.

        """
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # The loop is closed, so nobody waits there any more.
                loop.call_soon_threadsafe(changed.set)

        on_change(ring)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._look_aside():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), LOOK_SECONDS)
                    changed.clear()

    def look_last(self) -> None:
        """Look once more, but not for long: whoever ends the command wants it to end."""

        def attempt() -> None:
            with suppress(OncewardError):
                self._attempt()

        if self._thread is not None:
            self._thread.join(LAST_LOOK_SECONDS)
        if self.found is None and not (self._thread and self._thread.is_alive()):
            self._start(attempt).join(LAST_LOOK_SECONDS)

    async def _look_aside(self) -> bool:
        """Look in a thread of its own, which nobody has to wait for."""
        import asyncio

        loop = asyncio.get_running_loop()
        looked: asyncio.Future[bool] = loop.create_future()

        def tell(is_found: bool, error: BaseException | None) -> None:
            if looked.done():
                return  # Nobody waits for it any more.
            if error is None:
                looked.set_result(is_found)
            else:
                looked.set_exception(error)

        def attempt() -> None:
            is_found, error = False, None
            try:
                is_found = self._attempt()
            except Exception as exc:  # noqa: BLE001 - raised again where it is waited for
                error = exc
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(tell, is_found, error)

        self._start(attempt)
        return await looked

    def _start(self, attempt: Callable[[], None]) -> threading.Thread:
        self._thread = threading.Thread(target=attempt, daemon=True)
        self._thread.start()
        return self._thread

    def _attempt(self) -> bool:
        """Look, and say whether it is found; a failure counts only if it lasts."""
        try:
            self.found = self._look()
        except StorageError as exc:
            now = self._clock.monotonic()
            if self.error is None:
                self._failing_since = now
            self.error = exc
            if now - self._failing_since >= FAILING_SECONDS_MAX:
                raise
            return False
        self.error = None
        return self.found is not None


class Submissions:
    """Whether a server has taken all the submissions that it was started for."""

    def __init__(self, lab: Lab, wanted: int, *, clock: Clock | None = None) -> None:
        """Wait for so many."""
        self._lab, self._wanted, self._clock = lab, wanted, clock or SystemClock()
        self._complete_since: float | None = None

    def __call__(self) -> bool | None:
        """Return True once they are there, and answered as far as anybody still asks."""
        if self._lab.submitted < self._wanted:
            return None
        now = self._clock.monotonic()
        if self._complete_since is None:
            self._complete_since = now
        # An earlier server died before it could answer; the page that asked will ask again.
        is_over = now - self._complete_since >= ANSWER_SECONDS_MAX
        return True if is_over or not self._lab.unanswered else None

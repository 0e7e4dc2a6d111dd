"""Interruptible wait: wait for other processes' writes while Ctrl-C keeps working.

A check can block while another process holds a lock, and it can fail temporarily. Neither ends the
wait, and neither keeps the command from ending.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from onceward.errors import OncewardError, StorageError
from onceward.system import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceward.lab.lab import Lab

T = TypeVar("T")
#: How often to check for changes of other processes; changes of this one are signalled.
CHECK_SECONDS: Final = 1.0
#: When every check has failed for this long, the wait fails.
FAILING_SECONDS_MAX: Final = 60.0
#: How long the last check may take when the command is about to end.
LAST_CHECK_SECONDS: Final = 0.5
#: A page retries at most five seconds after its server went away.
ANSWER_SECONDS_MAX: Final = 6.0


class InterruptibleWait(Generic[T]):
    """Repeats a check until it finds something; each check runs in a daemon thread."""

    def __init__(self, look: Callable[[], T | None], *, clock: Clock | None = None) -> None:
        """Wait for `look` to return something other than None."""
        self._look, self._clock = look, clock or SystemClock()
        #: What was found; None until then.
        self.found: T | None = None
        #: Why the last check failed; None if it did not.
        self.error: StorageError | None = None
        self._failing_since = 0.0
        self._thread: threading.Thread | None = None

    async def until_found(
        self, on_change: Callable[[Callable[[], None]], None], seconds: float | None
    ) -> None:
        """Return when something is found, or after `seconds`; checks after every change.

        Raises:
            StorageError: No check has succeeded for a minute; the last failure.

        """
        import asyncio

        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(changed.set)

        on_change(notify)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._check_in_thread():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), CHECK_SECONDS)
                    changed.clear()

    def check_last(self) -> None:
        """Check a last time, briefly: the command is about to end."""

        def attempt() -> None:
            with suppress(OncewardError):
                self._attempt()

        if self._thread is not None:
            self._thread.join(LAST_CHECK_SECONDS)
        if self.found is None and not (self._thread and self._thread.is_alive()):
            self._start(attempt).join(LAST_CHECK_SECONDS)

    async def _check_in_thread(self) -> bool:
        """Check in a daemon thread, which does not delay the exit."""
        import asyncio

        loop = asyncio.get_running_loop()
        checked: asyncio.Future[bool] = loop.create_future()

        def finish(is_found: bool, error: BaseException | None) -> None:
            if checked.done():
                return  # Cancelled.
            if error is None:
                checked.set_result(is_found)
            else:
                checked.set_exception(error)

        def attempt() -> None:
            is_found, error = False, None
            try:
                is_found = self._attempt()
            except Exception as exc:  # noqa: BLE001 - raised again by the awaiting caller
                error = exc
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(finish, is_found, error)

        self._start(attempt)
        return await checked

    def _start(self, attempt: Callable[[], None]) -> threading.Thread:
        self._thread = threading.Thread(target=attempt, daemon=True)
        self._thread.start()
        return self._thread

    def _attempt(self) -> bool:
        """Check, and return whether it was found; only a lasting failure is raised."""
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


class ExpectedSubmissions:
    """Check whether a server has received the submissions that it was started for."""

    def __init__(self, lab: Lab, wanted: int, *, clock: Clock | None = None) -> None:
        """Expect `wanted` submissions."""
        self._lab, self._wanted, self._clock = lab, wanted, clock or SystemClock()
        self._complete_since: float | None = None

    def __call__(self) -> bool | None:
        """Return True once all are received and acknowledged, else None."""
        if self._lab.submitted < self._wanted:
            return None
        now = self._clock.monotonic()
        if self._complete_since is None:
            self._complete_since = now
        # An earlier server died before it could answer; its page retries.
        is_over = now - self._complete_since >= ANSWER_SECONDS_MAX
        return True if is_over or not self._lab.completed_unacknowledged else None

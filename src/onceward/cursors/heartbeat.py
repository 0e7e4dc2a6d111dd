"""Lease heartbeat: renew the leases of a process in one thread while their handlers work.

A handler may be busy for longer than its lease; this thread is not. When the store does not answer
it retries: the lease may still be valid, and the fencing token decides in the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from onceward.errors import InvalidArgument, LeaseLost
from onceward.system import Clock, SystemClock

if TYPE_CHECKING:
    from onceward.cursors.lease import Lease

#: Retries of a failed renewal before the next one would have been due.
RETRIES_PER_HEARTBEAT: Final = 4
_log = logging.getLogger("onceward.cursors")


class _RenewedLease:
    """One lease that is renewed, and when it is due next."""

    def __init__(self, lease: Lease, seconds: float, now: float) -> None:
        self.lease = lease
        self.seconds = seconds
        #: At once: how much of the lease has passed is unknown.
        self.due = now
        self.holders = 1

    def renew(self) -> float:
        """Renew, and return the seconds until the next time."""
        try:
            self.lease.renew()
        except LeaseLost as exc:
            if not self.lease.is_released:
                _log.warning("lease lost", extra={"action": "lease_lost", **exc.context})
        except Exception as exc:  # noqa: BLE001 - without this thread every lease would expire
            extra = {"action": "lease_not_renewed", "cursor": self.lease.name, "error": str(exc)}
            _log.warning("lease not renewed, trying again", extra=extra)
            return self.seconds / RETRIES_PER_HEARTBEAT
        return self.seconds


class LeaseHeartbeat:
    """The leases of one process that are renewed in the background."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        """Start no thread yet; it runs while there is a lease to renew."""
        self._clock = clock or SystemClock()
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._renewed: dict[Lease, _RenewedLease] = {}
        self._thread: threading.Thread | None = None

    def _after_fork(self) -> None:
        """Discard the parent's thread and leases: neither is in this process."""
        if self._process != os.getpid():
            self._reset()

    def add(self, lease: Lease, seconds: float) -> None:
        """Renew this lease at this interval until it is removed, dropped or lost."""
        if not 0 < seconds < lease.lease_seconds:
            message = (
                "heartbeat_seconds: must be more than 0 and less than lease_seconds, "
                f"{lease.lease_seconds:g}, not {seconds!r}"
            )
            raise InvalidArgument(
                message,
                fix="omit heartbeat_seconds, or pass a third of the lease",
                field="heartbeat_seconds",
            )
        self._after_fork()
        with self._changed:
            renewed = self._renewed.get(lease)
            if renewed is not None:
                renewed.holders += 1
                renewed.seconds = min(renewed.seconds, seconds)
            else:
                self._renewed[lease] = _RenewedLease(lease, seconds, self._clock.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="onceward-heartbeat", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def remove(self, lease: Lease) -> None:
        """Undo one `add`."""
        self._after_fork()
        with self._changed:
            renewed = self._renewed.get(lease)
            if renewed is None:
                return
            renewed.holders -= 1
            if not renewed.holders:
                del self._renewed[lease]
                self._changed.notify_all()

    def drop(self, lease: Lease) -> None:
        """Stop renewing this lease, for all its holders."""
        self._after_fork()
        with self._changed:
            if self._renewed.pop(lease, None) is not None:
                self._changed.notify_all()

    @contextmanager
    def hold(self, lease: Lease, seconds: float) -> Iterator[None]:
        """Renew a lease while the block runs; see `Lease.hold`."""
        lease.check()
        cancellation = _TaskCancellation()
        self.add(lease, seconds)
        try:
            with lease.when_lost(cancellation.request):
                yield
        except asyncio.CancelledError as exc:
            if cancellation.end():
                lease.check()  # Raises LeaseLost, the reason for the cancellation.
            raise exc  # noqa: TRY201 - the error that was caught, not a later one
        finally:
            cancellation.end()
            self.remove(lease)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._renewed:
                    self._thread = None
                    return
                now = self._clock.monotonic()
                due = [each for each in self._renewed.values() if each.due <= now]
                if not due:
                    self._changed.wait(min(each.due for each in self._renewed.values()) - now)
                    continue
            for each in due:
                each.due = now + each.renew()


class _TaskCancellation:
    """Cancels the asyncio task inside a block, if there is one, when the lease is lost."""

    def __init__(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()
        except RuntimeError:
            self._task = None
        self._asked = False
        self._ended = False

    def request(self) -> None:
        """Cancel the task, from any thread."""
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._cancel)

    def end(self) -> bool:
        """Stop cancellation; return whether the task was cancelled by this alone."""
        self._ended = True
        asked, self._asked = self._asked, False
        return asked and self._task is not None and self._task.uncancel() == 0

    def _cancel(self) -> None:
        # In the loop's own thread, as the block is: it cannot end in between.
        if not self._ended and self._task is not None:
            self._asked = True
            self._task.cancel("the lease is lost")

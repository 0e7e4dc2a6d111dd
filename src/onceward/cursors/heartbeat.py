"""Heartbeat: one thread that renews the leases of a process while their handlers work.

A handler may be busy for longer than its lease; this thread is not. A store that does not answer is
no lost lease: it tries again, and the fence decides in the end.
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
from onceward.seams import Clock, SystemClock

if TYPE_CHECKING:
    from onceward.cursors.lease import Lease

#: After a failed renewal, try again so many times before the next would have been due.
RETRIES_PER_HEARTBEAT: Final = 4
_log = logging.getLogger("onceward.cursors")


class _Beat:
    """One lease that is kept, and when it is to be renewed next."""

    def __init__(self, lease: Lease, seconds: float, now: float) -> None:
        self.lease = lease
        self.seconds = seconds
        #: At once: nobody knows how much of the lease was used up before.
        self.due = now
        self.holders = 1

    def beat(self) -> float:
        """Renew, and return the seconds until the next time."""
        try:
            self.lease.renew()
        except LeaseLost as exc:
            if not self.lease.is_released:
                _log.warning("lease lost", extra={"action": "lease_lost", **exc.context})
        except Exception as exc:  # noqa: BLE001 - without this thread every lease would run out
            extra = {"action": "lease_not_renewed", "cursor": self.lease.name, "error": str(exc)}
            _log.warning("lease not renewed, trying again", extra=extra)
            return self.seconds / RETRIES_PER_HEARTBEAT
        return self.seconds


class Heartbeat:
    """The leases of one process that are renewed in the background."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        """Start nothing; the thread lives while there is a lease to keep."""
        self._clock = clock or SystemClock()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._beats: dict[Lease, _Beat] = {}
        self._thread: threading.Thread | None = None

    def _after_fork(self) -> None:
        """Forget the parent's thread and leases: neither is in this process."""
        if self._process != os.getpid():
            self._begin_anew()

    def add(self, lease: Lease, seconds: float) -> None:
        """Renew this lease every so many seconds, until it is dropped or lost."""
        if not 0 < seconds < lease.lease_seconds:
            message = f"heartbeat_seconds: must be less than the lease's {lease.lease_seconds:g}"
            raise InvalidArgument(message, fix="leave it out", field="heartbeat_seconds")
        self._after_fork()
        with self._changed:
            kept = self._beats.get(lease)
            if kept is not None:
                kept.holders += 1
                kept.seconds = min(kept.seconds, seconds)
            else:
                self._beats[lease] = _Beat(lease, seconds, self._clock.monotonic())
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
            kept = self._beats.get(lease)
            if kept is None:
                return
            kept.holders -= 1
            if not kept.holders:
                del self._beats[lease]
                self._changed.notify_all()

    def drop(self, lease: Lease) -> None:
        """Renew this lease no more, whoever wanted it."""
        self._after_fork()
        with self._changed:
            if self._beats.pop(lease, None) is not None:
                self._changed.notify_all()

    @contextmanager
    def hold(self, lease: Lease, seconds: float) -> Iterator[None]:
        """Keep a lease while the block runs; see `Lease.hold`."""
        lease.check()
        cancelling = _Cancelling()
        self.add(lease, seconds)
        try:
            with lease.when_lost(cancelling.request):
                yield
        except asyncio.CancelledError as exc:
            if cancelling.end():
                lease.check()  # Raises: the loss is why it was cancelled.
            raise exc  # noqa: TRY201 - it is what we caught, whatever happened since
        finally:
            cancelling.end()
            self.remove(lease)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._beats:
                    self._thread = None
                    return
                now = self._clock.monotonic()
                due = [beat for beat in self._beats.values() if beat.due <= now]
                if not due:
                    self._changed.wait(min(beat.due for beat in self._beats.values()) - now)
                    continue
            for beat in due:
                beat.due = now + beat.beat()


class _Cancelling:
    """The asyncio task inside a block, if there is one, and whether we asked it to end."""

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
        """Let the task be; say whether it was cancelled by us alone."""
        self._ended = True
        asked, self._asked = self._asked, False
        return asked and self._task is not None and self._task.uncancel() == 0

    def _cancel(self) -> None:
        # In the loop's own thread, as the block is: it cannot end in between.
        if not self._ended and self._task is not None:
            self._asked = True
            self._task.cancel("the lease is lost")

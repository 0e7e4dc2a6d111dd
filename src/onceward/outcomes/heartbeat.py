"""Claim heartbeat: renew the claims of this process while their functions run.

One thread for all of them. A claim that turns out to be lost is not renewed again; its holder
learns of it at the end, where the store rejects the stale write.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final, Self

from onceward.errors import FenceLost
from onceward.outcomes.claims import Claims
from onceward.outcomes.models import Fence
from onceward.system import Clock, SystemClock

#: A claim is renewed when a third of its lease has passed, so two renewals may fail.
RENEWALS_PER_LEASE: Final = 3
_log: Final = logging.getLogger("onceward.outcomes")
#: How long the thread sleeps without claims, unless it is woken.
IDLE_SECONDS: Final = 3600.0


class RenewedClaim:
    """One claim that is renewed until the block ends; unless settled, its lease expires then."""

    def __init__(
        self, heartbeat: ClaimHeartbeat, claims: Claims, fence: Fence, lease_seconds: float
    ) -> None:
        """Describe a claim that is renewed already; leaving the block ends that."""
        self._heartbeat = heartbeat
        self.claims = claims
        self.fence = fence
        self.lease_seconds = lease_seconds
        #: When to renew it, by the heartbeat's clock.
        self.due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.stop_renewing(self)


class ClaimHeartbeat:
    """The claims that this process renews."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Renew by this clock."""
        self._clock = clock or SystemClock()
        self.reset()

    def reset(self) -> None:
        """Discard all claims, as a forked child must: the parent's claims are not its own."""
        self._renewed: set[RenewedClaim] = set()
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._thread: threading.Thread | None = None
        self._wakes_at = 0.0

    def keep_alive(self, claims: Claims, fence: Fence, lease_seconds: float) -> RenewedClaim:
        """Renew a claim from now on."""
        claim = RenewedClaim(self, claims, fence, lease_seconds)
        due = claim.due = self._clock.monotonic() + lease_seconds / RENEWALS_PER_LEASE
        with self._mutex:
            self._renewed.add(claim)
            if self._thread is None:
                try:
                    self._start()
                except BaseException:  # Threads may be exhausted now, and available later.
                    self._thread = None
                    self._renewed.discard(claim)
                    raise
            elif due < self._wakes_at:
                self._changed.notify()
        return claim

    def stop_renewing(self, claim: RenewedClaim) -> None:
        """Let the lease of a claim expire."""
        with self._mutex:
            self._renewed.discard(claim)

    def renew_due(self) -> None:
        """Renew every claim that is due."""
        now = self._clock.monotonic()
        with self._changed:
            due = [claim for claim in self._renewed if claim.due <= now]
        for claim in due:
            self._renew(claim)

    def _renew(self, claim: RenewedClaim) -> None:
        try:
            claim.claims.renew(claim.fence, lease_seconds=claim.lease_seconds)
        except FenceLost:
            # Settled a moment ago, or lost: either way there is nothing to renew.
            with self._changed:
                self._renewed.discard(claim)
        except Exception:  # noqa: BLE001 - see below
            # The next renewal may succeed, and two in three may fail. Whatever it was, this thread
            # goes on: other claims depend on it.
            _log.warning("claim not renewed, trying again", exc_info=True)
        claim.due = self._clock.monotonic() + claim.lease_seconds / RENEWALS_PER_LEASE

    def _start(self) -> None:
        self._wakes_at = 0.0
        self._thread = threading.Thread(
            target=self._run, name="onceward-outcomes-heartbeat", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self.renew_due()
                with self._changed:
                    now = self._clock.monotonic()
                    dues = (each.due for each in self._renewed)
                    self._wakes_at = min(dues, default=now + IDLE_SECONDS)
                    self._changed.wait(max(0.0, self._wakes_at - now))
        finally:
            self._thread = None  # The next claim starts another one.


HEARTBEAT: Final = ClaimHeartbeat()
os.register_at_fork(after_in_child=HEARTBEAT.reset)

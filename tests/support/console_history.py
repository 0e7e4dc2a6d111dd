"""Past: an hour in which cursors progress and are taken over, moved and paused, in seconds.

Everything goes through the library itself, by a clock that starts in the past and catches up.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.errors import LeaseLost
from onceward.retries import Failure, RetryMessage
from onceward.system import SeededRandomness, SystemClock, timestamp
from onceward.workers.lag_sampler import LagSampler
from onceward.workers.sources import TableSource
from tests.support.shop_app import TABLES, add, create

STEPS = 60
STEP_SECONDS = 60.0
LEASE_SECONDS = 90.0
#: What is held at the end is held for longer than any test takes.
LONG_SECONDS = 3_600.0
#: Text that only a person would write.
HOSTILE = "<img src=x onerror=alert(1)> {{7*7}}"


class PastClock(SystemClock):
    """The machine's clock, some seconds behind."""

    def __init__(self, seconds: float) -> None:
        self.behind = seconds

    def now(self) -> datetime:
        return super().now() - timedelta(seconds=self.behind)

    def monotonic(self) -> float:
        return super().monotonic() - self.behind

    def boot_seconds(self) -> float:
        return super().boot_seconds() - self.behind

    def advance(self, seconds: float) -> None:
        self.behind = max(0.0, self.behind - seconds)


class Hour:
    """The cursors of the shop, step by step until now."""

    def __init__(self, ow: Onceward, clock: PastClock) -> None:
        self.ow, self.clock = ow, clock
        self.leases: dict[str, Lease] = {}
        self.places = dict.fromkeys(TABLES, 0)
        self.heads = dict.fromkeys(TABLES, 0)
        self.measuring = LagSampler(ow, clock=clock, randomness=SeededRandomness(1))
        create(ow)
        for cursor, table in TABLES.items():
            source = TableSource(ow, table, time_column="created_at")
            self.measuring.add(cursor, source, is_partition=False)

    def tell(self) -> None:
        for step in range(STEPS):
            self.clock.advance(STEP_SECONDS)
            self._intake(step)
            self._invoices(step)
            self._emails(step)
            self._reports(step)
            self.measuring.measure(is_last=True)

    # --- the four stories ------------------------------------------------------------------------

    def _intake(self, step: int) -> None:
        """All is well: batches, and a holder that renews."""
        self._arrive("lead_intake", 7 + step % 5)
        if step == 0:
            self._take("lead_intake", "alpha/4711/11aa22bb")
        self._work("lead_intake", 1_000 if step % 6 == 5 else 2)
        if step == STEPS - 1:
            self.leases["lead_intake"].release()
            self._take("lead_intake", "alpha/4711/11aa22bb", LONG_SECONDS)
            self._work("lead_intake", 9)

    def _invoices(self, step: int) -> None:
        """A worker dies, and no other takes over: the lag grows."""
        self._arrive("billing/invoices", 4)
        if step == 0:
            self._take("billing/invoices", "beta/99/0badcafe")
        if step < 48:
            self._work("billing/invoices", 4)

    def _emails(self, step: int) -> None:
        """Paused by a person; some messages wait beside it, some were given up."""
        self._arrive("emails", 3)
        if step == 0:
            self._take("emails", "alpha/4711/11aa22bb")
        if step < 50:
            self._work("emails", 3)
        if step == 30:
            self._fail_some("emails")
        if step == 50:
            self.leases["emails"].release()
            self.ow.cursors.pause("emails", "the mail provider is down", "ann@desk")

    def _reports(self, step: int) -> None:
        """Moved by hand and back, taken over from a frozen worker, held up by a message."""
        cursor, ow = "reports v2", self.ow
        self._arrive(cursor, 2)
        if step == 0:
            self._take(cursor, "gamma/7/f005ba11")
        if step in (20, 22):
            frozen = self.leases[cursor]
            if step == 20:
                ow.cursors.seek(cursor, "12", "bad deploy", "ann@desk")
            else:
                ow.cursors.undo(cursor, "ann@desk", "it was the right one")
            self.places[cursor] = int(ow.cursors.show(cursor).position or 0)
            self._refused(frozen)
            self._take(cursor, "gamma/7/f005ba11")
        if step == 33:
            frozen = self.leases[cursor]
            self._take(cursor, "alpha/4711/11aa22bb")
            self._refused(frozen)
        is_frozen = 30 <= step < 33
        if not is_frozen:
            self._work(cursor, 8 if step % 4 == 0 and step < 56 else 0)
        if step == STEPS - 1:
            self._take(cursor, "alpha/4711/11aa22bb", LONG_SECONDS)
            self._hold_up(cursor)

    # --- what they are made of -------------------------------------------------------------------

    def _arrive(self, cursor: str, messages: int) -> None:
        first = self.heads[cursor]
        texts = [f"{TABLES[cursor]} number {first + each}" for each in range(messages)]
        add(self.ow, TABLES[cursor], *texts, at=timestamp(self.clock.now()))
        self.heads[cursor] += messages

    def _take(self, cursor: str, worker: str, seconds: float = LEASE_SECONDS) -> None:
        lease = self.ow.cursors.acquire(cursor, worker, seconds)
        assert lease is not None, (cursor, worker, self.ow.cursors.show(cursor))
        self.leases[cursor] = lease

    def _work(self, cursor: str, messages: int) -> None:
        """Move on, or renew at least."""
        place = min(self.places[cursor] + messages, self.heads[cursor])
        done, self.places[cursor] = place - self.places[cursor], place
        if done:
            self.leases[cursor].checkpoint(str(place), count=done)
        else:
            self.leases[cursor].renew()

    @staticmethod
    def _refused(lease: Lease) -> None:
        """Let a holder that is none any more speak; nothing comes of it."""
        for late in (lambda: lease.checkpoint("999999"), lease.renew):
            with suppress(LeaseLost):
                late()

    def _fail_some(self, cursor: str) -> None:
        """Park three messages, one of them after another of its key, and give two up."""
        retries, place = self.ow.retries, self.places[cursor]
        with self.ow.transaction() as tx:
            for each in range(3):
                failure = (
                    None if each == 2 else Failure(type="Timeout", message="no answer in 10 s")
                )
                message = _message(cursor, place - each, f'{{"to": "bob{each}@example.test"}}')
                retries.parked.park(tx, message, failure=failure)
            for each, text in enumerate(("not JSON", f'{{"to": "{HOSTILE}"}}'), 10):
                error = Failure(type="InvalidAddress", message=f"cannot send to {HOSTILE}")
                retries.dead.add(tx, _message(cursor, place - each, text), error, attempts=3)

    def _hold_up(self, cursor: str) -> None:
        """Fail a message that holds its cursor."""
        lease = self.leases[cursor]
        error = Failure(type="TemplateMissing", message="there is no template 'weekly'")
        with self.ow.transaction() as tx:
            lease.guard(tx)
            message = _message(cursor, self.places[cursor] + 1, '{"report": "weekly"}')
            self.ow.retries.attempts.fail(tx, message, error)
        lease.fail()


def _message(cursor: str, place: int, text: str) -> RetryMessage:
    return RetryMessage(cursor=cursor, position=str(place), raw=text.encode(), key=f"k{place % 2}")

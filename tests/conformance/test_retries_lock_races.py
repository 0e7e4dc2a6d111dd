"""Workers that park meet operators who move: none waits for ever, nothing is lost."""

import threading
from collections.abc import Callable

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import LeaseLost, OutcomeUnknown, StoreUnavailable, Superseded
from onceward.stores import Transaction
from tests.conformance.test_cursors_operators import between
from tests.conformance.test_retries import message
from tests.support.parked_attempts import BROKEN, SCHEDULE, attempt

MOVES = 40


def acquired(ow: Onceward) -> Lease:
    lease = ow.cursors.acquire("leads", "w")
    assert lease is not None
    return lease


def begun(ow: Onceward) -> Lease:
    """Something of every kind waits, and the cursor is at 10."""
    lease = acquired(ow)
    with ow.transaction() as tx:
        ow.retries.parked.park(tx, message("7", key="k"))
        ow.retries.parked.park(tx, message("8", key="k"))
        ow.retries.attempts.fail(tx, message("11"), BROKEN)
        lease.checkpoint("10", tx=tx)
    return lease


def parks(ow: Onceward, tx: Transaction) -> None:
    ow.retries.parked.park(tx, message("11", key="k"))


def succeeds(ow: Onceward, tx: Transaction) -> None:
    ow.retries.parked.succeed(tx, ow.retries.parked.due_heads("leads")[0])


def fails(ow: Onceward, tx: Transaction) -> None:
    head = ow.retries.parked.due_heads("leads")[0]
    ow.retries.parked.fail(tx, head, BROKEN, schedule=SCHEDULE)


def buries(ow: Onceward, tx: Transaction) -> None:
    ow.dead.add(tx, message("11"), BROKEN)


def holds(ow: Onceward, tx: Transaction) -> None:
    ow.retries.attempts.fail(tx, message("11"), BROKEN)


def passes(ow: Onceward, tx: Transaction) -> None:
    ow.retries.attempts.succeed(tx, "leads", "11")


@pytest.mark.parametrize("is_guarded", [True, False])
@pytest.mark.parametrize("work", [parks, succeeds, fails, buries, holds, passes])
def test_a_move_waits_for_the_worker_it_meets(
    ow: Onceward, work: Callable[[Onceward, Transaction], None], is_guarded: bool
) -> None:
    """Whatever the worker has begun lands, and then the cursor moves; neither blocks the other."""
    lease = begun(ow)
    operator = threading.Thread(
        target=lambda: ow.cursors.seek("leads", "5", "why", "ana", count=between)
    )
    with ow.transaction() as tx:
        if is_guarded:
            lease.guard(tx)
        work(ow, tx)
        operator.start()
        operator.join(timeout=0.2)
        assert operator.is_alive()
        lease.checkpoint("11", tx=tx)
    operator.join()
    state = ow.cursors.show("leads")
    assert (state.position, state.lease_owner) == ("5", None)
    assert ow.cursors.history("leads")[0].from_position == "11"
    assert ow.retries.parked.waiting("leads").messages == 0


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_move_does_not_wait_for_a_worker_that_is_frozen_while_it_parks(ow: Onceward) -> None:
    """After a second its connection is ended, as that of a guard is; nothing of it lands."""
    lease = begun(ow)
    with pytest.raises((StoreUnavailable, OutcomeUnknown)), ow.transaction() as tx:
        parks(ow, tx)
        operator = threading.Thread(
            target=lambda: ow.cursors.seek("leads", "9", "why", "ana", count=between)
        )
        operator.start()
        operator.join(timeout=60)
        assert not operator.is_alive()
        lease.checkpoint("11", tx=tx)
    assert ow.cursors.show("leads").position == "9"
    assert ow.retries.parked.waiting("leads").messages == 2


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_redrive_keeps_no_worker_from_its_cursor(ow: Onceward) -> None:
    """Putting thousands of letters back takes longer than a worker should wait."""
    acquired(ow).release()
    with ow.transaction() as tx:
        buries(ow, tx)
    granted: list[Lease] = []
    worker = threading.Thread(target=lambda: granted.append(acquired(ow)))
    with ow.transaction():
        ow.dead.redrive([letter.id for letter in ow.dead.list()], actor="ana")
        worker.start()
        worker.join(timeout=60)
        assert len(granted) == 1
    assert ow.retries.parked.waiting("leads").messages == 1


class Worker(threading.Thread):
    """Reads numbers, tries what is due, and parks by rules that it forgets when it is stopped."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.stopping = threading.Event()
        #: One for each message that was read.
        self.reads = threading.Semaphore(0)
        self.refused = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with open_handle(self.url) as ow:
                while not self.stopping.is_set():
                    self.live(ow)
        except BaseException as exc:  # noqa: BLE001 - reported to the test
            self.error = exc

    def live(self, ow: Onceward) -> None:
        lease = acquired(ow)
        try:
            while not self.stopping.is_set():
                self.drain(ow, lease)
                self.read(ow, lease)
        except (LeaseLost, Superseded):
            self.refused += 1

    def drain(self, ow: Onceward, lease: Lease) -> None:
        for head in ow.retries.parked.due_heads("leads", 3):
            attempt(ow, lease, head, broken=5)

    def read(self, ow: Onceward, lease: Lease) -> None:
        place = int(lease.position or 0) + 1
        key = f"k{place % 3}"
        kept = message(str(place), key=key)
        with ow.transaction() as tx:
            if place % 2 == 0:
                lease.guard(tx)
            if ow.retries.parked.blocked_keys("leads", [key]):
                ow.retries.parked.park(tx, kept)
            elif place % 4 == 0 or place % 5 == 0:
                ow.retries.parked.park(tx, kept, failure=BROKEN, schedule=SCHEDULE)
            else:
                tx.execute("insert into effects values (?)", [place])
            lease.checkpoint(str(place), tx=tx)
        self.reads.release()


def test_moves_under_a_live_worker_lose_nothing(ow_url: str) -> None:
    """Seeks, undos and redrives, whenever they come: every message is done, waits or is dead."""
    with open_handle(ow_url) as ow:
        with ow.transaction() as tx:
            tx.execute("create table effects (place bigint)")
        worker = Worker(ow_url)
        worker.start()
        assert worker.reads.acquire(timeout=60)
        for number in range(MOVES):
            for _ in range(number % 4 * 3):
                assert worker.reads.acquire(timeout=60), worker.error
            if number % 3 == 2:
                ow.cursors.undo("leads", "ana", count=between)
            else:
                target = str(max(0, int(ow.cursors.show("leads").position or 0) - 6))
                ow.cursors.seek("leads", target, "why", "ana", count=between)
            if number % 5 == 0:
                letters = [letter.id for letter in ow.dead.list(limit=3)]
                ow.dead.redrive(letters, actor="ana")
        worker.stopping.set()
        worker.join()
        assert worker.error is None
        assert worker.refused > 0
        check(ow)


def check(ow: Onceward) -> None:
    with ow.transaction() as tx:
        done = {row[0] for row in tx.execute("select place from effects")}
        parked = {int(row[0]) for row in tx.query("parked_list", cursor="leads")}
        rows = tx.execute("select position from onceward_dead where state = 'dead'")
        heads = tx.execute("select key, sequence from onceward_parked where is_head order by 1")
        first = tx.execute("select key, min(sequence) from onceward_parked group by key order by 1")
    last = int(ow.cursors.show("leads").position or 0)
    assert set(range(1, last + 1)) <= done | parked | {int(row[0]) for row in rows}
    assert heads == first

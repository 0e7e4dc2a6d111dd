"""Limits on PostgreSQL: full connection limits, frozen clients, and who waits for whom how long."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import StoreBusy
from onceward.stores import Transaction, migrate
from onceward.stores.postgres import store as store_module
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.postgres.transaction import LOCK_SECONDS_MAX
from onceward.testing.zombie import wake, zombie
from tests.support.waiting import until

pytestmark = pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)

PATIENCE_SECONDS = 60.0
#: Longer than all that is done while every slot is taken.
HANDLER_SECONDS = 300.0
HANDLERS = 40
#: Does one thing with a lease of half a second, and freezes when it comes to the commit.
WORKER = """
import os, signal, sys
import psycopg
from onceward.errors import OncewardError
from onceward.client import open

ow = open(sys.argv[1])
lease = ow.cursors.acquire("c", "frozen", 0.5)
execute = psycopg.Connection.execute

def stopping(self, query, *args, **kwargs):
    if query == "commit":
        os.kill(os.getpid(), signal.SIGSTOP)
    return execute(self, query, *args, **kwargs)

psycopg.Connection.execute = stopping
try:
    if sys.argv[2] == "renew":
        lease.renew()
    else:
        with ow.transaction() as tx:
            tx.execute("insert into effects values ('of the frozen')")
            lease.checkpoint("666", tx=tx)
except OncewardError as exc:
    print(type(exc).__name__)
"""


@pytest.fixture
def real(ow_url: str) -> Iterator[Onceward]:
    """A store with a table for effects."""
    with open_handle(ow_url) as handle:
        # It is about who waits for whom, not about how fast the disk is at the moment.
        handle.store._connect_seconds = PATIENCE_SECONDS  # type: ignore[attr-defined]  # PostgreSQL's
        with handle.transaction() as tx:
            tx.execute("create table effects (note text)")
        yield handle


def acquired(ow: Onceward, name: str, worker: str = "w1", seconds: float = 60.0) -> Lease:
    lease = ow.cursors.acquire(name, worker, seconds)
    assert lease is not None
    return lease


@contextmanager
def every_slot_taken(ow: Onceward) -> Iterator[None]:
    """Let more handlers than there are places sit in transactions, until the block ends."""
    entered, leave = threading.Semaphore(0), threading.Event()
    stayed: list[bool] = []

    def handle() -> None:
        with ow.transaction() as tx:
            tx.execute("select 1")
            entered.release()
            stayed.append(leave.wait(HANDLER_SECONDS))

    handlers = [threading.Thread(target=handle) for _ in range(HANDLERS)]
    for handler in handlers:
        handler.start()
    for _ in range(32):
        assert entered.acquire(timeout=PATIENCE_SECONDS)
    try:
        yield
    finally:
        leave.set()
    for _ in range(HANDLERS - 32):
        assert entered.acquire(timeout=PATIENCE_SECONDS)
    for handler in handlers:
        handler.join()
    assert stayed == [True] * HANDLERS


def test_heartbeats_do_not_wait_for_handlers(
    real: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every place for transactions taken and more wanted, leases are renewed all the same."""
    lease = acquired(real, "c")
    renewed, renew = threading.Semaphore(0), lease.renew

    def counted() -> object:
        answer = renew()
        renewed.release()
        return answer

    monkeypatch.setattr(lease, "renew", counted)
    with every_slot_taken(real), lease.hold(0.01):
        for _ in range(20):
            assert renewed.acquire(timeout=PATIENCE_SECONDS)


def test_short_work_goes_on_while_every_slot_is_taken(real: Onceward) -> None:
    """Others look, acquire, claim and finish, in many threads, while all handlers are busy."""

    @real.once(key=lambda number: f"k#{number}")
    def once(number: int) -> int:
        return number

    done: list[int] = []

    def work(number: int) -> None:
        lease = acquired(real, f"c{number}")
        lease.checkpoint("1")
        lease.release()
        assert real.cursors.show(lease.name).position == "1"
        done.append(once(number))

    with every_slot_taken(real):
        threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE_SECONDS)
        assert sorted(done) == list(range(16))


def test_a_handler_can_renew_its_lease_while_every_slot_is_taken(real: Onceward) -> None:
    """What needs a commit of its own gets one, inside the last transaction that fits, too."""
    lease = acquired(real, "c")
    outcomes: list[object] = []

    def handle() -> None:
        with real.transaction() as tx:
            tx.execute("insert into effects values ('mine')")
            ready.wait()
            outcomes.append(lease.renew())
            assert real.cursors.acquire(f"other-{threading.get_ident()}") is not None

    ready = threading.Barrier(32)
    handlers = [threading.Thread(target=handle) for _ in range(32)]
    for handler in handlers:
        handler.start()
    for handler in handlers:
        handler.join(2 * PATIENCE_SECONDS)
    assert len(outcomes) == 32


def test_a_transaction_without_a_free_slot_gets_an_error(
    ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused after a while, with what to do; one that ended leaves its place to others."""
    monkeypatch.setattr(store_module, "TRANSACTIONS_MAX", 1)
    ow = Onceward(PostgresStore(ow_url, connect_seconds=1.0))
    refused: list[str] = []

    def wait_in_vain() -> None:
        with pytest.raises(StoreBusy) as caught, ow.transaction():
            pass
        refused.append(caught.value.fix)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError), ow.transaction() as tx:
            tx.execute("select 1")
            thread = threading.Thread(target=wait_in_vain)
            thread.start()
            thread.join()
            raise ZeroDivisionError
    assert refused == ["keep transactions short, or run fewer threads in one process"] * 2
    ow.close()


def test_one_thing_at_a_time_needs_one_connection(ow_url: str) -> None:
    """A simple script does not open more connections than it uses."""
    with open_handle(ow_url) as ow:
        acquired(ow, "c").release()
        for _ in range(3):
            with ow.transaction() as tx:
                rows = tx.execute(
                    "select count(*) from pg_stat_activity "
                    "where datname = current_database() and backend_type = 'client backend'"
                )
        assert rows == [(1,)]


@pytest.mark.parametrize(
    ("what", "error"), [("renew", "StoreUnavailable"), ("checkpoint", "OutcomeUnknown")]
)
def test_a_worker_frozen_before_its_commit_holds_its_cursor_no_longer_than_a_while(
    real: Onceward, ow_url: str, what: str, error: str
) -> None:
    """The worker taking over gets None until the frozen one is ended; never an error.

    When the frozen worker wakes it gets an error, and nothing of it stays.
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, ow_url, what], stdout=subprocess.PIPE, text=True
    )
    with worker, stopped(worker):
        heir = until(lambda: real.cursors.acquire("c", "heir", 60.0))
        heir.checkpoint("1")
        wake(worker)
        said = worker.communicate(timeout=PATIENCE_SECONDS)[0].strip()
    assert said == error
    state = real.cursors.show("c")
    assert (state.position, state.lease_owner) == ("1", "heir")
    with real.transaction() as tx:
        assert tx.execute("select * from effects") == []


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Wait until a child has stopped itself; kill it in the end."""
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        assert found is not None
        assert found.si_code == os.CLD_STOPPED
        yield
    finally:
        process.kill()


def test_a_frozen_operator_costs_no_living_worker_its_lease(
    real: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewals that wait for its lock give up soon, are no lost lease, and are tried again."""
    lease = acquired(real, "c", seconds=60.0)
    failed, renewed, renew = threading.Event(), threading.Event(), lease.renew

    def watched() -> object:
        try:
            answer = renew()
        except StoreBusy:
            failed.set()
            raise
        if failed.is_set():
            renewed.set()
        return answer

    operator = subprocess.Popen(
        [sys.executable, "-m", "onceward", "cursors", "pause", "c", "--store", ow_url],
        env={**os.environ, "ONCEWARD_CRASH": "cursor.pause.after_change:1:stop"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with operator, stopped(operator), zombie(operator):
        monkeypatch.setattr(lease, "renew", watched)
        with lease.hold(4 * LOCK_SECONDS_MAX):
            # One that waited until the server ends the operator would not have failed.
            assert failed.wait(PATIENCE_SECONDS)
            assert renewed.wait(PATIENCE_SECONDS)
        assert not lease.lost.is_set()
    assert not real.cursors.show("c").is_paused
    lease.checkpoint("1")


def test_a_lock_that_is_held_too_long_is_busy_and_not_for_ever(real: Onceward) -> None:
    """A client that needs a row locked by a user's transaction gets an error that says to retry."""
    lease = acquired(real, "c")
    refused: list[object] = []

    def try_both() -> None:
        try:
            lease.renew()
        except StoreBusy as exc:
            refused.append(exc.context["sqlstate"])
        refused.append(real.cursors.acquire("c", "w1"))

    with real.transaction():
        real.cursors.pause("c")
        thread = threading.Thread(target=try_both)
        thread.start()
        thread.join(PATIENCE_SECONDS)
    assert refused == ["55P03", None]
    assert not lease.lost.is_set()


def test_users_transactions_keep_the_settings_of_the_database(real: Onceward) -> None:
    """Our limits are for our own short transactions, and end with them."""

    def settings(tx: Transaction) -> list[str]:
        return [
            tx.execute(f"show {name}")[0][0]
            for name in ("lock_timeout", "idle_in_transaction_session_timeout")
        ]

    assert real.store.run_in_own_transaction(settings) == ["2s", "10s"]
    with real.transaction() as tx:
        assert settings(tx) == ["0", "0"]
        assert real.store.write(settings) == ["0", "0"]


def test_opening_waits_for_a_long_migration(
    real: Onceward, ow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Migrations have no limit: who comes second waits for the first, however long it takes."""
    monkeypatch.setattr(store_module, "BEGIN_SHORT", "begin; set local lock_timeout = '1ms'")
    store = PostgresStore(ow_url)
    migrated: list[list[int]] = []
    second = threading.Thread(target=lambda: migrated.append(migrate(store)))
    with real.transaction() as tx:
        tx.query("lock_migrations")
        second.start()
        waits = (
            "select 1 from pg_locks "
            "where not granted and waitstart < clock_timestamp() - interval '0.1 s'"
        )
        until(lambda: not second.is_alive() or tx.execute(waits))
    second.join(PATIENCE_SECONDS)
    assert migrated == [[]]
    store.close()

"""Leases between real processes: frozen ones, slow ones, and ones whose clocks are wrong."""

import threading
import time

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.testing.zombie import zombie
from tests.support.lease_worker import started

#: Short, so that a test need not wait long for it to expire; long enough for a slow machine.
SECONDS = 0.5
#: A busy machine may be late for a short lease, so a test that needs one to be kept passes with the
#: first that is. A heartbeat that does not work keeps none of them.
LEASES_SECONDS = (SECONDS, 2.0, 8.0)
PATIENCE_SECONDS = 120.0


@pytest.fixture
def real(ow_url: str) -> Onceward:
    """A store with the machine's own clock and a table for effects."""
    handle = open_handle(ow_url)
    with handle.transaction() as tx:
        tx.execute("create table effects (note text)")
    return handle


def effects(ow: Onceward) -> list[str]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select note from effects order by note")]


def pause() -> None:
    """Leave the processor to the workers for a moment; nothing depends on how long."""
    threading.Event().wait(0.01)


def take(ow: Onceward, worker: str, name: str = "c") -> Lease:
    """Ask for the cursor until it is given."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        lease = ow.cursors.acquire(name, worker, SECONDS)
        if lease is not None:
            return lease
        pause()
    raise AssertionError


def work(ow: Onceward, lease: Lease, note: str, position: str) -> None:
    with ow.transaction() as tx:
        tx.execute("insert into effects values (?)", [note])
        lease.checkpoint(position, tx=tx)


def test_h13_nothing_that_a_woken_zombie_writes_lands(real: Onceward, ow_url: str) -> None:
    """Frozen past its lease and woken after a takeover, a worker is refused and changes nothing."""
    with started(ow_url) as remote:
        assert remote.ask("acquire", "c", "zombie", SECONDS) == 1
        with zombie(remote):
            for command in (
                ["begin"],
                ["execute", "insert into effects values ('of the zombie')"],
                ["checkpoint", "666"],
                ["commit"],
                ["checkpoint_alone", "667"],
                ["renew"],
                ["begin"],
                ["guard"],
                ["release"],
            ):
                remote.tell(*command)
            lease = take(real, "heir")
            assert lease.epoch == 2
            work(real, lease, "of the heir", "1")
        heard = [remote.hear() for _ in range(9)]
        assert heard == [None, None, None, *["LeaseLost"] * 3, None, *["LeaseLost"] * 2]
    assert effects(real) == ["of the heir"]
    state = real.cursors.show("c")
    assert (state.position, state.lease_owner, state.steal_count) == ("1", "heir", 1)
    real.close()


def test_h13_a_worker_that_freezes_before_its_commit_is_undone(real: Onceward, ow_url: str) -> None:
    """Frozen with its effect written and not committed, a worker does not get it in afterwards.

    On PostgreSQL another takes over meanwhile. On SQLite the frozen one holds the write lock, so
    no worker can: it is still the holder when it wakes, and its work is whole.
    """
    with started(ow_url) as remote:
        remote.ask("acquire", "c", "zombie", SECONDS)
        remote.ask("begin")
        remote.ask("execute", "insert into effects values ('of the zombie')")
        remote.ask("checkpoint", "666")
        if real.store.engine == "postgres":
            with zombie(remote):
                remote.tell("commit")
                work(real, take(real, "heir"), "of the heir", "1")
            assert remote.hear() == "LeaseLost"
            assert effects(real) == ["of the heir"]
        else:
            taken: list[Lease | None] = []
            successor = threading.Thread(
                target=lambda: taken.append(real.cursors.acquire("c", "heir", SECONDS))
            )
            with zombie(remote):
                remote.tell("commit")
                while real.cursors.show("c").is_held:
                    pause()
                successor.start()
                successor.join(timeout=SECONDS)
                assert successor.is_alive()
            assert remote.hear() is None
            successor.join()
            assert taken == [None]
            assert effects(real) == ["of the zombie"]
            assert real.cursors.show("c").position == "666"
    real.close()


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_h13_a_zombie_inside_a_guarded_transaction_does_not_hold_its_lock_for_ever(
    real: Onceward, ow_url: str
) -> None:
    """The worker taking over ends the frozen worker's backend; what it had written is undone."""
    with started(ow_url) as remote:
        remote.ask("acquire", "c", "zombie", SECONDS)
        remote.ask("begin")
        remote.ask("guard")
        remote.ask("execute", "insert into effects values ('of the zombie')")
        with zombie(remote):
            remote.tell("commit")
            work(real, take(real, "heir"), "of the heir", "1")
        assert remote.hear() in ("OutcomeUnknown", "StoreUnavailable")
        assert remote.ask("renew") == "LeaseLost"
    assert effects(real) == ["of the heir"]
    real.close()


@pytest.mark.parametrize("skew_seconds", [3600.0, -3600.0])
def test_h16_wrong_clocks_of_workers_change_nothing(
    real: Onceward, ow_url: str, skew_seconds: float
) -> None:
    """An hour fast or slow, a worker takes no living lease, keeps its own, and loses a dead one."""
    with started(ow_url, skew_seconds) as wrong:
        held = real.cursors.acquire("c", "right", 3600.0)
        assert held is not None
        assert wrong.ask("acquire", "c", "wrong", SECONDS) is None
        held.release()
        assert wrong.ask("acquire", "c", "wrong", 3600.0) == 2
        assert real.cursors.acquire("c", "right", SECONDS) is None
        assert wrong.ask("renew") == "renewed"
        assert real.cursors.acquire("c", "right", SECONDS) is None
        assert wrong.ask("checkpoint_alone", "1") is None
        assert real.cursors.acquire("c", "right", SECONDS) is None
        assert wrong.ask("release") is None
        assert wrong.ask("acquire", "c", "wrong", SECONDS) == 3
        assert take(real, "right").epoch == 4
    real.close()


def test_h18_long_work_is_not_run_twice_while_its_worker_lives(real: Onceward, ow_url: str) -> None:
    """For many leases' time no other worker takes a cursor whose worker sends heartbeats."""

    def is_kept(seconds: float) -> bool:
        name = f"c-{seconds}"
        with started(ow_url) as busy:
            assert busy.ask("acquire", name, "busy", seconds) == 1
            assert busy.ask("hold") is None
            deadline = time.monotonic() + 6 * seconds
            while time.monotonic() < deadline:
                if real.cursors.acquire(name, "other", seconds) is not None:
                    return False
                pause()
            busy.ask("begin")
            busy.ask("execute", "insert into effects values ('once')")
            busy.ask("checkpoint", "1")
            assert busy.ask("commit") is None
            assert busy.ask("let_go") is None
            assert busy.ask("release") is None
        assert take(real, "next", name).position == "1"
        return True

    assert any(map(is_kept, LEASES_SECONDS))
    assert effects(real) == ["once"]
    real.close()


def test_h18_a_heartbeat_is_not_blocked_by_its_own_handler(real: Onceward, ow_url: str) -> None:
    """A handler that guards and writes for longer than its lease keeps it, and commits."""

    def is_kept(seconds: float) -> bool:
        name = f"c-{seconds}"
        stolen = threading.Event()

        def steal() -> None:
            deadline = time.monotonic() + 4 * seconds
            while time.monotonic() < deadline and not stolen.is_set():
                if real.cursors.acquire(name, "other", seconds) is not None:
                    stolen.set()
                pause()

        other = threading.Thread(target=steal)
        with started(ow_url) as busy:
            busy.ask("acquire", name, "busy", seconds)
            busy.ask("hold")
            busy.ask("begin")
            busy.ask("guard")
            busy.ask("execute", f"insert into effects values ('{name}')")
            other.start()
            # On SQLite the other worker waits for the write lock, and then gives way.
            other.join(timeout=4 * seconds)
            busy.ask("checkpoint", "1")
            answer = busy.ask("commit")
            other.join()
            if stolen.is_set():
                return False
            assert answer is None
            assert busy.ask("renew") == "renewed"
        assert name in effects(real)
        return True

    assert any(map(is_kept, LEASES_SECONDS))
    real.close()


def test_a_worker_that_dies_leaves_its_cursor_to_others(real: Onceward, ow_url: str) -> None:
    """After kill -9 in the middle of a batch the next one begins where the last commit ended."""
    with started(ow_url) as doomed:
        doomed.ask("acquire", "c", "doomed", SECONDS)
        doomed.ask("checkpoint_alone", "7")
        doomed.ask("begin")
        doomed.ask("execute", "insert into effects values ('half')")
        doomed.process.kill()
        doomed.process.wait()
        lease = take(real, "heir")
    assert (lease.position, lease.epoch) == ("7", 2)
    assert effects(real) == []
    real.close()

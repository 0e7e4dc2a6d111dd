"""Worker processes as people run them: frozen, slow, stopped, killed, and with wrong clocks."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.testing.zombie import freeze, wake, zombie
from tests.support.lease_worker import false_time
from tests.support.waiting import until

WAIT_SECONDS_MAX = 120.0
LEASE_SECONDS = 0.5
#: A busy machine may be late for a short lease, so a test that needs one to be kept passes with the
#: first that is. A heartbeat that does not work keeps none of them.
LEASES_SECONDS = (LEASE_SECONDS, 2.0, 8.0)


@pytest.fixture
def real(ow_url: str) -> Iterator[Onceward]:
    """A store with the machine's own clock and a table for effects."""
    with open_handle(ow_url) as handle:
        with handle.transaction() as tx:
            tx.execute("create table effects (n bigint, pid bigint)")
            tx.execute("create table shared (n bigint)")
            tx.execute("insert into shared values (0)")
        yield handle


class Started:
    """A `work` command, and what it tells."""

    def __init__(self, url: str, place: Path, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "onceward", "worker", "tests.support.worker_app:app"]
        self.place = place
        self.process = subprocess.Popen(
            [*command, *options],
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "WORKER_APP_STORE": url,
                "WORKER_APP_PLACE": str(place),
                "WORKER_APP_LEASE": str(LEASE_SECONDS),
                **environment,
            },
        )
        self.pid = self.process.pid

    def began(self, number: int) -> list[int]:
        marker = self.place / f"began-{number}"
        return [int(line) for line in marker.read_text().split()] if marker.exists() else []

    def go(self, *numbers: int) -> None:
        for number in numbers:
            (self.place / f"go-{number}").touch()


@contextmanager
def started(url: str, place: Path, *options: str, **environment: str) -> Iterator[Started]:
    worker = Started(url, place, *options, **environment)
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait()
        assert worker.process.stderr is not None
        worker.process.stderr.close()


@contextmanager
def frozen_between_writes(worker: Started, url: str) -> Iterator[None]:
    """Freeze a worker whose heartbeat is not just writing: on SQLite all would wait for it."""
    freeze(worker)
    while url.startswith("sqlite") and not _may_write(Path(url.removeprefix("sqlite:///"))):
        wake(worker)
        time.sleep(0.01)
        freeze(worker)
    try:
        yield
    finally:
        wake(worker)


def _may_write(database: Path) -> bool:
    with database.with_name(f"{database.name}-write-lock").open("ab") as turns:
        try:
            fcntl.flock(turns, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def effects(ow: Onceward) -> list[tuple[int, int]]:
    with ow.transaction() as tx:
        return [(row[0], row[1]) for row in tx.execute("select n, pid from effects order by 1, 2")]


def attempt(ow: Onceward, place: Path, lease_seconds: float) -> tuple[Path, dict[str, str]]:
    """Return a place and an environment in which workers begin again, with another lease."""
    with ow.transaction() as tx:
        tx.execute("delete from effects")
    name = f"slow-{lease_seconds}"
    (place / name).mkdir()
    return place / name, {"WORKER_APP_LEASE": str(lease_seconds), "WORKER_APP_NAME": name}


def position(ow: Onceward, name: str = "slow") -> str | None:
    found = ow.cursors.list(name)
    return found[0].position if found else None


@pytest.mark.parametrize("writes_first", [False, True])
def test_a_worker_frozen_for_three_leases_leaves_no_trace(
    real: Onceward, ow_url: str, tmp_path: Path, writes_first: bool
) -> None:
    """Nothing that it did or does is ever seen, and no worker waits for the locks it took."""
    if writes_first and real.store.engine == "sqlite":
        # There it holds the file's only write lock: no worker can take over, and it just goes on.
        _frozen_inside_sqlite(real, ow_url, tmp_path)
        return
    environment = {"WORKER_APP_WRITES_FIRST": "1"} if writes_first else {}
    with started(ow_url, tmp_path, **environment) as frozen:
        until(lambda: frozen.began(1))
        with frozen_between_writes(frozen, ow_url):
            time.sleep(3 * LEASE_SECONDS)
            with started(ow_url, tmp_path, **environment) as heir:
                until(lambda: len(heir.began(1)) >= 2)
                heir.go(1, 2, 3)
                until(lambda: position(real) == "3")
                assert [n for n, _ in effects(real)] == [1, 2, 3]
        # Awake, it finishes its handler, is refused, and finds the cursor at the end.
        time.sleep(2 * LEASE_SECONDS)
        assert effects(real) == [(n, heir.pid) for n in (1, 2, 3)]
        frozen.process.send_signal(signal.SIGTERM)
        assert frozen.process.wait(WAIT_SECONDS_MAX) == 0
    assert effects(real) == [(n, heir.pid) for n in (1, 2, 3)]


def _frozen_inside_sqlite(real: Onceward, ow_url: str, tmp_path: Path) -> None:
    with started(ow_url, tmp_path, WORKER_APP_WRITES_FIRST="1") as frozen:
        until(lambda: frozen.began(1))
        with zombie(frozen):
            time.sleep(3 * LEASE_SECONDS)
        frozen.go(1, 2, 3)
        until(lambda: position(real) == "3")
    assert [n for n, _ in effects(real)] == [1, 2, 3]


def test_a_handler_longer_than_five_leases_is_not_run_twice(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """Its heartbeat keeps the lease while others ask for it."""

    def is_kept(lease_seconds: float) -> bool:
        place, environment = attempt(real, tmp_path, lease_seconds)
        with (
            started(ow_url, place, **environment) as one,
            started(ow_url, place, **environment),
        ):
            until(lambda: one.began(1))
            time.sleep(5 * lease_seconds)
            one.go(1, 2, 3)
            until(lambda: position(real, place.name) == "3")
        assert [n for n, _ in effects(real)] == [1, 2, 3]
        began = [len(one.began(n)) for n in (1, 2, 3)]
        return (began, real.cursors.show(place.name).steal_count) == ([1, 1, 1], 0)

    assert any(map(is_kept, LEASES_SECONDS))


def test_a_stopped_worker_finishes_and_gives_its_lease_back(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """SIGTERM lets the running handler end; the next message is not begun; stopping is quick."""
    with started(ow_url, tmp_path) as worker:
        until(lambda: worker.began(1))
        worker.process.send_signal(signal.SIGTERM)
        until((tmp_path / "stopping").exists)
        assert worker.process.poll() is None
        worker.go(1, 2)
        assert worker.process.wait(WAIT_SECONDS_MAX) == 0
        assert position(real) == "1"
        assert not worker.began(2)
        assert real.cursors.show("slow").lease_owner is None


def test_a_handler_that_does_not_end_is_abandoned(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """After --stop-seconds the lease is given back, the work undone, and the exit code tells."""
    with started(ow_url, tmp_path, "--stop-seconds", "0.2") as worker:
        until(lambda: worker.began(1))
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(WAIT_SECONDS_MAX) == 1
    assert effects(real) == []
    assert real.cursors.show("slow").lease_owner is None


def test_h16_workers_whose_clocks_are_hours_apart_change_nothing(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """One process an hour ahead, one an hour behind: no lease is taken that still holds."""
    ahead, behind = false_time(3600), false_time(-3600)
    assert ahead, "libfaketime is not installed"

    def is_kept(lease_seconds: float) -> bool:
        place, environment = attempt(real, tmp_path, lease_seconds)
        environment["WORKER_APP_MESSAGES"] = "40"
        with (
            started(ow_url, place, **environment, **ahead) as one,
            started(ow_url, place, **environment, **behind),
        ):
            until(lambda: one.began(1))
            time.sleep(3 * lease_seconds)
            one.go(*range(1, 41))
            until(lambda: position(real, place.name) == "40")
        assert [n for n, _ in effects(real)] == list(range(1, 41))
        began = [len(one.began(n)) for n in range(1, 41)]
        return (began, real.cursors.show(place.name).steal_count) == ([1] * 40, 0)

    assert any(map(is_kept, LEASES_SECONDS))


def test_processes_of_a_fleet_are_started_again(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """A killed worker is replaced; one signal to the parent ends all of them."""

    def is_kept(lease_seconds: float) -> bool:
        place, environment = attempt(real, tmp_path, lease_seconds)
        with started(ow_url, place, "--processes", "2", **environment) as fleet:
            for death in (1, 2):
                until(lambda death=death: len(fleet.began(1)) >= death)  # type: ignore[misc]
                with suppress(ProcessLookupError):  # It may have begun twice.
                    os.kill(fleet.began(1)[death - 1], signal.SIGKILL)
            until(lambda: len(fleet.began(1)) >= 3)
            fleet.go(1, 2, 3)
            until(lambda: position(real, place.name) == "3")
            fleet.process.send_signal(signal.SIGTERM)
            assert fleet.process.wait(WAIT_SECONDS_MAX) == 0
        assert [n for n, _ in effects(real)] == [1, 2, 3]
        return real.cursors.show(place.name).steal_count == 2

    assert any(map(is_kept, LEASES_SECONDS))


@pytest.mark.parametrize("batch", ["0", "3"])
@pytest.mark.parametrize("way", ["handler", "retry", "decoder"])
def test_h21_a_message_that_kills_its_workers_ends_as_a_dead_letter(
    real: Onceward, ow_url: str, tmp_path: Path, batch: str, way: str
) -> None:
    """No process is left to report the failure; the cursor goes on after its last attempt.

    Whether its handler kills, or that only when it was parked, or its decoder does.
    """
    environment = {
        "WORKER_APP_DEADLY": "2",
        "WORKER_APP_DEADLY_WAY": way,
        "WORKER_APP_BATCH": batch,
        "WORKER_APP_LEASE": "0.1",
    }
    with started(ow_url, tmp_path, "--processes", "2", **environment):
        until(lambda: real.dead.list(cursor="deadly"))
        until(lambda: real.cursors.show("deadly").position == "3")
        until(lambda: len(effects(real)) == 2)
    (letter,) = real.dead.list(cursor="deadly")
    assert (letter.position, letter.attempts, letter.error_type) == ("2", 2, "WorkerDied")
    assert [n for n, _ in effects(real)] == [1, 3]


def test_a_fleet_that_is_to_end_says_whether_all_is_done(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """One process found the cursor held by the other: that is no reason for a bad exit code."""
    for number in range(1, 101):
        (tmp_path / f"go-{number}").touch()
    options = ("--processes", "2", "--once")
    with started(ow_url, tmp_path, *options, WORKER_APP_MESSAGES="100") as fleet:
        assert fleet.process.wait(WAIT_SECONDS_MAX) == 0
    assert position(real) == "100"
    real.cursors.pause("slow")
    with started(ow_url, tmp_path, *options, WORKER_APP_MESSAGES="101") as fleet:
        assert fleet.process.wait(WAIT_SECONDS_MAX) == 1


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_unfinished_work_is_reported_with_its_reason(
    real: Onceward, ow_url: str, tmp_path: Path
) -> None:
    """To a person in words, to a machine by the name of the state; the exit code is 1."""
    lease = real.cursors.acquire("slow", "w")
    assert lease is not None
    lease.release()
    real.cursors.pause("slow")
    command = [sys.executable, "-m", "onceward", "worker", "tests.support.worker_app:app", "--once"]
    settings = {
        "WORKER_APP_STORE": ow_url,
        "WORKER_APP_PLACE": str(tmp_path),
        "WORKER_APP_LEASE": "1",
    }
    for words, expected in (
        ([], "0 messages\nleft: slow is paused, or another worker has it\n"),
        (["--json"], '{"messages":0,"left":["slow"],"states":{"slow":"elsewhere"}}\n'),
    ):
        ran = subprocess.run(
            [*command, *words],
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (1, expected), ran.stderr


@pytest.mark.parametrize("after", [1, 4, 8])
def test_a_fleet_that_is_stopped_while_it_starts_ends(
    real: Onceward, ow_url: str, tmp_path: Path, after: int
) -> None:
    """No child is started that would never be asked to stop."""
    options = ("--processes", "8", "--threads", "1", "--log", "plain")
    with started(ow_url, tmp_path, *options, WORKER_APP_MESSAGES="0") as fleet:
        assert fleet.process.stderr is not None
        for line in fleet.process.stderr:
            after -= "worker process started" in line
            if not after:
                break
        fleet.process.send_signal(signal.SIGTERM)
        assert fleet.process.wait(WAIT_SECONDS_MAX) == 0
    assert position(real) is None or real.cursors.show("slow").lease_owner is None


def test_orphans_end(real: Onceward, ow_url: str, tmp_path: Path) -> None:
    """The children of a parent that was killed finish what they do, and stop."""
    with started(ow_url, tmp_path, "--processes", "2") as fleet:
        until(lambda: fleet.began(1))
        fleet.process.kill()
        fleet.process.wait()
        fleet.go(1, 2, 3)
        until(lambda: not _is_alive(fleet.began(1)[0]))
    until(lambda: real.cursors.show("slow").lease_owner is None)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

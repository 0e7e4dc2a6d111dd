"""Frozen scenarios: one process stands still, another takes over, and the first one wakes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import onceward
from onceward.errors import LeaseLost
from onceward.system import SystemClock
from onceward.testing import Frozen, Trial, drain, worker_process, zombie
from onceward.workers import Item
from tests.support.waiting import until

HERE = Path(__file__).name
Zombie = Callable[..., AbstractContextManager[Frozen]]


def table(trial: Trial) -> None:
    with trial.open() as ow, ow.transaction() as tx:
        tx.execute("create table effects (n bigint)")


class OneMessage:
    """The number 1, once."""

    def read(self, after: str | None, _limit: int) -> list[Item]:
        return [] if after else [Item(position="1", raw=b"1")]


def work(trial: Trial) -> None:
    """Work as a consumer does."""
    app = onceward.App(trial.url)

    @app.consumer("numbers", source=OneMessage())
    def handle(message: Any, tx: Any) -> None:
        tx.execute("insert into effects values (?)", [message.data])

    drain(app)


def unfenced(trial: Trial) -> None:
    """Work with a lease that is not checked any more at the write."""
    with trial.open() as ow:
        lease = ow.cursors.acquire("numbers", worker=f"w{SystemClock().monotonic()}")
        assert lease is not None
        if lease.position is None:
            with ow.transaction() as tx:
                tx.execute("insert into effects values (1)")
            lease.checkpoint("1")


def test_what_a_woken_worker_writes_does_not_land(zombie: Zombie) -> None:
    """Frozen before its first statement, replaced, and woken: one effect, on each engine."""
    with zombie(work, setup=table) as frozen:
        assert frozen.place.name.startswith("sql@")
        assert HERE in frozen.place.name
        assert frozen.trial.rows("select * from effects") == []
        frozen.take_over()
        assert frozen.trial.rows("select * from effects") == [(1,)]
        assert frozen.wake() == ""
        assert frozen.trial.rows("select * from effects") == [(1,)]


def test_a_worker_without_a_fence_is_found() -> None:
    """The same test shows two effects, and the error that the woken worker got in the end."""
    with zombie(unfenced, setup=table) as frozen:
        frozen.take_over()
        assert LeaseLost.__name__ in frozen.wake()
        assert frozen.trial.rows("select * from effects") == [(1,), (1,)]


def test_it_can_be_frozen_at_a_crash_point() -> None:
    """By its name, and at its first pass by default."""
    with zombie(work, setup=table, at="cursor.acquire.after_commit") as frozen:
        assert frozen.place.spec == "cursor.acquire.after_commit:1"
        frozen.take_over()
    with pytest.raises(AssertionError, match="'nowhere' is no place"), zombie(work, at="nowhere"):
        pass


def test_a_scenario_that_never_comes_there_fails() -> None:
    """A test that relies on a zombie fails when there is none."""
    said = r"^the scenario never reached 'dead.drop.after_change': ended well"
    with (
        pytest.raises(AssertionError, match=said),
        zombie(work, setup=table, at="dead.drop.after_change"),
    ):
        pass


def test_a_failed_takeover_says_where_it_waits() -> None:
    """On SQLite a process that is frozen inside a transaction stops every other writer."""
    said = (
        r"(?s)^no worker could take over from transaction.before_commit: .*threads are at.*SQLite"
    )
    with (
        pytest.raises(AssertionError, match=said),
        zombie(work, setup=table, at="transaction.before_commit", seconds_max=2) as frozen,
    ):
        frozen.take_over()


APP = """
import onceward
from onceward.workers import Item
app = onceward.App()

class One:
    def read(self, after, limit):
        return [] if after else [Item(position="1", raw=b"1")]

@app.consumer("numbers", source=One())
def handle(message):
    open("began", "w").close()
"""


def test_an_app_can_be_run_as_a_process_and_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker is the real one, stopped at a crash point, woken, and asked to end."""
    (tmp_path / "shop.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'work.db'}"
    with worker_process("shop:app", url) as process:
        until(lambda: (tmp_path / "began").exists() or process.poll() is not None)
        assert process.poll() is None
        with zombie(process):
            assert Path(f"/proc/{process.pid}/stat").read_text().split(")")[1].split()[0] == "T"
    assert process.returncode == 0
    with onceward.open(url) as ow:
        assert ow.cursors.show("numbers").position == "1"

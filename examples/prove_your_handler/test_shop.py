"""Whatever happens to a worker, each order is charged once and recorded once."""

from collections.abc import Callable
from typing import Any

from bank import Bank
from shop import shop

from onceward.journal import Journal
from onceward.testing import Trial, drain


def one_order(trial: Trial) -> None:
    """Prepare the store and the directory that every trial begins with."""
    Journal(trial.path / "orders.jsonl").append({"id": 7, "cents": 1999})
    with trial.open() as ow, ow.transaction() as tx:
        tx.execute("create table charges (order_id bigint, cents bigint)")


def work(trial: Trial) -> None:
    """Do everything there is to do."""
    drain(shop(trial.path))


def charged_once(trial: Trial) -> None:
    """Look at what is left."""
    assert trial.rows("select order_id from charges") == [(7,)]
    assert Bank(trial.path / "bank.txt").charged() == [7]


def test_a_worker_that_dies(crash_everywhere: Callable[..., Any]) -> None:
    """Kill -9 at every place leaves one charge."""
    crash_everywhere(work, charged_once, setup=one_order)


def test_a_worker_that_sleeps(zombie: Callable[..., Any]) -> None:
    """A worker that freezes, is replaced, and wakes, leaves one charge."""
    with zombie(work, setup=one_order) as frozen:
        frozen.take_over()
        frozen.wake()
        charged_once(frozen.trial)

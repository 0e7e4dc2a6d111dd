"""A loop: orders are taken through an ORM, and the process is killed again and again.

Run as `python -m tests.support.storms.orm URL sqlalchemy|django SEED KILLS`. Every process first
checks that each row of the ORM has its outcome and each outcome its row, then takes orders until it
is killed: between two statements, two states of the recipe or two crash points. Prints a summary.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.system import crash_points
from tests.support.forked_children import forked
from tests.support.orm_shops import TABLE, Order, alchemy_shop, django_database, django_shop

#: Orders that one process takes at most, and passes of places where it may die.
ORDERS, PASSES = 4, 40
#: One statement, so that both are of one moment.
_DIFFERENCES = """
select cast(number as text), 'row' from orders
where cast(number as text) not in (select key from onceward_outcomes where state = 'done')
union all
select key, 'outcome' from onceward_outcomes
where state = 'done' and key not in (select cast(number as text) from orders)
"""


class Fuse:
    """Kills this process at the nth place that it passes."""

    def __init__(self, passes: int) -> None:
        """Burn for so many passes."""
        self._left = passes

    def __call__(self, _: str) -> None:
        """Pass a place."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def work(url: str, recipe: str, first: int, passes: int) -> None:
    """Check what the processes before have left, then take orders."""
    with open_handle(url) as ow:
        check(ow)
        fuse = Fuse(passes)
        crash_points.watch(fuse)
        order = shop(ow, url, recipe, fuse)
        for number in range(first, first + ORDERS):
            assert order(number) == order(number) == number
        crash_points.watch(None)


def shop(ow: Onceward, url: str, recipe: str, fuse: Fuse) -> Order:
    """Return what takes an order."""
    if recipe == "sqlalchemy":
        return alchemy_shop(ow, fuse)
    return django_shop(ow, django_database(url), fuse)


def check(ow: Onceward) -> None:
    """Fail when a row or an outcome is there without the other."""
    differences = ow.store.select(_DIFFERENCES)
    assert differences == [], differences
    half = ow.store.select("select number from orders where note <> 'paid'")
    assert half == [], half


def prepare(url: str) -> None:
    """Make the table of the orders."""
    with open_handle(url) as ow, ow.transaction() as tx:
        tx.execute(TABLE)


def count(url: str) -> int:
    """Check once more, and return how many orders there are."""
    with open_handle(url) as ow:
        check(ow)
        return int(ow.store.select("select count(*) from orders")[0][0])


def main(url: str, recipe: str, seed: int, kills_wanted: int) -> None:
    """Fork one process after the other: this one opens nothing before the end."""
    source = random.Random(f"{recipe} {seed}")
    _, status = os.waitpid(forked(lambda: prepare(url)), 0)
    assert status == 0, status
    kills = processes = number = 0
    while kills < kills_wanted:
        passes = source.randint(1, PASSES)
        pid = forked(lambda: work(url, recipe, number, passes))  # noqa: B023 - ends before the next
        _, status = os.waitpid(pid, 0)
        processes += 1
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, status
            kills += 1
        else:
            assert status == 0, f"process {processes}, {passes} passes: status {status}"
            number += ORDERS
    # What the last one left undone can be done.
    _, status = os.waitpid(forked(lambda: work(url, recipe, number, -1)), 0)
    assert status == 0, status
    orders = count(url)
    assert orders == number + ORDERS, (orders, number)
    json.dump({"kills": kills, "processes": processes + 1, "orders": orders}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

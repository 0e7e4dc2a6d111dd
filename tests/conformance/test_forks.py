"""Children forked inside a transaction: they have the parent's memory, and no part in its work."""

import os
import signal
import sys
import traceback
from collections.abc import Callable

import pytest

from onceward.client import Onceward
from onceward.errors import SqlFailed


def in_a_child(work: Callable[[], None]) -> int:
    """Run this in a child that ends like a program does; return its exit code."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        code = 0
        try:
            work()
        except SystemExit:
            code = 3
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            traceback.print_exc(file=sys.stderr)
            code = 1
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def rows(ow: Onceward) -> list[int]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select n from many order by n")]


@pytest.fixture
def many(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table many (n bigint, filling text)")
    return ow


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
def test_a_child_that_leaves_the_block_ends_nothing_of_its_parents(
    many: Onceward, how: str
) -> None:
    """Neither its commit nor its rollback reaches the parent's transaction, however large it is."""
    filling = "x" * 10_000

    block = many.transaction()
    tx = block.__enter__()
    tx.execute_many("insert into many values (?, ?)", [[n, filling] for n in range(600)])
    expected = {"returns": 0, "raises": 0, "exits": 3}[how]
    assert in_a_child(lambda: _left(block, how)) == expected
    tx.execute("insert into many values (?, ?)", [600, filling])
    block.__exit__(None, None, None)
    assert rows(many) == list(range(601))
    assert many.store.problems() == []


def _left(block: object, how: str) -> None:
    if how == "returns":
        with pytest.raises(SqlFailed, match="has ended"):
            block.__exit__(None, None, None)  # type: ignore[attr-defined]
        return
    error = SystemExit() if how == "exits" else ValueError("in the child")
    with pytest.raises(type(error)):
        if not block.__exit__(type(error), error, None):  # type: ignore[attr-defined]
            raise error
    if how == "exits":
        raise error


def test_a_child_of_an_open_transaction_can_open_one_of_its_own(many: Onceward) -> None:
    """Its connection is its own; the parent's is undone without it."""

    def write() -> None:
        with many.transaction() as tx:
            tx.execute("insert into many values (2, '')")

    with pytest.raises(ValueError, match="undo"), many.transaction() as tx:
        tx.execute("select count(*) from many")
        assert in_a_child(write) == 0
        tx.execute("insert into many values (1, '')")
        message = "undo"
        raise ValueError(message)
    assert rows(many) == [2]

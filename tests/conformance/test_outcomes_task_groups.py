"""Functions that use a task group: what ends a call or a transaction arrives inside a group."""

import asyncio
import threading

import pytest

from onceward.client import Onceward
from onceward.errors import LeaseLost, SqlFailed
from onceward.stores import Transaction
from tests.support.async_calls import effects, insert, ow, with_tx

__all__ = ["ow"]


async def insert_in_group(tx: Transaction, number: int) -> None:
    async def task() -> None:
        insert(tx, number)

    async with asyncio.TaskGroup() as group:
        group.create_task(task())


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_call_settled_by_another_in_a_task_group_returns_the_outcome(
    ow: Onceward, *, is_nested: bool
) -> None:
    """Where a concurrent call was quicker, its result is returned as without a group."""
    if ow.store.engine == "postgres":
        return  # A key is locked from the start: no call is overtaken.
    runs: list[str] = []

    @with_tx(ow)
    async def work(number: int, tx: Transaction) -> str:
        runs.append("run")
        if len(runs) == 1:
            quicker = threading.Thread(target=lambda: asyncio.run(work(number)))
            quicker.start()
            quicker.join()
        mine = f"run {len(runs)}"
        await insert_in_group(tx, number)
        return mine

    async def main() -> str:
        if not is_nested:
            return await work(1)
        with ow.transaction():
            return await work(1)

    assert asyncio.run(main()) == "run 2"
    assert effects(ow) == [1]


def test_a_lost_lease_in_a_task_group_ends_the_transaction(ow: Onceward) -> None:
    """Nothing is committed, also when the caller swallows the group."""

    def lost() -> None:
        raise LeaseLost(cursor="c", held_epoch=1, current_epoch=2)

    @with_tx(ow)
    async def work(number: int, tx: Transaction) -> None:
        tx.before_every_write(lost)
        await insert_in_group(tx, number)

    async def main() -> None:
        with ow.transaction() as tx:
            insert(tx, 1)
            with pytest.raises(ExceptionGroup):
                await work(2)

    with pytest.raises(SqlFailed):
        asyncio.run(main())
    assert effects(ow) == []

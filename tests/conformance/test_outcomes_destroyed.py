"""Tasks that are destroyed inside a call: the event loop closes, and they are never awaited."""

import asyncio
import gc

import pytest

from onceward.client import Onceward
from onceward.outcomes.running_call import CURRENT_CALL
from onceward.stores import Transaction
from tests.support.async_calls import effects, insert, ow, with_tx

__all__ = ["ow"]


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_destroyed_task_is_undone_and_leaves_others_alone(
    ow: Onceward, *, is_nested: bool
) -> None:
    """It ends in the context of the code that collects it, whose own transaction goes on."""
    begun = asyncio.Event()

    @with_tx(ow)
    async def inner(number: int, tx: Transaction) -> None:
        insert(tx, number)
        begun.set()
        await asyncio.Event().wait()

    @with_tx(ow)
    async def outer(number: int, tx: Transaction) -> None:
        insert(tx, number + 10)
        await inner(number)

    loop = asyncio.new_event_loop()
    task = loop.create_task((outer if is_nested else inner)(1))
    loop.run_until_complete(begun.wait())
    loop.close()
    with ow.transaction() as tx:
        del task, loop
        gc.collect()
        assert ow.store.current() is tx
        assert CURRENT_CALL.get() is None
        insert(tx, 2)
        with tx.nested():
            insert(tx, 3)
    assert effects(ow) == [2, 3]

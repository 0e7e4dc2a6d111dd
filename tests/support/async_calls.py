"""Async calls: a store with tables for their effects, and what is known of those that wait."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.outcomes.step_drivers import loop_slots_of
from onceward.stores import Transaction
from onceward.stores.postgres.store import TRANSACTIONS_MAX, PostgresStore

T = TypeVar("T")
Awaited = Coroutine[Any, Any, T]
Called = Callable[[int], Awaited[T]]
CALLS = 200
#: More calls than PostgreSQL has places for transactions.
MORE_CALLS = TRANSACTIONS_MAX + 8
TICKS = 1_000
CALLBACK_SECONDS_MAX = 0.05
#: A call that has not ended by then waits for itself.
HANGING_SECONDS = 150.0


@pytest.fixture
def ow(ow_url: str) -> Iterator[Onceward]:
    """A store with a table for effects; its time runs by itself."""
    with open_handle(ow_url) as handle:
        if isinstance(handle.store, PostgresStore):
            handle.store._connect_seconds = HANGING_SECONDS  # A machine may stand still.
        with handle.transaction() as tx:
            tx.execute("create table effects (id bigint primary key)")
            tx.execute("create table total (id bigint primary key, amount bigint)")
            tx.execute("insert into total values (1, 0)")
        yield handle


@contextmanager
def timed_callbacks() -> Iterator[Callable[[], float]]:
    """Time the callbacks of event loops by the CPU time of their thread; give the longest so far.

    Without the garbage collector: its pauses grow with everything that the tests have imported.
    """
    longest, run = 0.0, asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        began = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - began)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", timed)
        gc.disable()
        try:
            yield lambda: longest
        finally:
            gc.enable()


def with_tx(ow: Onceward) -> Callable[[Callable[[int, Transaction], Awaited[T]]], Called[T]]:
    """Return `ow.once()`, typed so that callers leave `tx` out."""

    def decorate(function: Callable[[int, Transaction], Awaited[T]]) -> Called[T]:
        made: Any = ow.once()(function)
        return cast("Called[T]", made)

    return decorate


def insert(tx: Transaction, number: int) -> None:
    tx.execute("insert into effects values (?)", [number])


def effects(ow: Onceward) -> list[int]:
    return [row[0] for row in ow.store.select("select id from effects order by id")]


def places(ow: Onceward) -> int:
    """Return how many calls with `tx` run at a time on one event loop."""
    return 1 if ow.store.engine == "sqlite" else TRANSACTIONS_MAX


def queued(ow: Onceward) -> int:
    """Return how many calls on this event loop wait for a place."""
    return len(
        (
            ow.store.transaction_slots or loop_slots_of(ow.store.writer_identity).of_running_loop()
        )._requests
    )


async def until(condition: Callable[[], bool], calls: list[asyncio.Task[Any]]) -> None:
    """Let the loop run until something holds; a call that ends before that has failed."""
    while not condition():
        for call in calls:
            if call.done():
                call.result()
                pytest.fail("a call ended too early")
        await asyncio.sleep(0)

"""Lock contention: bring two threads to one row at once, and see one wait for the other's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from onceward.client import Onceward
from onceward.stores.postgres.store import PostgresStore
from tests.support.waiting import until

WAIT_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.005
#: Who waits for a lock in this database; other tests have theirs.
WAITING = (
    "select 1 from pg_stat_activity where datname = current_database()"
    " and backend_type = 'client backend' and wait_event_type = 'Lock'"
)
postgres_only = pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
First = TypeVar("First")
Second = TypeVar("Second")


class Halt:
    """A place where a thread stands still until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.go_on.wait(WAIT_SECONDS_MAX)

    def wait(self) -> None:
        assert self.reached.wait(WAIT_SECONDS_MAX)


def settled(ow: Onceward, work: Future[Any]) -> bool:
    """Whether it went through; False once it waits for a lock instead."""
    assert isinstance(ow.store, PostgresStore)
    with ow.store.connection() as connection:

        def look() -> str:
            if work.done():
                return "through"
            return "waits" if connection.execute(WAITING).fetchall() else ""

        return bool(until(look, "it neither ended nor waits") == "through")


def wait_until_blocked(ow: Onceward, work: Future[Any]) -> None:
    """Return once a session waits for a lock; fail at once when the work went through instead."""
    assert not settled(ow, work), "it did not wait"


def run_contending(
    ow: Onceward, halt: Halt, first: Callable[[], First], second: Callable[[], Second]
) -> tuple[Future[First], Future[Second]]:
    """Let the second come while the first stands still, and wait; return how both ended."""
    with ThreadPoolExecutor(2) as pool:
        ahead = pool.submit(first)
        halt.wait()
        later = pool.submit(second)
        try:
            wait_until_blocked(ow, later)
        finally:
            halt.go_on.set()
    return ahead, later

"""Forks of a process at moments when a thread of it is inside SQLite."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceward
from onceward.client import Onceward
from onceward.errors import ForkedInTransaction
from onceward.stores.sqlite.store import SqliteStore
from onceward.system.crash_points import watch
from tests.system.test_sqlite_file import child, insert, rows


@pytest.fixture
def ow(tmp_path: Path) -> Iterator[Onceward]:
    with onceward.open(f"sqlite:///{tmp_path / 'work.db'}") as handle:
        with handle.transaction() as tx:
            tx.execute("create table effects (n int)")
        yield handle


def test_h53_a_child_forked_inside_a_commit_never_ends_it(ow: Onceward) -> None:
    """A signal handler may fork there: the child is refused, and the parent's rows stay."""
    insert(ow, 1)
    waiting, telling = os.pipe()
    children: list[int] = []

    def fork(point: str) -> None:
        if point == "sqlite.group.before_commit" and not children:
            children.append(os.fork())
            if children == [0]:
                os.close(telling)
                os.read(waiting, 1)  # Until the parent has committed more.

    watch(fork)
    refused = False
    try:
        ow.once(key="k", scope="s")(lambda: 1)()
    except ForkedInTransaction:
        refused = True
    finally:
        watch(None)
        if children == [0]:
            os._exit(0 if refused else 1)
    for n in range(2, 30):
        insert(ow, n)
    os.close(telling)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    os.close(waiting)
    insert(ow, 30)
    assert rows(ow) == list(range(1, 31))
    assert ow.store.problems() == []


def test_a_fork_while_another_thread_finds_a_row_leaves_the_child_working(ow: Onceward) -> None:
    """The child does not wait for a lock whose holder it does not have."""
    assert isinstance(ow.store, SqliteStore)
    work = ow.once(key="k", scope="s")(lambda: {"ok": True})
    finding, held, over = ow.store.database.lookup_lock, threading.Event(), threading.Event()

    def hold() -> None:
        with finding:
            held.set()
            over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        assert child(lambda: work()) == 0  # type: ignore[arg-type]  # noqa: PLW0108 - its result is not asked for
    finally:
        over.set()
        holder.join()
    assert work() == {"ok": True}

"""Many threads of one process on one SQLite file, and forks among them."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import onceward
from onceward.client import Onceward
from onceward.errors import ForkedInTransaction
from tests.support.evidence import Entry, Evidence

REFUSED = 3
#: What never takes so long unless it cannot happen.
GUARD_SECONDS = 60.0


@contextmanager
def writing(count: int, write: Callable[[int, int], None]) -> Iterator[dict[int, int]]:
    """Let so many threads write while the block runs; gives how many rows each has committed."""
    stop, acknowledged, failures = threading.Event(), dict.fromkeys(range(count), 0), []

    def loop(thread: int) -> None:
        try:
            while not stop.is_set():
                write(thread, acknowledged[thread])
                acknowledged[thread] += 1
        except Exception as exc:  # noqa: BLE001 - raised below
            failures.append(exc)

    threads = [threading.Thread(target=loop, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def forked(ow: Onceward, number: int) -> int:
    """Write a row in a child; return its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with ow.transaction() as tx:
                tx.execute("insert into effects values (-1, ?)", [number])
            code = 0
        except ForkedInTransaction:
            code = REFUSED
        except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def ow(tmp_path: Path) -> Iterator[Onceward]:
    with onceward.open(f"sqlite:///{tmp_path / 'work.db'}") as handle:
        with handle.transaction() as tx:
            tx.execute("create table effects (thread int, n int, primary key (thread, n))")
        yield handle


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_forks_among_writing_threads_lose_and_double_nothing(
    ow: Onceward, prove: bool, evidence: Evidence
) -> None:
    """Each child writes or is refused at once, and no thread of the parent fails or loses a row."""

    def write(thread: int, n: int) -> None:
        with ow.transaction() as tx:
            tx.execute("insert into effects values (?, ?)", [thread, n])

    forks = 200 if prove else 6
    with writing(4, write) as acknowledged:
        codes = [forked(ow, number) for number in range(forks)]
        # Whether one meets the parent in a transaction is chance: go on until one did not.
        deadline = time.monotonic() + GUARD_SECONDS
        while 0 not in codes and time.monotonic() < deadline:
            codes.append(forked(ow, len(codes)))
    assert set(codes) <= {0, REFUSED}
    wanted = {(thread, n) for thread, count in acknowledged.items() for n in range(count)}
    wanted |= {(-1, number) for number, code in enumerate(codes) if code == 0}
    found = set(ow.store.select("select thread, n from effects"))
    assert found == wanted
    assert ow.store.problems() == []
    evidence.record(
        Entry(
            campaign="forks while four threads of the parent write",
            layer="neighbours",
            claims=("D1",),
            engine="sqlite",
            schedules=len(codes),
            faults={"fork": len(codes)},
            lost=len(wanted - found),
            doubled=len(found - wanted),
            work=len(found),
            reached={"child wrote": codes.count(0)},
        )
    )


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_no_thread_serves_the_others_for_long(ow: Onceward, prove: bool) -> None:
    """Of 64 threads that call at once, the one that waits longest waits for a few commits."""
    longest, calls = [0.0] * 64, 10_000 if prove else 200

    @ow.once(key=lambda thread, n: f"{thread}#{n}")
    def called(thread: int, n: int) -> int:
        return thread + n

    def write(thread: int, n: int) -> None:
        began = time.monotonic()
        assert called(thread, n) == thread + n
        longest[thread] = max(longest[thread], time.monotonic() - began)

    with writing(64, write) as acknowledged:
        while sum(acknowledged.values()) < calls:
            time.sleep(0.01)
    assert len(ow.outcomes.list(limit=2 * sum(acknowledged.values()))) == sum(acknowledged.values())
    if prove:
        assert max(longest) < 0.5, max(longest)

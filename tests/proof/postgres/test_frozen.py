"""Backends and clients are frozen while they hold locks; the others wait within limits, and go on.

A frozen backend is one whose machine pages or whose disk hangs: its client waits for an answer, and
no other session can end it. A frozen client has a backend that can be ended.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DUAL, Group, NewMessage
from onceward.errors import KeyInFlight, LeaseLost, OncewardError, OutcomeUnknown, StoreBusy
from onceward.outcomes.models import Fresh
from onceward.stores import Transaction
from onceward.stores.postgres import store as store_module
from onceward.stores.postgres import transaction as transaction_module
from onceward.system import crash_points
from tests.proof.postgres.conftest import NewDatabase
from tests.support.evidence import Entry, Evidence
from tests.support.forked_children import forked
from tests.support.waiting import until

#: Longer than every limit on a slow machine, shorter than for ever.
PATIENCE_SECONDS = 60.0


@pytest.fixture
def ow(
    new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch, prove: bool
) -> Iterator[Onceward]:
    """Open a store; in a hurry our own transactions wait less for locks."""
    if not prove:
        monkeypatch.setattr(store_module, "BEGIN_SHORT", "begin; set local lock_timeout = '0.2s'")
        whole = ("begin", "set local lock_timeout = '0.2s'")
        monkeypatch.setattr(transaction_module, "_BEGIN_SINGLE", whole)
    with new_database() as url, open_handle(url) as opened:
        yield opened


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process of the server while the block runs."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _state_of(pid) == "T")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Holder:
    """A thread in a transaction that holds locks; its backend is frozen when it comes to commit."""

    def __init__(self, ow: Onceward, hold: Callable[[Transaction], None]) -> None:
        self._ow, self._hold = ow, hold
        self._holds, self._go = threading.Event(), threading.Event()
        self.backend = 0
        self.error: OncewardError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with self._ow.transaction() as tx:
                self._hold(tx)
                self.backend = tx.execute("select pg_backend_pid()")[0][0]
                self._holds.set()
                self._go.wait(PATIENCE_SECONDS)
        except OncewardError as exc:
            self.error = exc

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze it while the block runs, and wait for its end after that."""
        self._thread.start()
        assert self._holds.wait(PATIENCE_SECONDS), self.error
        with frozen(self.backend):
            self._go.set()
            yield
            assert self._thread.is_alive(), "it was not frozen"
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "it did not go on"


def acquired(ow: Onceward, worker: str, seconds: float) -> Lease:
    lease: Lease = until(lambda: ow.cursors.acquire("c", worker, seconds))
    return lease


def rows(ow: Onceward, sql: str) -> list[tuple[object, ...]]:
    with ow.transaction() as tx:
        return [tuple(row) for row in tx.execute(sql)]


def record(
    evidence: Evidence, what: str, claims: tuple[str, ...], work: int, reported: int
) -> None:
    entry = Entry(
        campaign=what,
        layer="postgres",
        claims=claims,
        engine="postgres",
        schedules=1,
        faults={"freeze": 1},
        work=work,
        reached={"refused within its limit": reported} if reported else {},
    )
    evidence.record(entry)


@pytest.mark.prove
def test_a_frozen_backend_that_guards_a_cursor(
    ow: Onceward, prove: bool, evidence: Evidence
) -> None:
    """A takeover is refused within a limit; then the frozen one's work is there whole or not."""
    lease = acquired(ow, "frozen", 0.2)

    def hold(tx: Transaction) -> None:
        lease.guard(tx)
        tx.execute("insert into effects values ('of the frozen')")
        lease.checkpoint("1", tx=tx)

    holder = Holder(ow, hold)
    with holder.frozen():
        until(lambda: not ow.cursors.show("c").is_held)
        if prove:  # It takes seconds until the worker taking over gives up what it cannot end.
            began = time.monotonic()
            assert ow.cursors.acquire("c", "other", 60.0) is None
            assert time.monotonic() - began < PATIENCE_SECONDS / 2
    heir = acquired(ow, "heir", 60.0)
    effects = len(rows(ow, "select what from effects"))
    assert effects == (heir.position == "1"), "half of it"
    assert holder.error is not None or effects == 1
    if isinstance(holder.error, LeaseLost):
        assert effects == 0
    assert heir.epoch > lease.epoch
    with ow.transaction() as tx:
        tx.execute("insert into effects values ('of the heir')")
        heir.checkpoint("2", tx=tx)
    what = "a backend that guards a cursor is frozen"
    record(evidence, what, ("F1", "F2"), effects + 1, int(prove))


@pytest.mark.prove
def test_a_frozen_backend_that_holds_an_outcome(ow: Onceward, evidence: Evidence) -> None:
    """Reconciling it gets a retry error, a concurrent call an in-flight error; then it ends."""

    @ow.once(scope="pay", key=str)
    def pay(order: str, tx: Transaction) -> str:
        tx.execute("insert into effects values (?)", [order])
        return order

    concurrent: Callable[..., str] = pay
    claim = ow.outcomes.claim("mail", "o2", fingerprint="", owner="me")
    assert isinstance(claim, Fresh)
    fence = claim.fence

    def hold(tx: Transaction) -> None:
        concurrent("o1")
        tx.execute("select 1 from onceward_outcomes where scope = 'mail' for update")

    holder = Holder(ow, hold)
    reported = 0
    with holder.frozen():
        for again in (lambda: concurrent("o1"), lambda: ow.outcomes.finish(fence, b'"sent"')):
            with pytest.raises((KeyInFlight, StoreBusy)):
                again()
            reported += 1
    assert holder.error is None
    ow.outcomes.finish(fence, b'"sent"')
    assert concurrent("o1") == "o1"
    assert rows(ow, "select what from effects") == [("o1",)]
    states = rows(ow, "select key, state, result from onceward_outcomes order by key")
    assert states == [("o1", "done", '"o1"'), ("o2", "done", '"sent"')]
    record(evidence, "a backend that holds outcomes is frozen", ("I1", "I3"), 2, reported)


@pytest.mark.prove
def test_a_frozen_backend_that_holds_the_arrival_counter(ow: Onceward, evidence: Evidence) -> None:
    """Work on its group gets a retry error, a message that arrives waits; no number is lost."""
    Groups(ow.store).add(Group(name="g", channel="chat", command=("true",)))
    arrivals = Inbox(ow.store)

    def receive(number: int) -> None:
        name = f"m{number}"
        arrivals.receive(NewMessage(group="g", id=name, sender="ann", text="hi", timestamp=None))

    def move(actor: str) -> None:
        ow.dual(DUAL).move_group("g", 0, reason="again", actor=actor)

    def hold(_: Transaction) -> None:
        receive(1)
        move("ada")

    holder = Holder(ow, hold)
    second = threading.Thread(target=receive, args=[2])
    with holder.frozen():
        second.start()
        with pytest.raises(StoreBusy):
            move("eve")
        assert second.is_alive(), "it did not wait for its number"
    second.join(PATIENCE_SECONDS)
    assert holder.error is None
    receive(1)
    move("eve")
    found = rows(ow, "select seq, id from dispatch_messages order by seq")
    assert found == [(1, "m1"), (2, "m2")]
    what = "a backend that holds the arrival counter is frozen"
    record(evidence, what, ("X1", "X2"), 2, 1)


# --- the client is frozen -----------------------------------------------------------------------


@contextmanager
def frozen_client(url: str, work: Callable[[Onceward], object]) -> Iterator[int]:
    """Let a process work until it stands before its commit; it is killed in the end."""

    def live() -> None:
        with open_handle(url) as ow:
            crash_points.arm("transaction.before_commit:1:stop")
            try:
                work(ow)
            except (LeaseLost, OutcomeUnknown):
                os._exit(7)

    pid = forked(live)
    with ExitStack() as stack:
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, signal.SIGKILL)
        found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED, "it ended before its commit"
        yield pid


def end_of(pid: int) -> int:
    """Wake a frozen client and return how it ended."""
    os.kill(pid, signal.SIGCONT)
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None
    return int(found.si_status)


@pytest.mark.prove
def test_a_client_that_is_frozen_in_its_work(new_database: NewDatabase, evidence: Evidence) -> None:
    """A concurrent call gets an in-flight error; when the client wakes, there is one effect."""

    def pay(ow: Onceward) -> str:
        @ow.once(scope="pay", key=str)
        def paying(order: str, tx: Transaction) -> str:
            tx.execute("insert into effects values (?)", [order])
            return order

        done: Callable[..., str] = paying
        return done("o1")

    with new_database() as url, frozen_client(url, pay) as pid, open_handle(url) as ow:
        with pytest.raises(KeyInFlight):
            pay(ow)
        assert end_of(pid) == 0
        assert pay(ow) == "o1"
        assert rows(ow, "select what from effects") == [("o1",)]
    record(evidence, "a client is frozen in its work, before COMMIT", ("I1", "I3"), 1, 1)


@pytest.mark.prove
def test_a_client_that_is_frozen_with_a_cursor(
    new_database: NewDatabase, evidence: Evidence
) -> None:
    """An heir ends its transaction and goes on; the client wakes to an error, and nothing stays."""

    def count(ow: Onceward) -> None:
        lease = acquired(ow, "frozen", 0.2)
        with ow.transaction() as tx:
            lease.guard(tx)
            tx.execute("insert into effects values ('of the frozen')")
            lease.checkpoint("666", tx=tx)

    with new_database() as url, frozen_client(url, count) as pid, open_handle(url) as ow:
        heir = acquired(ow, "heir", 60.0)
        with ow.transaction() as tx:
            tx.execute("insert into effects values ('of the heir')")
            heir.checkpoint("1", tx=tx)
        assert end_of(pid) == 7, "it got no error"
        assert ow.cursors.show("c").position == "1"
        assert rows(ow, "select what from effects") == [("of the heir",)]
    record(evidence, "a client is frozen with a cursor, before COMMIT", ("F1", "F2", "W1"), 1, 1)


@pytest.mark.prove
def test_a_client_that_is_frozen_with_the_arrival_counter_and_killed(
    new_database: NewDatabase, evidence: Evidence
) -> None:
    """A draw of a number waits as long as it likes; with the client's end it gets that one."""

    def draw(ow: Onceward) -> int:
        with ow.transaction() as tx:
            tx.execute("set local lock_timeout = '0.2s'")
            return ow.dual("d").next_sequence(tx)

    with new_database() as url:
        with frozen_client(url, draw), open_handle(url) as ow, pytest.raises(StoreBusy):
            draw(ow)
        with open_handle(url) as ow:

            def drawn() -> int | None:
                with suppress(StoreBusy):  # The server has not noticed yet.
                    return draw(ow)
                return None

            assert until(drawn) == 1, "a gap"
    what = "a client is frozen with the arrival counter, and killed"
    record(evidence, what, ("X1",), 1, 1)

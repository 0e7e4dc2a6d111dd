"""Failures in stores: other contexts, groups that fail in part, refused connections."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import LeaseLost, SqlFailed, StoreError
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.models import Fresh
from onceward.stores import Transaction, open_store, status
from tests.support.pgbouncer import POOLER

PATIENCE_SECONDS = 60.0
postgres_only = pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
postgres_and_pooler = pytest.mark.parametrize("ow_url", ["postgres", *POOLER], indirect=True)


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (n bigint)")
    return ow


def effects(ow: Onceward) -> list[int]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select n from effects order by n")]


def ends(work: Callable[[], object]) -> bool:
    """Say whether this ends, in a thread that may be abandoned."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


@pytest.mark.parametrize("error", [None, KeyError("x")])
def test_a_block_may_be_left_in_another_context(table: Onceward, error: Exception | None) -> None:
    """As web frameworks do; it is committed or undone, and no writer waits for it."""
    block = table.transaction()
    tx = contextvars.copy_context().run(block.__enter__)
    tx.execute("insert into effects values (1)")
    leave = contextvars.copy_context().run
    if error is None:
        leave(block.__exit__, None, None, None)
    else:
        assert not leave(block.__exit__, type(error), error, None)
    assert ends(lambda: table.store.write(lambda tx: tx.execute("insert into effects values (2)")))
    assert effects(table) == ([1, 2] if error is None else [2])


def grouped(ow: Onceward, *operations: Callable[[Transaction], object]) -> list[object]:
    """Run operations of several threads in one commit; return what each came to."""
    inside, go_on = threading.Event(), threading.Event()
    answers: dict[int, object] = {}

    def first(_: Transaction) -> None:
        inside.set()
        assert go_on.wait(PATIENCE_SECONDS)

    def run(number: int, operation: Callable[[Transaction], object]) -> None:
        try:
            answers[number] = ow.store.run_in_own_transaction(operation)
        except StoreError as exc:
            answers[number] = exc
        except LeaseLost as exc:
            answers[number] = exc

    threads = [threading.Thread(target=run, args=(0, first))]
    threads[0].start()
    assert inside.wait(PATIENCE_SECONDS)
    for number, operation in enumerate(operations, 1):
        threads.append(threading.Thread(target=run, args=(number, operation)))
        threads[-1].start()
        time.sleep(0.02)  # In this order, where there is one queue.
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return [answers[number] for number in range(1, len(operations) + 1)]


def test_an_operation_that_swallows_its_doom_is_undone_alone(table: Onceward) -> None:
    """In a group as on its own; the others are committed."""
    lease = table.cursors.acquire("one", worker="w")
    assert lease is not None
    table.cursors.seek("one", "5", "why", "ana")

    def swallows(tx: Transaction) -> None:
        tx.execute("insert into effects values (1)")
        try:
            lease.guard(tx)
        except LeaseLost:
            return

    answers = grouped(table, swallows, lambda tx: tx.execute("insert into effects values (2)"))
    assert isinstance(answers[0], SqlFailed)
    assert effects(table) == [2]


def test_a_handle_does_not_keep_what_was_undone(table: Onceward) -> None:
    """Two checkpoints in one operation, the second lost: neither handle has moved."""
    one, two = (table.cursors.acquire(name, worker="w") for name in ("one", "two"))
    assert one is not None
    assert two is not None
    table.cursors.seek("two", "5", "why", "ana")

    def both(tx: Transaction) -> None:
        one.checkpoint("1", tx)
        two.checkpoint("1", tx)

    answers = grouped(table, both, lambda tx: tx.execute("insert into effects values (2)"))
    assert isinstance(answers[0], LeaseLost)
    assert (one.position, table.cursors.show("one").position) == (None, None)


@postgres_only
def test_a_refused_statement_does_not_spoil_its_connection(ow: Onceward, ow_url: str) -> None:
    """What the server never prepared must not be asked for by name from then on."""
    with pytest.raises(SqlFailed), ow.transaction() as tx:
        tx.execute("select nonsense")
    claim = ow.outcomes.claim("s", "k", fingerprint="f", owner="o")
    assert isinstance(claim, Fresh)
    for _ in range(2):
        ow.outcomes.renew(claim.fence)
    with psycopg.connect(ow_url) as other:
        other.execute("lock table onceward_outcomes in access exclusive mode")
        with pytest.raises(StoreError):
            ow.outcomes.renew(claim.fence)
    for _ in range(4):
        ow.outcomes.renew(claim.fence)


FROZEN = """
import sys, time, onceward
ow = onceward.open(sys.argv[1])
lease = ow.cursors.acquire("c", worker="old", lease_seconds=0.5)
print("held", flush=True)
if sys.argv[2] == "late":
    sys.stdin.readline()
with ow.transaction() as tx:
    lease.mark(tx)
    tx.execute("update effects set n = n + 1")
    print("in", flush=True)
    time.sleep(60)
"""


@postgres_and_pooler
@pytest.mark.parametrize("how", ["steal", "seek", "same name", "late"])
def test_no_worker_waits_for_the_locks_of_a_frozen_worker(
    table: Onceward, ow_url: str, how: str
) -> None:
    """However the cursor came to its next holder, and whenever the old one took its locks."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (0)")
    command = [sys.executable, "-c", FROZEN, ow_url, how]
    frozen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert frozen.stdout is not None
    assert frozen.stdin is not None
    with frozen:
        try:
            assert frozen.stdout.readline() == "held\n"
            if how != "late":
                assert frozen.stdout.readline() == "in\n"
                os.kill(frozen.pid, signal.SIGSTOP)
            if how == "seek":
                table.cursors.seek("c", "0", "why", "ana")
            time.sleep(0.7)
            lease = table.cursors.acquire("c", worker="old" if how == "same name" else "new")
            assert lease is not None
            if how == "late":
                frozen.stdin.write("go\n")
                frozen.stdin.flush()
                assert frozen.stdout.readline() == ""  # Refused: another worker holds it.

            def work() -> None:
                with table.transaction() as tx:
                    lease.mark(tx)
                    tx.execute("update effects set n = n + 10")
                    lease.checkpoint("1", tx)

            assert ends(work)
        finally:
            frozen.kill()
    assert effects(table) == [10]


@postgres_only
def test_a_role_that_may_create_nothing_opens_a_store_that_is_up_to_date(
    ow: Onceward, ow_url: str
) -> None:
    """Another role migrates; a worker needs the rights to rows alone."""
    assert status(ow.store).pending == ()
    with psycopg.connect(ow_url, autocommit=True) as connection:
        connection.execute("drop role if exists third_role")
        connection.execute("create role third_role login")
        connection.execute("grant all on all tables in schema public to third_role")
        connection.execute("grant all on all sequences in schema public to third_role")
        connection.execute("revoke create on schema public from public")
    with open_handle(ow_url.replace("postgres@", "third_role@")) as other:
        assert other.cursors.acquire("c", worker="a") is not None
    with psycopg.connect(ow_url, autocommit=True) as connection:
        connection.execute("drop owned by third_role")
        connection.execute("drop role third_role")


@postgres_only
def test_a_worker_of_another_role_can_be_replaced(table: Onceward, ow_url: str) -> None:
    """Its transaction cannot be ended by us; what it writes is refused all the same."""
    with psycopg.connect(ow_url, autocommit=True) as connection:
        for role in ("first_role", "second_role"):
            connection.execute(f"drop role if exists {role}".encode())
            connection.execute(f"create role {role} login".encode())
            connection.execute(f"grant all on all tables in schema public to {role}".encode())
            connection.execute(f"grant all on all sequences in schema public to {role}".encode())
    first, second = (
        Onceward(open_store(ow_url.replace("postgres@", f"{role}@")))
        for role in ("first_role", "second_role")
    )
    lease = first.cursors.acquire("c", worker="a", lease_seconds=0.2)
    assert lease is not None
    with pytest.raises(LeaseLost), first.transaction() as tx:
        lease.mark(tx)
        tx.execute("insert into effects values (1)")
        time.sleep(0.4)
        assert second.cursors.acquire("c", worker="b") is not None
        lease.checkpoint("1", tx)
    assert effects(table) == []
    first.close()
    second.close()
    with psycopg.connect(ow_url, autocommit=True) as connection:
        for role in ("first_role", "second_role"):
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_handler_goes_on_while_many_requests_wait_for_it(table: Onceward) -> None:
    """More than there are threads wait for its commit; it still finds one for its second block."""

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        claim = scope["onceward"]
        if scope["path"] == "/two":
            async with claim.transaction() as tx:
                tx.execute("insert into effects values (1)")
            begun.set()
            await asyncio.sleep(0.3)
            async with claim.transaction() as tx:
                tx.execute("insert into effects values (2)")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    begun = asyncio.Event()
    guarded = IdempotencyMiddleware(app, store=table)

    async def call(path: str, key: str) -> int:
        answers: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            answers.append(message)

        headers = [(b"idempotency-key", key.encode())]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await guarded({**scope, "query_string": b""}, receive, send)
        return int(answers[0]["status"])

    async def main() -> set[int]:
        first = asyncio.create_task(call("/two", "first"))
        await begun.wait()
        others = [call("/x", f"k{number}") for number in range(40)]
        return set(await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE_SECONDS))

    assert asyncio.run(main()) == {200}
    assert effects(table) == [1, 2]

"""PgBouncer in transaction mode: whose statement runs, who hears, and what is reported."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import StoreUnavailable
from onceward.stores import Transaction
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.postgres import PostgresServer
from onceward.workers import App, Message
from onceward.workers.wakeups import Wakeups
from tests.support.list_source import ListSource
from tests.support.pgbouncer import PgBouncer
from tests.support.running_worker import at_work
from tests.support.waiting import until

_numbers = itertools.count(1)


@pytest.fixture
def direct(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database with our tables, past the pooler."""
    name = f"pooled_{os.getpid()}_{next(_numbers)}"
    yield postgres_server.new_database(name, like="onceward_template")
    postgres_server.drop_database(name)


@pytest.fixture
def url(pgbouncer: PgBouncer, direct: str) -> str:
    """The URL of the same through the pooler."""
    return pgbouncer.url(direct)


def session(connection: psycopg.Connection) -> int:
    """Begin a transaction, and return which session of the server it has."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def only_session(url: str, wanted: int | None = None) -> Iterator[int]:
    """Keep all sessions but one in transactions, so that whatever runs has to run there."""
    clients = [psycopg.connect(url) for _ in range(4)]
    try:
        found = {session(client): client for client in clients}
        free = wanted or next(iter(found))
        found.pop(free).rollback()
        yield free
    finally:
        for client in clients:
            client.rollback()  # PgBouncer ends the session of a client that leaves without.
            client.close()


def insert(store: PostgresStore, table: str, times: int) -> None:
    """Insert rows, each in a transaction, often enough that the statement is prepared."""
    for _ in range(times):
        with store.transaction() as tx:
            tx.execute(f"insert into {table} values (?)", [table])


def test_h48_undetected_a_prepared_statement_of_another_client_is_never_run(
    direct: str, url: str
) -> None:
    """It is refused, nothing is written, and the next try writes what its caller sent."""
    with psycopg.connect(direct) as connection:
        connection.execute("create table first (who text)")
        connection.execute("create table second (who text)")
    undetected = f"{url}?pooler=none"
    with closing(PostgresStore(undetected)) as one, closing(PostgresStore(undetected)) as two:
        with only_session(url) as a:
            insert(one, "first", 3)
        with psycopg.connect(url) as x, psycopg.connect(url) as y:
            b = next(each for each in (session(x), session(y)) if each != a)
        with only_session(url, b):
            insert(two, "second", 3)
        with only_session(url, a):
            with pytest.raises(StoreUnavailable) as caught:
                insert(two, "second", 1)
            assert caught.value.context["sqlstate"] == "26000"
            assert (one.connections.is_pooled, two.connections.is_pooled) == (False, True)
            insert(two, "second", 1)
    with psycopg.connect(direct) as connection:
        assert connection.execute("select who from first").fetchall() == [("first",)] * 3
        assert connection.execute("select who from second").fetchall() == [("second",)] * 4


def test_workers_poll_instead_of_listening(direct: str, url: str) -> None:
    """What comes later is handled, and no session of the server listens."""
    source, handled = ListSource(1), list[object]()
    with open_handle(url) as ow:
        app = App(ow)

        @app.consumer(name="later", source=source, poll_seconds=0.05)
        def handle(message: Message, tx: Transaction) -> None:
            tx.execute("select 1")
            handled.append(message.data)

        with at_work(app):
            until(lambda: handled == [1])
            source.values.append(2)
            until(lambda: handled == [1, 2])
            with psycopg.connect(direct) as connection:
                listening = connection.execute(
                    "select query from pg_stat_activity where query ilike 'listen %'"
                    " and datname = current_database()"
                ).fetchall()
        assert listening == []


def test_hints_reach_direct_connections(direct: str, url: str) -> None:
    """Sending needs no session."""
    with closing(PostgresStore(url)) as store, psycopg.connect(direct, autocommit=True) as other:
        other.execute("listen onceward_wake")
        wakes = Wakeups(store)
        wakes.publish("leads")
        (said,) = other.notifies(timeout=30, stop_after=1)
        assert said.payload == "leads"
        wakes.close()


def test_the_doctor_reports_a_pooler_and_passes(url: str) -> None:
    """A pooler is no failure."""
    command = [sys.executable, "-m", "onceward", "doctor", "--store", url]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "a connection pooler is between this program and PostgreSQL" in ran.stdout
    assert ran.returncode == 0, ran.stdout

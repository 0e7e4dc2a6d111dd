"""PostgreSQL is killed at each migration in turn; the next process to open it completes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from onceward.errors import OutcomeUnknown, StoreUnavailable
from onceward.stores import migrate, open_store
from onceward.stores import migrations as migrations_module
from onceward.stores.postgres.transaction import PostgresTransaction
from onceward.stores.queries import migrations
from onceward.testing.postgres import PostgresServer
from tests.proof.postgres.executions import await_sleeper, let_sleep
from tests.support.evidence import Entry, Evidence

#: Come after the initial schema: a change in one transaction, and an index built in pieces.
MADE_UP = (
    (2, "change", "create table made_up (number integer); insert into made_up values (1);"),
    (
        3,
        "index",
        (
            "-- Not transactional\n"
            "create index concurrently if not exists made_up_i on made_up (number);"
        ),
    ),
)
#: What is tried in a hurry.
SLICE = (1, 2)
#: Marks keys, a few in a commit, so that no other transaction waits long for one of them.
PIECES = """-- Not transactional
do $$
  declare
    _old record;
    _count bigint := 0;
  begin
    for _old in select scope, key from onceward_outcomes where note is null order by claimed_at
    loop
      if _count % 200 = 0 then
        commit;
        set local lock_timeout = '500ms';
      end if;
      _count := _count + 1;
      update onceward_outcomes set note = 'marked'
        where scope = _old.scope and key = _old.key and note is null;
    end loop;
  end
$$;
"""
#: More than fit into one piece of a migration that goes in pieces, and not whole pieces of them.
KEYS, KEYS_BEFORE_THE_KILL = 450, 300
COLUMNS = """
  select table_name, column_name, data_type, is_nullable, column_default
  from information_schema.columns where table_schema = 'public' order by 1, 2
"""
SHAPE = (
    COLUMNS,
    "select tablename, indexname, indexdef from pg_indexes where schemaname = 'public' order by 2",
    "select proname, prosrc from pg_proc where pronamespace = 'public'::regnamespace order by 1, 2",
    "select tgname, tgrelid::regclass::text from pg_trigger where not tgisinternal order by 1, 2",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that no other test uses, and that may be killed."""
    made = PostgresServer(is_synced=False)
    made.start()
    yield made
    made.close()


def shape(url: str) -> list[list[Any]]:
    with closing(psycopg.connect(url)) as connection:
        return [connection.execute(each.encode()).fetchall() for each in SHAPE]


def applied(url: str) -> list[int]:
    with closing(open_store(url)) as store:
        return [*store.applied()]


@contextmanager
def known(*later: tuple[int, str, str]) -> Iterator[None]:
    """Give this version more migrations."""
    with pytest.MonkeyPatch.context() as patch:
        every = (*migrations("postgres"), *later)
        patch.setattr(migrations_module, "migrations", lambda _: every)
        yield


@contextmanager
def killed_at(number: int, server: PostgresServer) -> Iterator[list[int]]:
    """Kill the server when this migration has done its work and is about to be noted."""
    query = PostgresTransaction.query
    killed: list[int] = []

    def killing(self: PostgresTransaction, name: str, /, **params: object) -> list[Any]:
        if name == "note_migration" and params["number"] == number and not killed:
            killed.append(number)
            server.kill()
        return query(self, name, **params)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresTransaction, "query", killing)
        yield killed


@pytest.mark.prove
def test_the_server_is_killed_at_a_migration(
    server: PostgresServer, prove: bool, evidence: Evidence
) -> None:
    """It leaves all or nothing of one; the next who opens goes on; the shape is the same."""
    calm, url = server.new_database("calm"), server.new_database("killed")
    numbers = [1, *(number for number, _, _ in MADE_UP)]
    tried = numbers if prove else [*SLICE]
    with known(*MADE_UP):
        with closing(open_store(calm)) as store:
            migrate(store)
        for number in tried:
            with closing(open_store(url)) as store, killed_at(number, server) as killed:
                with pytest.raises((StoreUnavailable, OutcomeUnknown)):
                    migrate(store)
                assert killed == [number]
            server.start()
            assert applied(url) == numbers[: number - 1], f"half of {number}"
        with closing(open_store(url)) as store:
            assert migrate(store) == numbers[tried[-1] - 1 :]
            assert migrate(store) == []
    assert shape(url) == shape(calm)
    evidence.record(
        Entry(
            campaign="kill -9 of PostgreSQL at each migration in turn",
            layer="postgres",
            claims=("D1", "D2"),
            engine="postgres",
            schedules=len(tried),
            faults={"kill": len(tried)},
            work=len(numbers),
        )
    )


@pytest.mark.prove
def test_the_server_is_killed_in_the_middle_of_a_migration_in_pieces(
    server: PostgresServer, evidence: Evidence
) -> None:
    """What was committed stays, and the next migration does the rest: each key is marked."""
    url = server.new_database("pieces")
    with closing(open_store(url)) as store:
        migrate(store)
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(
            f"insert into onceward_outcomes select 's', 'k' || n, null, 'done', 1, 'me', 'rerun',"
            f" now() + n * interval '1 s', now() from generate_series(1, {KEYS}) as n".encode()
        )
        let_sleep(connection, "inside", ["onceward_outcomes"], KEYS_BEFORE_THE_KILL)

    def kill_in_sleep() -> None:
        assert await_sleeper(url, threading.Event())
        server.kill()

    killing = threading.Thread(target=kill_in_sleep)
    killing.start()
    refused = pytest.raises((StoreUnavailable, OutcomeUnknown))
    with known((2, "pieces", PIECES)), closing(open_store(url)) as store, refused:
        migrate(store)
    killing.join()
    server.start()
    marked = "select count(*) from onceward_outcomes where note = 'marked'"
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        (done,) = connection.execute(marked.encode()).fetchall()[0]
        assert 0 < done < KEYS_BEFORE_THE_KILL, "whole pieces are committed"
        connection.execute(b"drop trigger doze on onceward_outcomes")
    with known((2, "pieces", PIECES)), closing(open_store(url)) as store:
        assert migrate(store) == [2]
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute(marked.encode()).fetchall() == [(KEYS,)]
    evidence.record(
        Entry(
            campaign="kill -9 of PostgreSQL in the middle of a migration in pieces",
            layer="postgres",
            claims=("D1", "D2"),
            engine="postgres",
            schedules=1,
            faults={"kill": 1},
            work=KEYS,
            repeated=KEYS - done,
            reached={"committed before the kill": done},
        )
    )

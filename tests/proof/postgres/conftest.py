"""Databases of a server that every test may use, each with the tables of the scenario."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import NamedTuple

import psycopg
import pytest

from onceward.client import open as open_handle
from onceward.errors import OncewardError
from onceward.testing.postgres import PostgresServer
from tests.proof.postgres.scenario import (
    TABLES,
    Rows,
    Scenario,
    State,
    finals,
    watch_commits,
)

#: Makes a database for a block, and gives its URL.
NewDatabase = Callable[[], AbstractContextManager[str]]


class Undisturbed(NamedTuple):
    """What the scenario leaves when nothing happens to it."""

    #: After each commit; the first is from before it.
    states: list[State]
    final: list[Rows]


#: Makes a database as it was: to empty it costs less than to make another.
RESET = """
select pg_terminate_backend(pid, 30000) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid();
drop function if exists doze cascade;
drop sequence if exists doom;
set session_replication_role = replica;
do $$
  declare
    _name text;
  begin
    for _name in
      select tablename from pg_tables
        where schemaname = 'public' and tablename <> 'onceward_migrations'
    loop
      execute format('delete from %I', _name);
    end loop;
    for _name in select sequencename from pg_sequences where schemaname = 'public' loop
      execute format('alter sequence %I restart', _name);
    end loop;
  end
$$;
"""


@pytest.fixture(scope="session")
def new_database(postgres_server: PostgresServer) -> NewDatabase:
    """Return what gives a database for a block, empty but for the scenario's tables."""
    numbers = itertools.count(1)
    free: list[str] = []

    @contextmanager
    def made() -> Iterator[str]:
        if not free:
            name = f"proof_{next(numbers)}"
            url = postgres_server.new_database(name, like="onceward_template")
            with psycopg.connect(url) as connection:
                connection.execute(TABLES.encode())
            free.append(url)
        url = free.pop()
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(RESET.encode())
        free.append(url)

    return made


@pytest.fixture(scope="session")
def calm(new_database: NewDatabase) -> Undisturbed:
    """Run the scenario once in peace."""

    def refused(exc: OncewardError) -> None:
        raise exc

    with (
        pytest.MonkeyPatch.context() as patch,
        new_database() as url,
        closing(psycopg.connect(url, autocommit=True)) as direct,
        open_handle(url) as ow,
    ):
        states = watch_commits(patch, direct)
        Scenario(ow).run(refused)
        return Undisturbed(states, finals(direct))

"""Migrations: a made-up second one reaches stores in use, once, whole, and blocks no writer."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import psycopg
import pytest

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.errors import OncewardError, SchemaMismatch, StoreBusy
from onceward.stores import Store, migrate, open_store, status
from onceward.stores import migrations as migrations_module
from onceward.stores.postgres import migrating
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.queries import Engine, migrations
from onceward.system import ManualClock
from tests.support.waiting import until

on_postgres = pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
#: Needs the lock of a table that handlers use, and leaves one row however often it is tried.
CHANGE: Final = """
alter table onceward_outcomes add column made_up text;
create table made_up (number integer);
insert into made_up values (1);
"""
#: Builds an index on a table that may be large.
INDEX: Final = {
    "postgres": """-- Not transactional: builds an index without blocking writers.
create index concurrently if not exists made_up on onceward_outcomes (note);
""",
    "sqlite": "create index made_up on onceward_outcomes (note);",
}
#: What a handler does with its key, in a transaction of its own.
TOUCH: Final = "update onceward_outcomes set note = 'x' where key = 'k'"
VALID: Final = "select indisvalid from pg_index where indexrelid = to_regclass('made_up')"

Second = Callable[[str], None]


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Second:
    """Return a function that gives this version a second migration."""

    def add(sql: str) -> None:
        def known(engine: Engine) -> tuple[tuple[int, str, str], ...]:
            return (*migrations(engine), (len(migrations(engine)) + 1, "made_up", sql))

        monkeypatch.setattr(migrations_module, "migrations", known)

    return add


@pytest.fixture
def old(ow: Onceward) -> Onceward:
    """A store without the second migration, with a key whose work goes on."""
    ow.outcomes.claim("s", "k", fingerprint="f", owner="o")
    return ow


@pytest.fixture
def impatient(old: Onceward, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """The same store, of a process that gives up soon."""
    monkeypatch.setattr(migrating, "RETRY_SECONDS_MAX", 1.0)
    store = PostgresStore(url_of(old), clock=ManualClock())
    yield store
    store.close()


def last(store: Store) -> int:
    """Return the number of the made-up migration."""
    return len(migrations(store.engine)) + 1


def url_of(ow: Onceward) -> str:
    assert isinstance(ow.store, PostgresStore)
    return ow.store._url


def acquired(ow: Onceward) -> Lease:
    lease = ow.cursors.acquire("c", "w1", 60.0)
    assert lease is not None
    return lease


@contextmanager
def upgrading(ow: Onceward, waits: str) -> Iterator[Future[list[int]]]:
    """Migrate as another process would; begins once the statement that `waits` is blocked."""
    with (
        closing(open_store(url_of(ow))) as other,
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(url_of(ow), autocommit=True) as watching,
    ):
        upgrade = pool.submit(migrate, other)
        until(lambda: upgrade.done() or watching.execute(waits.encode()).fetchall(), "it runs on")
        assert not upgrade.done(), upgrade.result()
        yield upgrade


FOR_TABLE: Final = (
    "select 1 from pg_locks where not granted and relation = 'onceward_outcomes'::regclass"
)
FOR_OTHERS: Final = """
select pid from pg_stat_activity
where query like 'create index concurrently%' and wait_event_type = 'Lock'
"""


# --- on both engines ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["change", "index"])
def test_it_is_applied_once(old: Onceward, second: Second, kind: str) -> None:
    """A store in use is pending, then current; migrating again changes nothing."""
    engine = old.store.engine
    second(CHANGE if kind == "change" else INDEX[engine])
    assert status(old.store).pending == ((last(old.store), "made_up"),)
    assert migrate(old.store) == [last(old.store)]
    assert migrate(old.store) == []
    assert status(old.store).pending == ()
    assert [each.key for each in old.outcomes.list()] == ["k"]


@pytest.mark.parametrize("kind", ["change", "index"])
def test_processes_that_start_at_once_apply_it_once(
    old: Onceward, ow_url: str, second: Second, kind: str
) -> None:
    """One applies it, the others wait for it, and all of them find it there."""
    second(CHANGE if kind == "change" else INDEX[old.store.engine])

    def upgrade(_: int) -> list[int]:
        with closing(open_store(ow_url)) as store:
            return migrate(store)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(upgrade, range(4))) == [[], [], [], [last(old.store)]]
    assert status(old.store).pending == ()
    if kind == "change":
        assert old.store.select("select number from made_up") == [(1,)]


KILLED: Final = """
    import os, signal, sys
    from onceward.stores import migrate, migrations, open_store
    from onceward.stores.queries import migrations as known

    url, sql = sys.argv[1:]
    store = open_store(url)
    number = len(known(store.engine)) + 1
    migrations.migrations = lambda engine: (*known(engine), (number, "made_up", sql))
    if store.engine == "sqlite":
        from onceward.stores.sqlite.transaction import SqliteTransaction as Transaction
    else:
        from onceward.stores.postgres.transaction import PostgresTransaction as Transaction
    query = Transaction.query

    def killing(self, name, /, **params):
        if name == "note_migration":
            os.kill(os.getpid(), signal.SIGKILL)
        return query(self, name, **params)

    Transaction.query = killing
    migrate(store)
"""


@pytest.mark.parametrize("kind", ["change", "index"])
def test_a_process_killed_in_the_middle_leaves_nothing_unfinished(
    old: Onceward, ow_url: str, second: Second, kind: str
) -> None:
    """The statements ran, the record did not: the next process applies it."""
    sql = CHANGE if kind == "change" else INDEX[old.store.engine]
    command = [sys.executable, "-c", textwrap.dedent(KILLED), ow_url, sql]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    second(sql)
    assert status(old.store).pending == ((last(old.store), "made_up"),)
    assert migrate(old.store) == [last(old.store)]
    if kind == "change":
        assert old.store.select("select number from made_up") == [(1,)]


@pytest.mark.parametrize("names", [("time",), ("time", "cursors", "outcomes")])
def test_a_store_of_an_earlier_development_version_is_refused(
    ow: Onceward, ow_url: str, names: tuple[str, ...]
) -> None:
    """One sentence says so and what to do; the store is left as it is."""
    with ow.transaction() as tx:
        tx.execute("delete from onceward_migrations")
        for number, name in enumerate(names, start=1):
            tx.query("note_migration", number=number, name=name)
    before = ow.store.applied()
    with closing(open_store(ow_url)) as store:
        assert status(store).is_earlier
        with pytest.raises(SchemaMismatch, match="was made by an earlier development") as refused:
            migrate(store)
        assert store.applied() == before
    assert refused.value.fix.startswith("create a new store, or use the version")


# --- PostgreSQL: while handlers are at work -------------------------------------------------------


@on_postgres
def test_cursors_go_on_while_a_migration_waits_for_a_handler(old: Onceward, second: Second) -> None:
    """A long transaction on a key delays the migration, and no cursor."""
    second(CHANGE)
    lease = acquired(old)
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old, FOR_TABLE) as upgrade:
            try:
                lease.renew()
                lease.checkpoint("7")
                assert not upgrade.done()
            finally:
                handler.commit()
            assert upgrade.result(60) == [last(old.store)]


@on_postgres
def test_a_handler_with_a_key_and_a_cursor_meets_no_deadlock(old: Onceward, second: Second) -> None:
    """It writes its key, then the migration comes, then it checkpoints; both complete."""
    second(CHANGE)
    lease = acquired(old)
    with ExitStack() as handler:
        tx = handler.enter_context(old.transaction())
        tx.execute(TOUCH)
        with upgrading(old, FOR_TABLE) as upgrade, handler.pop_all():
            lease.checkpoint("7", tx)
            assert not upgrade.done()
    assert old.cursors.show("c").position == "7"
    assert status(old.store).pending == ()


@on_postgres
def test_readers_after_a_migration_that_waits_are_served(old: Onceward, second: Second) -> None:
    """It waits for its lock only briefly: others that want the table wait no longer than that."""
    second(CHANGE)
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old, FOR_TABLE) as upgrade:
            try:
                with psycopg.connect(url_of(old), options="-c lock_timeout=60s") as other:
                    other.execute("select 1 from onceward_outcomes")
            finally:
                handler.commit()
            assert upgrade.result(60) == [last(old.store)]


@on_postgres
def test_a_transaction_that_never_ends_is_named_as_the_reason(
    old: Onceward, impatient: PostgresStore, second: Second
) -> None:
    """After a while the error says what to do; the migration can be applied later."""
    second(CHANGE)
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with pytest.raises(StoreBusy, match=f"migration {last(old.store)} ") as refused:
            migrate(impatient)
        handler.rollback()
    assert "pg_stat_activity" in refused.value.fix
    assert migrate(impatient) == [last(old.store)]


@on_postgres
def test_writers_go_on_while_an_index_is_built(old: Onceward, second: Second) -> None:
    """The build waits for an open transaction; other writes do not wait for the build."""
    second(INDEX["postgres"])
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old, FOR_OTHERS) as upgrade:
            try:
                with psycopg.connect(url_of(old), options="-c lock_timeout=5s") as other:
                    other.execute("update onceward_outcomes set note = 'y' where key <> 'k'")
                old.outcomes.claim("s", "new", fingerprint="f", owner="o")
                assert not upgrade.done()
            finally:
                handler.commit()
            assert upgrade.result(60) == [last(old.store)]
    assert old.store.select(VALID) == [(True,)]


@on_postgres
def test_an_index_that_a_crash_left_invalid_is_built_again(old: Onceward, second: Second) -> None:
    """The server ends the build in the middle; the next migration drops what is left of it."""
    second(INDEX["postgres"])
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old, FOR_OTHERS) as upgrade:
            ended = f"select pg_terminate_backend(pid) from ({FOR_OTHERS}) as building"
            with psycopg.connect(url_of(old), autocommit=True) as operator:
                assert operator.execute(ended.encode()).fetchall() == [(True,)]
            with pytest.raises(OncewardError):
                upgrade.result(60)
        handler.rollback()
    assert old.store.select(VALID) == [(False,)]
    assert status(old.store).pending == ((last(old.store), "made_up"),)
    assert migrate(old.store) == [last(old.store)]
    assert old.store.select(VALID) == [(True,)]

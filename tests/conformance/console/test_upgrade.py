"""Upgrades: a store is brought up to date while workers of the version before go on with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg
import pytest

from onceward.cursors import Lease
from onceward.errors import StoreBusy
from onceward.handle import Onceward
from onceward.retries import Failure, Message
from onceward.seams import ManualClock
from onceward.stores import Store, migrate, open_store, status
from onceward.stores.postgres import migrating
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.queries import migrations
from tests.conformance.console.test_grants import empty
from tests.conformance.counting_rows import assert_counts

__all__ = ["empty"]

on_postgres = pytest.mark.parametrize("empty", ["postgres"], indirect=True)
#: What a handler does with its key, in a transaction of its own.
TOUCH = "update onceward_outcomes set note = 'x' where key = 'k'"


@pytest.fixture
def old(empty: Store) -> Onceward:
    """A store of the version before the console, with a key whose work goes on."""
    ow = Onceward(empty)
    ow.outcomes.claim("s", "k", fingerprint="f", owner="o")
    return ow


@pytest.fixture
def impatient(old: Onceward, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """The same store, of a process that gives up soon."""
    monkeypatch.setattr(migrating, "TRYING_SECONDS_MAX", 1.0)
    store = PostgresStore(url_of(old), clock=ManualClock())
    yield store
    store.close()


def url_of(ow: Onceward) -> str:
    assert isinstance(ow.store, PostgresStore)
    return ow.store._url


def acquired(ow: Onceward) -> Lease:
    lease = ow.cursors.acquire("c", "w1", 60.0)
    assert lease is not None
    return lease


@contextmanager
def upgrading(ow: Onceward) -> Iterator[Future[list[int]]]:
    """Bring the store up to date as another process would; begins once it waits for the keys."""
    other = open_store(url_of(ow))
    wanted = "select 1 from pg_locks where not granted and relation = 'onceward_outcomes'::regclass"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url_of(ow), autocommit=True) as watching:
        upgrade = pool.submit(migrate, other)
        until = time.monotonic() + 60.0
        while not watching.execute(wanted).fetchall():
            assert time.monotonic() < until, "it waits for nobody"
        yield upgrade
    other.close()


@on_postgres
def test_cursors_go_on_while_a_migration_waits_for_a_handler(old: Onceward) -> None:
    """A transaction that has a key for long holds the migration back, and nobody's cursor."""
    lease = acquired(old)
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old) as upgrade:
            try:
                lease.renew()
                lease.checkpoint("7")
                assert not upgrade.done()
            finally:
                handler.commit()
            assert upgrade.result(60)[0] == 12
    assert status(old.store).pending == ()


@on_postgres
def test_a_handler_with_a_key_and_a_cursor_meets_no_deadlock(old: Onceward) -> None:
    """It writes its key, then the migration comes, then it checkpoints; both come to their end."""
    lease = acquired(old)
    with ExitStack() as handler:
        tx = handler.enter_context(old.transaction())
        tx.execute(TOUCH)
        with upgrading(old) as upgrade, handler.pop_all():
            lease.checkpoint("7", tx)
    assert upgrade.result()[0] == 12
    assert old.cursors.show("c").position == "7"


@on_postgres
def test_whoever_comes_behind_a_migration_that_waits_is_served(old: Onceward) -> None:
    """It asks for its lock for a moment: others who want the table wait no longer than that."""
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with upgrading(old) as upgrade:
            try:
                with psycopg.connect(url_of(old), options="-c lock_timeout=60s") as other:
                    other.execute("select 1 from onceward_outcomes")
            finally:
                handler.commit()
            assert upgrade.result(60)[-1] == len(migrations("postgres"))


@on_postgres
def test_a_transaction_that_never_ends_is_named_as_the_reason(
    old: Onceward, impatient: PostgresStore
) -> None:
    """After a while it says what to do; what was applied stays, and the rest comes later."""
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with pytest.raises(StoreBusy, match="migration 14 ") as refused:
            migrate(impatient)
        handler.rollback()
    assert "pg_stat_activity" in refused.value.fix
    assert migrate(impatient) == list(range(14, len(migrations("postgres")) + 1))


@on_postgres
def test_numbers_are_given_where_they_can_be(old: Onceward, impatient: PostgresStore) -> None:
    """A key that somebody has for long stops them for now; those before it keep theirs."""
    with old.transaction() as tx:
        tx.execute(
            "insert into onceward_outcomes (scope, key, state, fence, owner, on_crash, claimed_at, "
            "updated_at) select 's', 'old' || n, 'done', 1, 'o', 'rerun', "
            "timestamptz '2020-01-01' + make_interval(secs => n), '2020-01-01' "
            "from generate_series(1, 500) as n"
        )
    for number, name, sql in migrations("postgres")[11:14]:
        impatient.apply(number, name, sql)
    with psycopg.connect(url_of(old)) as handler:
        handler.execute(TOUCH)
        with pytest.raises(StoreBusy, match="migration 15"):
            migrate(impatient)
    numbered = "select count(*) from onceward_outcomes where sequence is not null"
    assert impatient.select(numbered)[0][0] == 400
    assert migrate(impatient) == list(range(15, len(migrations("postgres")) + 1))
    ordered = [each.key for each in old.outcomes.list(limit=1000)]
    assert ordered == ["k", *(f"old{number}" for number in range(500, 0, -1))]


def test_keys_of_before_come_before_those_of_now(old: Onceward) -> None:
    """In the order in which they were claimed; and a page of them leads to the next one."""
    for number in range(3):
        old.outcomes.claim("s", f"before{number}", fingerprint="f", owner="o")
    migrate(old.store)
    old.outcomes.claim("s", "now", fingerprint="f", owner="o")
    first = old.outcomes.page(limit=2)
    assert [each.record.key for each in first.items] == ["now", "before2"]
    assert first.next is not None
    assert first.next > 0
    second = old.outcomes.page(before=first.next)
    assert [each.record.key for each in second.items] == ["before1", "before0", "k"]
    assert second.next is None


def test_what_was_parked_and_dead_before_is_counted(old: Onceward) -> None:
    """Counts begin with the rows that are there, and follow them from then on."""
    message = Message(cursor="c", position="1", raw=b"{}", key="k")
    failure = Failure(type="E", message="")
    with old.transaction() as tx:
        old.retries.parked.park(tx, message, failure=failure)
        old.dead.add(tx, replace(message, position="2"), failure)
    migrate(old.store)
    assert_counts(old)
    assert (old.retries.parked.count("c"), old.dead.count()) == (1, {"c": 1})
    with old.transaction() as tx:
        old.retries.parked.park(tx, replace(message, position="3"))
    old.dead.drop(old.dead.list()[0].id, reason="r", actor="ann")
    assert_counts(old)
    assert (old.retries.parked.count("c"), old.dead.count()) == (2, {})

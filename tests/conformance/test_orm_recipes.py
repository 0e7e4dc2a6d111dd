"""SQLAlchemy and Django: rows of an ORM and our outcomes and checkpoints in one commit."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.orm import Session

from onceward.client import Onceward
from onceward.errors import (
    InvalidArgument,
    LeaseLost,
    SqlFailed,
    WriterHeld,
)
from tests.support.orm_shops import (
    TABLE,
    AlchemyOrder,
    DjangoOrder,
    alchemy_shop,
    django_database,
    django_provider,
    django_shop,
    engine_of,
)

Shop = tuple[Onceward, str]


class Undone(Exception):
    """Leaves a block."""


@pytest.fixture
def shop(ow: Onceward, ow_url: str) -> Iterator[Shop]:
    with ow.transaction() as tx:
        tx.execute(TABLE)
    alias = django_database(ow_url)
    yield ow, alias
    connections[alias].close()


def numbers(ow: Onceward) -> list[int]:
    return [row[0] for row in ow.store.select("select number from orders order by number")]


def keys(ow: Onceward) -> list[str]:
    return sorted(each.key for each in ow.outcomes.list(state="done"))


# --- SQLAlchemy, in our transaction ---------------------------------------------------------------


def test_h47_sqlalchemy_writes_in_the_transaction_of_the_outcome(shop: Shop) -> None:
    """A session that commits twice leaves one commit: its row and the outcome."""
    ow, _ = shop
    order = alchemy_shop(ow)
    assert [order(1), order(1), order(2)] == [1, 1, 2]
    assert numbers(ow) == [1, 2]
    assert keys(ow) == ["1", "2"]
    assert ow.store.select("select distinct note from orders") == [("paid",)]


def test_h47_an_error_after_the_sessions_commit_undoes_its_row(shop: Shop) -> None:
    """`session.commit()` decides nothing: without the outcome there is no row."""
    ow, _ = shop

    def fail(where: str) -> None:
        if where == "closed":
            raise Undone

    order = alchemy_shop(ow, fail)
    with pytest.raises(Undone):
        order(1)
    assert numbers(ow) == []


def test_h47_sqlalchemy_nests_and_rolls_back_inside_our_transaction(shop: Shop) -> None:
    """`begin_nested` and `rollback` undo their own part; a constraint is found and got over."""
    ow, _ = shop
    engine = engine_of(ow)
    with ow.transaction() as tx:
        with Session(engine) as session:
            session.add(AlchemyOrder(number=1))
            with pytest.raises(Undone), session.begin_nested():
                session.add(AlchemyOrder(number=2))
                session.flush()
                raise Undone
            with session.begin_nested():
                session.add(AlchemyOrder(number=3))
            session.commit()
            session.add(AlchemyOrder(number=4))
            session.flush()
            session.rollback()
        with Session(engine) as session:
            session.add(AlchemyOrder(number=1))
            with pytest.raises(sqlalchemy.exc.IntegrityError):
                session.commit()
        with engine.begin() as connection:
            connection.execute(sqlalchemy.insert(AlchemyOrder).values(number=5, note=""))
        assert tx.execute("select count(*) from orders") == [(3,)]
    assert numbers(ow) == [1, 3, 5]


def test_h47_an_engine_outside_a_transaction_is_refused(shop: Shop) -> None:
    """A session that no transaction of ours surrounds says so, and writes nothing."""
    ow, _ = shop
    with Session(engine_of(ow)) as session, pytest.raises(SqlFailed, match="no transaction"):
        session.add(AlchemyOrder(number=1))
        session.flush()


def test_h47_a_joined_call_that_fails_undoes_the_rows_of_its_session(shop: Shop) -> None:
    """Sessions that commit in nested calls stay inside them, whatever the caller catches."""
    ow, _ = shop
    engine = engine_of(ow)

    def add(number: int) -> None:
        with Session(engine) as session:
            session.add(AlchemyOrder(number=number))
            session.commit()

    @ow.once(key=str, scope="inner", retry_on=Undone)
    def inner(number: int, tx: Any = None) -> int:  # noqa: ARG001 - the engine finds it
        add(number)
        add(number + 1)
        if number == 20:
            raise Undone
        return number

    for is_lent_before in (True, False):
        with ow.transaction() as tx:
            tx.execute("delete from orders")
            if is_lent_before:
                add(1)
            with pytest.raises(Undone):
                inner(20)
            add(2)
            assert inner(30 + is_lent_before) == 30 + is_lent_before
            tx.connection.rollback()
            add(3)
    assert numbers(ow) == [2, 3, 30, 31]
    assert keys(ow) == ["30", "31"]


# --- Django, in its own transaction ---------------------------------------------------------------


def test_h47_django_commits_its_row_and_our_outcome_together(shop: Shop) -> None:
    """A function with `tx` joins the transaction of `atomic`, and its key replays afterwards."""
    ow, alias = shop
    order = django_shop(ow, alias)
    assert [order(1), order(1), order(2)] == [1, 1, 2]
    assert numbers(ow) == [1, 2]
    assert keys(ow) == ["1", "2"]


@pytest.mark.parametrize("where", ["begun", "saved", "joined"])
def test_h47_django_rolls_back_its_row_and_our_outcome_together(shop: Shop, where: str) -> None:
    """An error before Django's commit leaves neither, also when our block had ended well."""
    ow, alias = shop

    def fail(stage: str) -> None:
        if stage == where:
            raise Undone

    with pytest.raises(Undone):
        django_shop(ow, alias, fail)(1)
    assert numbers(ow) == []
    assert keys(ow) == []


def test_h47_a_joined_transaction_is_not_committed_by_us(shop: Shop) -> None:
    """What we wrote is invisible to others until the framework commits."""
    ow, alias = shop
    with transaction.atomic(using=alias):
        with ow.transaction(connection=connections[alias].connection) as tx:
            tx.execute("insert into orders (number) values (1)")
            assert ow.store.current() is tx
        assert ow.store.current() is None
        assert numbers(ow) == []
    assert numbers(ow) == [1]


def test_h47_an_error_in_the_block_undoes_the_block_alone(shop: Shop) -> None:
    """The framework may catch it and commit the rest."""
    ow, alias = shop
    with transaction.atomic(using=alias):
        DjangoOrder(number=1).save(using=alias)
        raw = connections[alias].connection
        with pytest.raises(Undone), ow.transaction(connection=raw) as tx:
            tx.execute("insert into orders (number) values (2)")
            raise Undone
        with ow.transaction(connection=raw) as tx, ow.transaction(connection=raw) as same:
            assert tx is same
            assert tx.connection is raw
            tx.connection.execute("insert into orders (number, note) values (3, '')")
    assert numbers(ow) == [1, 3]


def test_h47_a_checkpoint_is_committed_by_the_framework(shop: Shop) -> None:
    """It runs at the end of our block; a lost lease raises there and undoes the block."""
    ow, alias = shop
    lease = ow.cursors.acquire("c", worker="w")
    assert lease is not None

    def process(number: int) -> None:
        with transaction.atomic(using=alias):
            raw = connections[alias].connection
            with ow.transaction(connection=raw) as tx:
                DjangoOrder(number=number).save(using=alias)
                lease.checkpoint(str(number), tx=tx)

    process(1)
    assert ow.cursors.show("c").position == "1"
    ow.cursors.seek("c", "7", reason="test", actor="test")
    with pytest.raises(LeaseLost):
        process(2)
    assert numbers(ow) == [1]
    assert ow.cursors.show("c").position == "7"


@pytest.mark.parametrize("again", [False, True])
def test_h47_a_framework_that_commits_inside_the_block_gets_an_error(
    shop: Shop, again: bool
) -> None:
    """What was kept for the end is not run in another transaction, nor without one."""
    ow, alias = shop
    lease = ow.cursors.acquire("c", worker="w")
    assert lease is not None
    raw = _plain(ow, alias)
    begin = "begin immediate" if ow.store.engine == "sqlite" else "begin"
    raw.execute(begin)
    with pytest.raises(SqlFailed, match="ended inside"), ow.transaction(connection=raw) as tx:
        tx.execute("insert into orders (number) values (1)")
        lease.checkpoint("1", tx=tx)
        raw.execute("commit")
        if again:
            raw.execute(begin)
    raw.execute("commit" if again else "select 1")
    raw.close()
    assert numbers(ow) == [1]
    assert ow.cursors.show("c").position is None


def test_h47_a_failed_transaction_cannot_be_joined(shop: Shop) -> None:
    """A statement that failed before leaves nothing to join on PostgreSQL."""
    ow, alias = shop
    if ow.store.engine == "sqlite":
        return  # A failed statement leaves the transaction as it was.
    raw = _plain(ow, alias)
    raw.execute("begin")
    with pytest.raises(psycopg.Error):
        raw.execute("select no_such_column")
    with pytest.raises(SqlFailed, match="aborted"):
        ow.transaction(connection=raw).__enter__()
    raw.close()


def _plain(ow: Onceward, alias: str) -> Any:
    """Return a connection of the driver alone, in autocommit."""
    if ow.store.engine == "sqlite":
        return sqlite3.connect(connections.settings[alias]["NAME"], isolation_level=None)
    with connections[alias].cursor():
        info = connections[alias].connection.info
    return psycopg.connect(info.dsn, autocommit=True)


def test_h47_connections_that_cannot_be_joined_are_refused(shop: Shop, tmp_path: Path) -> None:
    """Another driver, no transaction, another database: each error says what to pass instead."""
    ow, alias = shop
    raw = _plain(ow, alias)
    with pytest.raises(InvalidArgument, match="no transaction is open"):
        ow.transaction(connection=raw).__enter__()
    raw.close()
    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("begin")
    if ow.store.engine == "sqlite":
        with pytest.raises(InvalidArgument, match="leads to"):
            ow.transaction(connection=other).__enter__()
    else:
        with connections[alias].cursor():
            dsn = connections[alias].connection.info.dsn
        wanted: tuple[dict[str, Any], ...] = (
            {"dbname": "postgres"},
            {"options": "-c search_path=pg_catalog"},
        )
        for options, said in zip(wanted, ("leads to postgres", "tables None"), strict=True):
            elsewhere = psycopg.connect(dsn, **options)
            with pytest.raises(InvalidArgument, match=said):
                ow.transaction(connection=elsewhere).__enter__()
            elsewhere.close()
    for wrong in (other if ow.store.engine == "postgres" else object(), "sqlite:///a.db"):
        with pytest.raises(InvalidArgument, match="is not a"):
            ow.transaction(connection=wrong).__enter__()
    other.close()
    with pytest.raises(InvalidArgument, match="async"):
        ow.transaction(
            connection=psycopg.AsyncConnection.__new__(psycopg.AsyncConnection)
        ).__enter__()
    with transaction.atomic(using=alias), ow.transaction() as tx:
        tx.execute("select 1")
        with pytest.raises(InvalidArgument, match="another transaction"):
            ow.transaction(connection=connections[alias].connection).__enter__()


def test_h47_work_with_a_commit_of_its_own_is_refused_inside_on_sqlite(shop: Shop) -> None:
    """It would wait for the framework's write lock, which waits for it; at once, not in seconds."""
    ow, alias = shop

    @ow.once(key=str, scope="apart")
    def apart(number: int) -> int:
        return number

    with django_provider(alias)() as raw, ow.transaction(connection=raw):
        if ow.store.engine == "sqlite":
            with pytest.raises(WriterHeld):
                apart(1)
        else:
            assert apart(1) == 1

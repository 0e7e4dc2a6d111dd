"""Poolers: how one is noticed, what is not done then, and what the URL may say."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg._preparing import PrepareManager

from onceward.doctor import Check, examine_store
from onceward.errors import InvalidArgument, StoreUnavailable
from onceward.stores.postgres.pooler import PoolerAwareConnection, StatementNames, split_url
from onceward.stores.postgres.store import PostgresStore
from onceward.testing.postgres import PostgresServer

_numbers = itertools.count(1)
#: As if another session answered from now on; psycopg does not see what is inside a block.
FORGET = "do $$ begin execute 'deallocate all'; end $$"
NAMES = "select name from pg_prepared_statements order by name"


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new database with our tables."""
    name = f"pooler_{os.getpid()}_{next(_numbers)}"
    yield postgres_server.new_database(name, like="onceward_template")
    postgres_server.drop_database(name)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as opened:
        yield opened


@pytest.fixture
def as_behind_pooler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every connection the id of another session than the one that answers."""
    other = property(lambda _info: 1)
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", other)


def names(store: PostgresStore) -> list[str]:
    """Return what is prepared on the connection that comes next."""
    with store.connection() as connection:
        found = connection.execute(NAMES, prepare=False).fetchall()
    return [name for (name,) in found]


def use(store: PostgresStore) -> None:
    """Run statements of each kind as often as it takes to prepare them."""
    for _ in range(4):
        store.read("list_migrations")
        with store.transaction() as tx:
            tx.execute("create temporary table rows (n bigint) on commit drop")
            tx.execute_many("insert into rows values (?)", [[1], [2]])


def test_h48_statement_names_of_two_connections_have_nothing_in_common(url: str) -> None:
    """Each name has a random prefix of its connection, whichever way it was prepared."""
    prefixes = set()
    for _ in range(2):
        with closing(PostgresStore(url)) as store:
            use(store)
            found = names(store)
        assert len(found) >= 2
        matches = [re.fullmatch(r"(onceward_[0-9a-f]{16})_pg3_\d+", name) for name in found]
        assert all(matches), found
        prefixes.add(frozenset(match[1] for match in matches if match))
    assert all(len(each) == 1 for each in prefixes)
    assert len(prefixes) == 2


def test_psycopg_still_asks_its_connection_for_names(store: PostgresStore) -> None:
    """Names are given by a private part of psycopg: when that changes, this must be seen."""
    assert hasattr(PrepareManager, "get")
    with store.connection() as connection:
        assert isinstance(connection, PoolerAwareConnection)
        assert type(connection._prepared) is StatementNames
        before = connection._prepared._names
        for _ in range(3):
            connection.execute("select 1")
        assert len(before) == 1
    assert names(store) == [name.decode() for name in before.values()]


@pytest.mark.usefixtures("as_behind_pooler")
def test_a_pooler_is_detected_and_nothing_is_prepared(store: PostgresStore) -> None:
    """From the first connection on."""
    use(store)
    assert store.connections.is_pooled
    assert names(store) == []


@pytest.mark.usefixtures("as_behind_pooler")
def test_a_connection_beside_the_pool_detects_it_too(store: PostgresStore) -> None:
    """As those have that send and hear hints."""
    store.connector()().close()
    assert store.connections.is_pooled


def test_without_a_pooler_none_is_detected(store: PostgresStore) -> None:
    """Statements are prepared as ever."""
    use(store)
    assert not store.connections.is_pooled
    assert names(store)


@pytest.mark.usefixtures("as_behind_pooler")
@pytest.mark.parametrize(
    ("setting", "is_pooled", "is_prepared"),
    [("none", False, True), ("prepared", True, True), ("transaction", True, False)],
)
def test_the_url_says_it_outright(
    url: str, setting: str, is_pooled: bool, is_prepared: bool
) -> None:
    """Then no connection is checked."""
    with closing(PostgresStore(f"{url}?pooler={setting}")) as store:
        use(store)
        assert store.connections.is_pooled == is_pooled
        assert bool(names(store)) == is_prepared


def test_h48_a_statement_that_is_missing_turns_pooler_mode_on(store: PostgresStore) -> None:
    """The transaction is refused, can be tried again, and nothing of it stays; reads go on."""
    use(store)
    with pytest.raises(StoreUnavailable) as refused, store.transaction() as tx:
        tx.execute("create table stays (n bigint)")
        for _ in range(2):
            tx.execute("select 1")
        tx.execute("select 1")
        tx.execute(FORGET)
        tx.execute("select 1")
    assert refused.value.retryable
    assert refused.value.context["sqlstate"] == "26000"
    assert "pooler=transaction" in refused.value.fix
    assert store.connections.is_pooled
    use(store)
    assert names(store) == []
    assert store.select("select to_regclass('stays')") == [(None,)]


def test_a_statement_that_a_lent_connection_misses_turns_pooler_mode_on(
    store: PostgresStore,
) -> None:
    """An ORM sees the driver's error once, and not in every transaction from then on."""
    with pytest.raises(psycopg.errors.InvalidSqlStatementName), store.transaction() as tx:
        for _ in range(3):
            tx.connection.execute("select 1")
        tx.connection.execute(FORGET)
        tx.connection.execute("select 1")
    assert store.connections.is_pooled


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.read("list_migrations"),
        lambda store: store.run_in_own_transaction(lambda tx: tx.query("list_migrations")),
        lambda store: store.write_query("list_migrations"),
    ],
    ids=["read", "run_in_own_transaction", "write_query"],
)
def test_short_work_is_repeated_when_a_statement_is_missing(
    store: PostgresStore, call: Callable[[PostgresStore], object]
) -> None:
    """Its caller notices nothing; the second time nothing is prepared."""
    with store.connection() as connection:
        connection.prepare_threshold = 0
    wanted = call(store)
    assert not store.connections.is_pooled
    with store.connection() as connection:
        connection.execute(FORGET, prepare=False)
    assert call(store) == wanted
    assert store.connections.is_pooled


def test_a_missing_statement_of_the_user_is_an_error_of_theirs(store: PostgresStore) -> None:
    """It says nothing about poolers."""
    with pytest.raises(psycopg.Error), store.connection() as connection:
        connection.execute("deallocate nothing")
    assert not store.connections.is_pooled


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://u@h/d", ("postgresql://u@h/d", None)),
        ("postgresql://u@h/d?pooler=transaction", ("postgresql://u@h/d", "transaction")),
        (
            "postgresql://u@/d?host=/run/x&pooler=prepared&port=7",
            ("postgresql://u@/d?host=/run/x&port=7", "prepared"),
        ),
        ("postgresql:///?pooler=none&host=/x", ("postgresql:///?host=/x", "none")),
        ("postgresql://u:a?pooler=b@h/d", ("postgresql://u:a?pooler=b@h/d", None)),
        ("postgresql://u:p?q@h/d?pooler=none", ("postgresql://u:p?q@h/d", "none")),
        (
            "postgresql://h/d?application_name=a%26pooler=none",
            ("postgresql://h/d?application_name=a%26pooler=none", None),
        ),
    ],
)
def test_the_setting_is_taken_out_of_the_url(url: str, wanted: tuple[str, str | None]) -> None:
    """What libpq gets is otherwise the same, to the letter."""
    assert split_url(url) == wanted


@pytest.mark.parametrize("value", ["", "session", "Transaction"])
def test_a_setting_that_does_not_exist_is_refused(value: str) -> None:
    """With those that do."""
    with pytest.raises(InvalidArgument) as refused:
        PostgresStore(f"postgresql://postgres@127.0.0.1/x?pooler={value}")
    assert refused.value.context["field"] == "pooler"
    assert "none, prepared, transaction" in refused.value.message


def test_options_that_libpq_does_not_know_are_refused_as_ever() -> None:
    """Only `pooler` is ours."""
    with pytest.raises(InvalidArgument) as refused:
        PostgresStore("postgresql://postgres@127.0.0.1/x?pooler=none&pool=7")
    assert refused.value.context["field"] == "url"


# --- reports of the doctor -----------------------------------------------------------------------


def pooler_check(store: PostgresStore) -> Check | None:
    """Return what the doctor says about a pooler."""
    found = [check for check in examine_store(store) if check.name == "pooler"]
    return found[0] if found else None


def test_the_doctor_is_silent_without_a_pooler(store: PostgresStore) -> None:
    """There is nothing to tell."""
    assert pooler_check(store) is None


@pytest.mark.usefixtures("as_behind_pooler")
@pytest.mark.parametrize(
    ("setting", "status", "said"),
    [
        ("", "note", "slower, but equally safe"),
        ("?pooler=transaction", "note", "slower, but equally safe"),
        ("?pooler=prepared", "note", "PgBouncer 1.21"),
        ("?pooler=none", "warn", "session mode only"),
    ],
)
def test_the_doctor_reports_a_pooler(url: str, setting: str, status: str, said: str) -> None:
    """It is no failure, and it says what it costs."""
    with closing(PostgresStore(url + setting)) as store:
        check = pooler_check(store)
    assert check is not None
    assert check.status == status
    assert said in check.why


def test_the_doctor_reports_a_wrong_url(url: str) -> None:
    """A setting for a pooler that is not there costs time for nothing."""
    with closing(PostgresStore(f"{url}?pooler=transaction")) as store:
        check = pooler_check(store)
    assert check is not None
    assert "there is no pooler" in check.detail


def test_h58_the_reason_why_there_is_no_connection_is_reported(url: str) -> None:
    """As the driver says it, without secrets."""
    missing = f"{url.rpartition('/')[0]}/no_such_database".replace("@", ":geheimnis@")
    refused = "postgresql://postgres@127.0.0.1:1/x"
    for address, reason in (
        (missing, 'database "no_such_database" does not exist'),
        (refused, "Connection refused"),
    ):
        store = PostgresStore(address, connect_seconds=0.2)
        with closing(store), pytest.raises(StoreUnavailable) as refused_connection:
            store.read("list_migrations")
        assert reason in refused_connection.value.message
        assert "geheimnis" not in refused_connection.value.message


def test_a_secret_in_an_error_of_the_driver_is_redacted(url: str) -> None:
    """Whatever the reason says, the password of the URL is not in it."""
    with closing(PostgresStore(url.replace("@", ":geheimnis@"))) as store:
        store.connections.last_error = psycopg.OperationalError("bad geheimnis\n\there")
        assert store.connections.reason(store._url) == "bad [redacted] here"

"""Table sources: every row once, in an order in which none comes too late, on both engines."""

from datetime import UTC, datetime
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, InvalidCursor, SourceRefused, SqlFailed
from onceward.workers import App
from onceward.workers.source_protocol import Countable, Measurable, Watchable
from onceward.workers.sources import Table, TablePartitions, TableSource, row_selection
from tests.support.source_counts import check_counts
from tests.support.user_tables import add, data, make_leads, names


@pytest.fixture
def leads(ow: Onceward) -> Onceward:
    make_leads(ow)
    return ow


def test_it_is_all_that_a_source_can_be(leads: Onceward) -> None:
    """It counts, measures and wakes."""
    source = TableSource(leads, "leads")
    assert isinstance(source, Countable)
    assert isinstance(source, Measurable)
    assert isinstance(source, Watchable)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_every_position_resumes_after_its_row(leads: Onceward, limit: int) -> None:
    """Read in pages of any size, each row comes once, in order; so does what is added later."""
    source = TableSource(leads, "leads")
    assert source.read(None, limit) == []
    add(leads, *"abcdefg")
    after, seen, positions = None, [], []
    while items := source.read(after, limit):
        assert len(items) <= limit
        seen += [data(item.raw)["name"] for item in items]
        positions += [item.position for item in items]
        after = items[-1].position
    assert seen == list("abcdefg")
    assert len(set(positions)) == 7
    add(leads, "h")
    for number, position in enumerate(positions, 1):
        assert names(source, position) == list("abcdefgh")[number:]


def test_rows_of_one_transaction_are_in_the_order_of_their_ids(leads: Onceward) -> None:
    """A page may end inside a transaction, and nothing of it is lost."""
    with leads.transaction() as tx:
        for name in "cab":
            tx.execute("insert into leads (name) values (?)", [name])
    source = TableSource(leads, "leads")
    (first,) = source.read(None, 1)
    assert data(first.raw)["name"] == "c"
    assert names(source, first.position) == ["a", "b"]


def test_what_was_rolled_back_never_comes(leads: Onceward) -> None:
    """Neither it nor its id is waited for."""
    add(leads, "a")
    with pytest.raises(ZeroDivisionError), leads.transaction() as tx:
        tx.execute("insert into leads (name) values ('never')")
        raise ZeroDivisionError
    add(leads, "b")
    assert names(TableSource(leads, "leads")) == ["a", "b"]


def test_an_open_transaction_is_not_read_from(leads: Onceward) -> None:
    """A row is not a message before its commit, not even for the one who adds it."""
    source = TableSource(leads, "leads")
    with leads.transaction() as tx:
        tx.execute("insert into leads (name) values ('a')")
        assert source.read(None, 10) == []
    assert names(source) == ["a"]


def test_a_message_holds_the_columns_that_are_asked_for(leads: Onceward) -> None:
    """All of the user's, or those that are named, in that order; ours is not among them."""
    add(leads, "a", niche=7)
    (item,) = TableSource(leads, "leads").read(None, 1)
    assert item.raw == b'{"id":1,"name":"a","niche_id":7,"kind":"a","created_at":null}'
    (item,) = TableSource(leads, "leads", columns=["name", "id"]).read(None, 1)
    assert item.raw == b'{"name":"a","id":1}'


def test_a_filter_reads_only_its_rows(leads: Onceward) -> None:
    """Equality in any number of columns, by whole number or text; positions are the table's."""
    add(leads, "a", niche=1)
    add(leads, "b", niche=2)
    add(leads, "c", niche=2, kind="z")
    add(leads, "d", niche=2)
    assert names(TableSource(leads, "leads", where={"niche_id": 2})) == ["b", "c", "d"]
    assert names(TableSource(leads, "leads", where={"niche_id": "2"})) == ["b", "c", "d"]
    both = TableSource(leads, "leads", where={"niche_id": 2, "kind": "a"})
    assert names(both) == ["b", "d"]
    (first,) = TableSource(leads, "leads").read(None, 1)
    assert names(both, first.position) == ["b", "d"]
    assert (both.lag(first.position).messages, both.lag(None).messages) == (2, 2)


def test_counts_are_between_two_positions(leads: Onceward) -> None:
    """After the first, up to and with the second; None is the start, backwards is nothing."""
    add(leads, *"abc")
    check_counts(TableSource(leads, "leads"))


def test_the_lag_says_how_many_and_since_when(
    leads: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted up to a limit; as old as the first of them says it is."""
    with leads.transaction() as tx:
        for text in ("2026-01-02T03:04:05.678Z", None):
            tx.execute("insert into leads (created_at) values (?)", [text])
    source = TableSource(leads, "leads", time_column="created_at")
    first, second = (item.position for item in source.read(None, 10))
    lag = source.lag(None)
    assert (lag.messages, lag.held_back_by) == (2, None)
    assert lag.oldest_at == datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert TableSource(leads, "leads").lag(None).oldest_at is None
    assert (source.lag(first).messages, source.lag(first).oldest_at) == (1, None)
    assert (source.lag(second).messages, source.lag(second).oldest_at) == (0, None)
    for module in ("postgres_rows", "sqlite_rows"):
        monkeypatch.setattr(f"onceward.workers.sources.{module}.LAG_ROWS_MAX", 1)
    assert source.lag(None).messages is None
    assert source.lag(first).messages == 1


def test_a_position_of_another_source_is_refused(leads: Onceward) -> None:
    """An invalid position is reported, and the source works on."""
    add(leads, "a")
    source = TableSource(leads, "leads")
    for position in ["", "x", "-1", "1.5", "1-x", "x-1", "9" * 30, "1-" + "9" * 30]:
        for call in (source.lag, lambda each: source.read(each, 1)):
            with pytest.raises(InvalidCursor):
                call(position)
        assert names(source) == ["a"]


def test_a_position_that_was_never_reached_is_refused(leads: Onceward) -> None:
    """A table or database that is younger than the cursor would pass over what comes."""
    add(leads, "a")
    source = TableSource(leads, "leads")
    future = "1000" if leads.store.engine == "sqlite" else "9000000000-1"
    with pytest.raises(InvalidCursor) as caught:
        source.read(future, 10)
    assert "eek" in caught.value.fix
    (item,) = source.read(None, 10)
    assert source.read(item.position, 10) == []


@pytest.mark.parametrize("name", ["no such", 'a"; drop table leads; --', "LEADS", "l.e.a.d.s"])
def test_a_table_that_is_not_there_is_named(leads: Onceward, name: str) -> None:
    """Whatever is in a name stays in it."""
    if (name, leads.store.engine) == ("LEADS", "sqlite"):
        assert TableSource(leads, name).read(None, 1) == []
        return
    with pytest.raises(SourceRefused, match="does not exist"):
        TableSource(leads, name).read(None, 1)
    assert TableSource(leads, "leads").read(None, 1) == []


def test_a_column_that_is_not_there_is_named(leads: Onceward) -> None:
    """The table is fine, its name is not."""
    cases: list[Any] = [
        {"id_column": "no"},
        {"columns": ["no"]},
        {"where": {"no": 1}},
        {"time_column": "no"},
    ]
    for options in cases:
        with pytest.raises(SourceRefused, match="has no column 'no'"):
            TableSource(leads, "leads", **options).check()


def test_what_cannot_be_a_name_or_a_value_is_refused(leads: Onceward) -> None:
    """At once, before anything is read."""
    cases: list[Any] = [
        {"table": ""},
        {"table": "a\0"},
        {"id_column": ""},
        {"columns": [1]},
        {"where": {"kind": None}},
        {"where": {"kind": 1.5}},
    ]
    for options in cases:
        with pytest.raises(InvalidArgument):
            TableSource(leads, **{"table": "leads", **options})


def test_odd_names_are_names(ow: Onceward) -> None:
    """Quotes, colons, percent and question marks in names are read as they stand."""
    is_sqlite = ow.store.engine == "sqlite"
    key = "integer primary key autoincrement" if is_sqlite else "bigserial primary key"
    xid = "" if is_sqlite else ", onceward_xid xid8 not null default pg_current_xact_id()"
    order = '("a ""b"" :c 100%?")' if is_sqlite else '("a ""b"" :c 100%?", onceward_xid, "Id")'
    with ow.transaction() as tx:
        tx.execute(f'create table "my :leads" ("Id" {key}, "a ""b"" :c 100%?" text{xid})')
        tx.execute(f'create index odd on "my :leads" {order}')
        tx.execute('insert into "my :leads" ("a ""b"" :c 100%?") values (?)', ["x"])
    source = TableSource(ow, "my :leads", id_column="Id", where={'a "b" :c 100%?': "x"})
    (item,) = source.read(None, 1)
    assert data(item.raw) == {"Id": 1, 'a "b" :c 100%?': "x"}
    assert source.lag(None).messages == 1


def test_a_changed_table_is_looked_at_again(leads: Onceward) -> None:
    """A column that is gone is one error; with the next read the source has noticed."""
    add(leads, "a")
    source = TableSource(leads, "leads")
    assert names(source) == ["a"]
    with leads.transaction() as tx:
        tx.execute("alter table leads drop column created_at")
    with pytest.raises(SqlFailed):
        source.read(None, 1)
    assert names(source) == ["a"]


def test_the_store_of_an_app_is_opened_when_it_is_read(leads: Onceward) -> None:
    """A table can be named before anything is open, and in a store as well as in a handle."""
    add(leads, "a")
    assert names(TableSource(leads.store, "leads")) == ["a"]

    class Closed(App):
        is_open = False

        @property
        def ow(self) -> Onceward:
            self.is_open = True
            return leads

    app = Closed()
    source = TableSource(app, "leads")
    assert not app.is_open
    assert names(source) == ["a"]
    assert app.is_open


def test_a_table_can_be_named_before_its_store(leads: Onceward) -> None:
    """The same source, of whatever store it is put on."""
    add(leads, "a", niche=7)
    table = Table("leads", key="id", columns=["name"]).on(leads)
    assert isinstance(table, TableSource)
    assert names(table) == ["a"]
    partitions = Table("leads", by="niche_id").on(leads)
    assert isinstance(partitions, TablePartitions)
    assert names(partitions.source("7")) == ["a"]
    with pytest.raises(InvalidArgument, match="^id_column: "):
        Table("leads", key="")
    with pytest.raises(TypeError):
        Table("leads", colour="red")


def test_the_limit_of_the_lag_is_the_one_that_is_documented() -> None:
    """Beyond a hundred thousand only a full read could tell."""
    assert row_selection.LAG_ROWS_MAX == 100_000

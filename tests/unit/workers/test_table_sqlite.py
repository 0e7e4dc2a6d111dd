"""Table sources on SQLite: which tables are refused, what rows become, and what a page costs."""

import json

import orjson
import pytest

from onceward.client import Onceward
from onceward.errors import InvalidCursor, SourceRefused
from onceward.workers.sources import TablePartitions, TableSource


def run(ow: Onceward, *statements: str) -> None:
    with ow.transaction() as tx:
        for sql in statements:
            tx.execute(sql)


@pytest.mark.parametrize(
    "columns",
    [
        "id integer primary key, name text",
        "id integer, name text",
        "id text primary key, name text",
        "id integer primary key, name text default 'autoincrement'",
        'id integer primary key, "autoincrement" text',
        "id integer primary key /* autoincrement */, name text",
        "name text, id integer, other integer primary key autoincrement",
    ],
)
def test_ids_that_could_be_given_again_are_refused(lite: Onceward, columns: str) -> None:
    """Deleting the newest row frees its id, and a cursor has passed it already."""
    run(lite, f"create table leads ({columns})")
    with pytest.raises(SourceRefused, match="AUTOINCREMENT") as caught:
        TableSource(lite, "leads").read(None, 1)
    assert "create a table" in caught.value.fix
    assert caught.value.statements == ()


def test_the_newest_row_may_be_deleted(lite: Onceward) -> None:
    """What comes after it has a new id, and is read."""
    run(lite, "create table leads (id integer primary key autoincrement, name text)")
    run(lite, "insert into leads (name) values ('a'), ('b')")
    source = TableSource(lite, "leads")
    after = source.read(None, 10)[-1].position
    run(lite, "delete from leads", "insert into leads (name) values ('c')")
    assert [orjson.loads(item.raw)["name"] for item in source.read(after, 10)] == ["c"]


def test_a_recreated_table_is_noticed(lite: Onceward) -> None:
    """Its ids begin at 1; a cursor that stands further on would pass them over."""
    create = "create table leads (id integer primary key autoincrement, name text)"
    run(lite, create, "insert into leads (name) values ('a'), ('b')")
    source = TableSource(lite, "leads")
    after = source.read(None, 10)[-1].position
    run(lite, "drop table leads", create)
    with pytest.raises(InvalidCursor, match="beyond 0"):
        source.read(after, 10)
    run(lite, "insert into leads (name) values ('c')")
    with pytest.raises(InvalidCursor, match="beyond 1"):
        source.read(after, 10)


def test_a_filter_without_an_index_is_refused(lite: Onceward) -> None:
    """The error holds the statement that helps; an index for some rows only does not."""
    run(lite, "create table leads (id integer primary key autoincrement, kind text, name text)")
    run(lite, "create index some on leads (kind) where name is not null")
    run(lite, "create index other on leads (name, kind)")
    source = TableSource(lite, "leads", where={"kind": "a"})
    with pytest.raises(SourceRefused, match=r"it has no index on \(kind\)") as caught:
        source.read(None, 1)
    run(lite, caught.value.fix.removeprefix("run: ").rstrip(";"))
    assert source.read(None, 1) == []
    assert caught.value.fix == 'run: CREATE INDEX "leads_kind" ON "leads" ("kind");'


def test_an_index_that_is_dropped_is_missed(lite: Onceward) -> None:
    """The source does not go on at the cost of the whole table."""
    run(lite, "create table leads (id integer primary key autoincrement, kind text)")
    run(lite, "create index by_kind on leads (kind)")
    source = TableSource(lite, "leads", where={"kind": "a"})
    assert source.read(None, 1) == []
    run(lite, "drop index by_kind")
    with pytest.raises(Exception, match="by_kind"):
        source.read(None, 1)
    with pytest.raises(SourceRefused, match="no index"):
        source.read(None, 1)


def test_partitions_by_a_column_without_a_type_are_refused(lite: Onceward) -> None:
    """There 5 and '5' are two values, and their keys would be equal."""
    run(lite, "create table leads (id integer primary key autoincrement, niche, data blob)")
    run(lite, "create index a on leads (niche)", "create index b on leads (data)")
    for by in ("niche", "data"):
        with pytest.raises(SourceRefused, match="is declared (without|BLOB)"):
            TablePartitions(lite, "leads", by=by).active(None)


def test_values_are_what_their_columns_are_declared_to_be(lite: Onceward) -> None:
    """As on PostgreSQL: JSON is part of the message, truths are true or false, bytes base64."""
    run(
        lite,
        "create table leads (id integer primary key autoincrement, doc json, yes boolean, "
        "raw blob, f real, t text)",
        """insert into leads (doc, yes, raw, f, t) values
           ('{"a":  [1.10]}', 1, x'00ff', 9e999, 'ünï'), ('{broken', 0, null, -9e999, ''),
           (null, null, x'', 1.5, 'null'), ('7', 2, 'text', 2, '{}')""",
    )
    first, second, third, fourth = (item.raw for item in TableSource(lite, "leads").read(None, 9))
    assert first == (
        '{"id":1,"doc":{"a":  [1.10]},"yes":true,"raw":"AP8=","f":"Infinity","t":"ünï"}'.encode()
    )
    assert second == b'{"id":2,"doc":"{broken","yes":false,"raw":null,"f":"-Infinity","t":""}'
    assert third == b'{"id":3,"doc":null,"yes":null,"raw":"","f":1.5,"t":"null"}'
    assert fourth == b'{"id":4,"doc":7,"yes":2,"raw":"text","f":2.0,"t":"{}"}'


def test_text_that_is_no_text_does_not_stop_the_others(lite: Onceward) -> None:
    """Its message cannot be decoded, and holds the bytes; the rows around it come as always."""
    run(
        lite,
        "create table leads (id integer primary key autoincrement, name text, raw blob)",
        "insert into leads (name, raw) values ('a', x'00'), (cast(x'41ff42' as text), x'01'), "
        "('ü', null)",
    )
    source = TableSource(lite, "leads")
    first, second, third = source.read(None, 9)
    assert orjson.loads(first.raw) == {"id": 1, "name": "a", "raw": "AA=="}
    assert orjson.loads(third.raw) == {"id": 3, "name": "ü", "raw": None}
    assert b"A\xffB" in second.raw
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(second.raw)
    assert json.loads(second.raw.decode(errors="replace"))["id"] == 2
    assert source.read(second.position, 9) == [third]


def plans(ow: Onceward, source: TableSource, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return how SQLite would run what a source reads."""
    found: list[str] = []
    select = ow.store.select

    def explained(sql: str, params: dict[str, object]) -> object:
        if "sqlite_sequence" not in sql:
            found.extend(row[3] for row in select(f"explain query plan {sql}", params))
        return select(sql, params)

    monkeypatch.setattr(ow.store, "select", explained)
    source.read(None, 100)
    after = source.read("400", 100)[-1].position
    source.count("300", after)
    source.lag(after)
    return found


@pytest.mark.parametrize(
    ("where", "search"),
    [
        ({}, "USING INTEGER PRIMARY KEY (rowid>?"),
        ({"kind": "k7"}, "USING INDEX by_kind (kind=? AND rowid>?"),
        ({"kind": "k7", "niche": 3}, "USING INDEX by_both (niche=? AND kind=? AND rowid>?"),
    ],
)
def test_a_page_costs_the_same_however_large_the_table_is(
    lite: Onceward,
    where: dict[str, str | int],
    search: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything is a search for a range, in order; nothing is scanned, nothing sorted."""
    run(
        lite,
        "create table leads (id integer primary key autoincrement, kind text, niche integer)",
        "create index by_kind on leads (kind)",
        "create index by_both on leads (niche, kind)",
        "with recursive n (i) as (select 0 union all select i + 1 from n where i < 20000) "
        "insert into leads (kind, niche) select 'k' || (i % 50), 3 from n",
    )
    found = plans(lite, TableSource(lite, "leads", where=where), monkeypatch)
    assert sum(search in step.replace("COVERING ", "") for step in found) >= 5, found
    assert not [step for step in found if "TEMP B-TREE" in step or "SCAN t" in step], found


def test_partitions_are_found_without_reading_them(
    lite: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From value to value by the index; what is new, by the id."""
    run(
        lite,
        "create table leads (id integer primary key autoincrement, niche integer)",
        "create index by_niche on leads (niche)",
        "with recursive n (i) as (select 0 union all select i + 1 from n where i < 20000) "
        "insert into leads (niche) select i % 5 from n",
    )
    steps: list[str] = []
    select = lite.store.select

    def explained(sql: str, params: dict[str, object]) -> object:
        steps.extend(row[3] for row in select(f"explain query plan {sql}", params))
        return select(sql, params)

    monkeypatch.setattr(lite.store, "select", explained)
    partitions = TablePartitions(lite, "leads", by="niche")
    active = partitions.active(None)
    assert sorted(active.keys) == ["0", "1", "2", "3", "4"]
    partitions.active(active.marker)
    wanted = ("(niche>?)", "(rowid>? AND rowid<?)")
    assert all(any(each in step for step in steps) for each in wanted), steps
    assert not [step for step in steps if step.startswith("SCAN t")], steps

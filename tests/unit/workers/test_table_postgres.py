"""Table sources on PostgreSQL: which tables are refused, what rows become, what a page costs."""

from typing import Any

import orjson
import psycopg
import pytest

from onceward.client import Onceward
from onceward.errors import InvalidCursor, SourceRefused
from onceward.workers.sources import TablePartitions, TableSource
from tests.support.user_tables import add, make_leads, names

XID = "onceward_xid xid8 not null default pg_current_xact_id()"


def run(ow: Onceward, *statements: str) -> None:
    with ow.transaction() as tx:
        for sql in statements:
            tx.execute(sql)


def fixed(ow: Onceward, source: TableSource | TablePartitions) -> str:
    """Return what the source says is to be run, having run it."""
    with pytest.raises(SourceRefused, match="cannot be read without loss") as caught:
        source.check()
    run(ow, *filter(None, caught.value.fix.removeprefix("run: ").split(";")))
    source.check()
    return caught.value.fix


def test_a_table_without_the_column_is_refused_with_what_to_run(pg: Onceward) -> None:
    """What is printed is what is missing, all of it, and it is enough."""
    run(pg, "create table leads (id bigint primary key)", "insert into leads values (2), (1)")
    assert fixed(pg, TableSource(pg, "leads")) == (
        'run: ALTER TABLE "leads" ADD COLUMN "onceward_xid" xid8 NOT NULL '
        'DEFAULT pg_current_xact_id(); CREATE INDEX ON "leads" ("onceward_xid", "id");'
    )
    # Rows of before have one transaction in common: the one that added the column.
    items = TableSource(pg, "leads").read(None, 10)
    assert [item.raw for item in items] == [b'{"id":1}', b'{"id":2}']


def test_the_column_is_added_without_rewriting_the_table(pg: Onceward) -> None:
    """However large the table is, the statement that we print takes a moment."""
    run(pg, "create table leads (id bigint primary key)", "insert into leads values (1)")
    file = "select relfilenode from pg_class where oid = 'leads'::regclass"
    before = pg.store.select(file)
    fixed(pg, TableSource(pg, "leads"))
    assert pg.store.select(file) == before


@pytest.mark.parametrize(
    ("columns", "options", "problem", "statement"),
    [
        (f"id bigint primary key, {XID}", {}, "no index on (onceward_xid, id)", "CREATE INDEX"),
        ("id bigint primary key, onceward_xid xid8", {}, "does not default to", "SET DEFAULT"),
        ("id bigint primary key, onceward_xid xid8", {}, "may be null", "SET NOT NULL"),
        (
            "id bigint primary key, onceward_xid bigint",
            {},
            "has the type int8, not xid8",
            "DROP COLUMN",
        ),
        (f"id bigint not null, {XID}", {}, "'id' is not unique", "CREATE UNIQUE INDEX"),
        (
            f"id bigint primary key, kind text, {XID}",
            {"where": {"kind": "a"}},
            "no index on (kind, onceward_xid, id)",
            'CREATE INDEX ON "leads" ("kind", "onceward_xid", "id")',
        ),
        (
            "id bigint primary key, tx xid8 not null default pg_current_xact_id()",
            {"xid_column": "tx"},
            "no index on (tx, id)",
            'CREATE INDEX ON "leads" ("tx", "id")',
        ),
    ],
)
def test_what_could_lose_rows_is_refused(
    pg: Onceward, columns: str, options: dict[str, Any], problem: str, statement: str
) -> None:
    """Each with its reason, and with the statement that helps."""
    run(pg, f"create table leads ({columns})", "create index on leads (id)")
    with pytest.raises(SourceRefused) as caught:
        TableSource(pg, "leads", **options).read(None, 1)
    assert problem in caught.value.message
    assert statement in caught.value.fix


def test_an_index_for_some_rows_only_is_none(pg: Onceward) -> None:
    """Partial, invalid, hashed or of another order: the rows could not be found by it."""
    run(
        pg,
        f"create table leads (id bigint primary key, {XID})",
        "create index on leads (onceward_xid, id) where id > 5",
        "create index on leads (id, onceward_xid)",
        "create index on leads (onceward_xid) include (id)",
    )
    with pytest.raises(SourceRefused, match="no index"):
        TableSource(pg, "leads").check()
    run(pg, "create index on leads (onceward_xid, id, (id + 1))")
    TableSource(pg, "leads").check()


def test_partitions_need_their_indexes(pg: Onceward) -> None:
    """One for the rows of a key, one for what is new."""
    run(pg, f"create table leads (id bigint primary key, niche_id int, {XID})")
    fix = fixed(pg, TablePartitions(pg, "leads", by="niche_id"))
    assert fix == (
        'run: CREATE INDEX ON "leads" ("niche_id", "onceward_xid", "id"); '
        'CREATE INDEX ON "leads" ("onceward_xid", "niche_id");'
    )
    TablePartitions(pg, "leads", by="niche_id").source("7").check()


def test_ids_may_be_of_any_type_and_in_any_schema(pg: Onceward) -> None:
    """What tells rows apart within a transaction need not be a number."""
    run(
        pg,
        "create schema sales",
        f"create table sales.leads (id text primary key, {XID})",
        "create index on sales.leads (onceward_xid, id)",
        "insert into sales.leads values ('b-1'), ('a-2')",
        "create table leads (id int)",
    )
    source = TableSource(pg, "sales.leads")
    first, second = source.read(None, 10)
    assert (first.raw, second.raw) == (b'{"id":"a-2"}', b'{"id":"b-1"}')
    assert source.read(first.position, 10) == [second]
    assert source.count(first.position, second.position) == 1


def test_every_type_has_a_form(pg: Onceward) -> None:
    """Numbers keep their digits, JSON its bytes, moments are in UTC, infinities are words."""
    run(
        pg,
        "create type pair as (a int, b text)",
        "create domain price as numeric(10, 2)",
        "create table leads (id int primary key, n numeric, p price, j json, u uuid, b bytea, "
        "tz timestamptz, ts timestamp, d date, a int[], c pair, t boolean, f float8, i inet, "
        f"{XID})",
        "create index on leads (onceward_xid, id)",
        """insert into leads values (1, 12345678901234567890.10, 1.5, '{"a":  1.10}',
           '01234567-89ab-cdef-0123-456789abcdef', '\\x00ff', '2026-01-01 12:00:00+02',
           '2026-01-01 12:00', '2026-01-01', '{1,null}', '(1,x)', true, 0.1, '10.0.0.1')""",
        """insert into leads (id, n, tz, ts, d, f) values
           (2, 'NaN', 'infinity', '-infinity', 'infinity', '-Infinity')""",
        "set timezone to 'Asia/Tokyo'",
    )
    first, second = (item.raw for item in TableSource(pg, "leads").read(None, 10))
    assert first == (
        b'{"id":1,"n":"12345678901234567890.10","p":"1.50","j":{"a":  1.10},'
        b'"u":"01234567-89ab-cdef-0123-456789abcdef","b":"AP8=",'
        b'"tz":"2026-01-01T10:00:00.000000Z","ts":"2026-01-01T12:00:00.000000",'
        b'"d":"2026-01-01","a":[1,null],"c":{"a":1,"b":"x"},"t":true,"f":0.1,"i":"10.0.0.1/32"}'
    )
    found = orjson.loads(second)
    assert [found[name] for name in ("n", "tz", "ts", "d", "f")] == [
        "NaN",
        "infinity",
        "-infinity",
        "infinity",
        "-Infinity",
    ]


def test_an_old_transaction_that_holds_rows_back_is_named(pg: Onceward, pg_url: str) -> None:
    """Nothing is lost, and the lag names the transaction that it waits for, and how long."""
    run(
        pg,
        f"create table leads (id bigint primary key, {XID})",
        "create index on leads (onceward_xid, id)",
        "create table other (id int)",
    )
    source = TableSource(pg, "leads")
    with psycopg.connect(pg_url) as slow:
        slow.execute("insert into other values (1)")
        run(pg, "insert into leads values (1)")
        assert source.read(None, 10) == []
        lag = source.lag(None)
        assert lag.messages == 1
        assert lag.held_back_by is not None
        assert lag.held_back_by.startswith(f"pid {slow.info.backend_pid} in ")
        assert "(idle in transaction, for " in lag.held_back_by
        slow.rollback()
    assert [item.raw for item in source.read(None, 10)] == [b'{"id":1}']
    assert source.lag(None).held_back_by is None


def test_a_reader_that_writes_nothing_holds_no_rows_back(pg: Onceward, pg_url: str) -> None:
    """A long report has no effect: only transactions that may still add rows count."""
    run(
        pg,
        f"create table leads (id bigint primary key, {XID})",
        "create index on leads (onceward_xid, id)",
    )
    with psycopg.connect(pg_url) as report:
        report.execute("set transaction isolation level repeatable read")
        report.execute("select * from leads")
        run(pg, "insert into leads values (1)")
        assert len(TableSource(pg, "leads").read(None, 10)) == 1


def test_a_database_restored_from_a_dump_is_noticed(pg: Onceward) -> None:
    """Its rows hold transactions that it has not come to; they would wait, and new ones be lost."""
    run(
        pg,
        f"create table leads (id bigint primary key, {XID})",
        "create index on leads (onceward_xid, id)",
    )
    source = TableSource(pg, "leads")
    assert source.read(None, 10) == []
    run(pg, "insert into leads values (1, '5000000000')")
    with pytest.raises(InvalidCursor, match="never had") as cursor:
        source.read("5000000000-1", 10)
    with pytest.raises(SourceRefused, match="another database") as caught:
        TableSource(pg, "leads").read(None, 10)
    assert "renumber the processed rows" in cursor.value.fix
    run(pg, caught.value.fix.partition("run: ")[2].partition(";")[0])
    assert len(TableSource(pg, "leads").read(None, 10)) == 1


def explained(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return where the plans will be noted of all that is read; as a server keeps them for long."""
    found: list[str] = []
    select = ow.store.select

    def noting(sql: str, params: dict[str, Any]) -> Any:
        found.append("\n".join(row[0] for row in select(f"explain {sql}", params)))
        return select(sql, params)

    monkeypatch.setattr(ow.store, "select", noting)
    return found


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_page_costs_the_same_however_large_the_table_is(
    pg: Onceward, is_analyzed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages, counts and lags are ranges of an index, in its order; nothing is scanned or sorted."""
    run(
        pg,
        f"create table leads (id bigint primary key, kind text, niche_id int, {XID})",
        "create index by_place on leads (onceward_xid, id)",
        "create index by_kind on leads (kind, onceward_xid, id)",
        "create index by_niche on leads (niche_id, onceward_xid, id)",
        "create index by_both on leads (kind, niche_id, onceward_xid, id)",
    )
    for part in range(10):
        run(
            pg,
            "insert into leads select i, case when i % 1000 = 0 then 'rare' else 'k' || i % 50 end,"
            f" i % 10 from generate_series({part * 5000}, {part * 5000 + 4999}) i",
        )
    if is_analyzed:
        run(pg, "analyze leads")
    pages: list[tuple[dict[str, Any], str]] = [
        ({}, "by_place"),
        ({"kind": "k7"}, "by_kind"),
        ({"kind": "rare"}, "by_kind"),
        ({"niche_id": 3}, "by_niche"),
        ({"niche_id": 7, "kind": "k7"}, "by_both"),
    ]
    for where, index in pages:
        source = TableSource(pg, "leads", where=where)
        source.check()
        with monkeypatch.context() as patch:
            plans = explained(pg, patch)
            items = source.read(None, 100)
            source.read(items[-1].position, 100)
            source.lag(items[-1].position)
        for plan in plans[:2]:
            assert f"using {index}" in plan, plan
            assert "Filter" not in plan, plan
        for plan in plans:
            assert "Seq Scan" not in plan, plan
            assert "Sort" not in plan, plan


def test_partitions_are_found_without_reading_them(
    pg: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From value to value by one index; what is new, by the other."""
    run(
        pg,
        f"create table leads (id bigint primary key, niche_id int, {XID})",
        "create index by_niche on leads (niche_id, onceward_xid, id)",
        "create index by_news on leads (onceward_xid, niche_id)",
    )
    for part in range(5):
        run(
            pg,
            "insert into leads select i, i % 20 from "
            f"generate_series({part * 5000}, {part * 5000 + 4999}) i",
        )
    run(pg, "analyze leads")
    partitions = TablePartitions(pg, "leads", by="niche_id")
    partitions.check()
    plans = explained(pg, monkeypatch)
    active = partitions.active(None)
    assert sorted(map(int, active.keys)) == list(range(20))
    run(pg, "insert into leads values (99999, 3)")
    assert partitions.active(active.marker).keys == ["3"]
    assert "by_niche" in plans[0]
    assert "by_news" in plans[1]
    assert not [plan for plan in plans if "Seq Scan" in plan], plans


def test_h20_a_slow_transaction_keeps_its_place(pg: Onceward, pg_url: str) -> None:
    """An earlier transaction with a lower id, and one with a higher, both come before the later."""
    make_leads(pg)
    add(pg, "first")
    source = TableSource(pg, "leads")
    (first,) = source.read(None, 10)
    insert = "insert into leads (id, name) values (%s, %s)"
    with psycopg.connect(pg_url) as low, psycopg.connect(pg_url) as high:
        low.execute(insert, [100, "low"])
        high.execute(insert, [300, "high"])
        with pg.transaction() as tx:
            tx.execute("insert into leads (id, name) values (200, 'quick')")
        assert source.read(first.position, 10) == []
        assert source.lag(first.position).messages == 1
        high.commit()
        assert source.read(first.position, 10) == []
        low.commit()
    assert names(source, first.position) == ["low", "high", "quick"]


def test_h20_rows_after_a_savepoint_are_part_of_the_whole_transaction(
    pg: Onceward, pg_url: str
) -> None:
    """It has the number of the whole transaction, and is not read before that has ended."""
    make_leads(pg)
    source = TableSource(pg, "leads")
    with psycopg.connect(pg_url) as slow:
        with slow.transaction(), slow.transaction():
            slow.execute("insert into leads (name) values ('slow')")
            add(pg, "quick")
            assert source.read(None, 10) == []
        slow.commit()
    assert names(source) == ["slow", "quick"]

"""Lists over a hundred thousand rows: a page costs what a page costs, however long the list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.stores.paging import NEWEST, SCAN_ROWS_MAX
from onceward.stores.placeholders import for_psycopg
from onceward.stores.queries import query

ROWS = 100_000
LIMIT = 50
#: One in so many outcomes is still open, one in so many letters still dead.
OPEN_EVERY = 100
#: Steps of SQLite's machine for a page of rows that are not filtered, and for a row looked at.
STEPS_PER_PAGE, STEPS_PER_ROW = 20_000, 400

OUTCOMES = {
    "sqlite": """
        insert into onceward_outcomes (
          scope, key, fingerprint, state, fence, owner, on_crash, claimed_at, updated_at, result
        )
        with recursive n (n) as (select 1 union all select n + 1 from n where n < :rows)
        select 'scope' || (n % 500), 'key' || n, 'f', iif(n % :every = 0, 'ambiguous', 'done'), 1,
          'host/1', 'ambiguous', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '{}'
        from n
    """,
    "postgres": """
        insert into onceward_outcomes (
          scope, key, fingerprint, state, fence, owner, on_crash, claimed_at, updated_at, result
        )
        select 'scope' || (n % 500), 'key' || n, 'f',
          case when n % :every = 0 then 'ambiguous' else 'done' end, 1, 'host/1', 'ambiguous',
          onceward_now(), onceward_now(), '{}'
        from generate_series(1, :rows::int) as n
    """,
}
LETTERS = {
    "sqlite": """
        insert into onceward_dead (
          cursor_name, position, sequence, key, alone, raw, state, error_type, error_message,
          error_trace, attempt_count, failures, first_failed_at, dead_at, changed_at
        )
        with recursive n (n) as (select 1 union all select n + 1 from n where n < :rows)
        select 'cursor' || (n % 7), n, n, 'k', 0, x'00', iif(n % :every = 0, 'dead', 'redriven'),
          'ValueError', 'no', '', 1, '[]', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z',
          '2026-01-01T00:00:00.000Z'
        from n
    """,
    "postgres": """
        insert into onceward_dead (
          cursor_name, position, sequence, key, alone, raw, state, error_type, error_message,
          error_trace, attempt_count, failures, first_failed_at, dead_at, changed_at
        )
        select 'cursor' || (n % 7), n, n, 'k', false, '\\x00'::bytea,
          case when n % :every = 0 then 'dead' else 'redriven' end, 'ValueError', 'no', '', 1, '[]',
          onceward_now(), onceward_now(), onceward_now()
        from generate_series(1, :rows::int) as n
    """,
}


def fill(ow: Onceward, statements: dict[str, str]) -> None:
    with ow.transaction() as tx:
        tx.execute(statements[ow.store.engine], {"rows": ROWS, "every": OPEN_EVERY})
    if ow.store.engine == "postgres":
        with ow.transaction() as tx:
            tx.execute("analyze onceward_outcomes")
            tx.execute("analyze onceward_dead")


@contextmanager
def watched(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch, *, rows_looked_at: int
) -> Iterator[list[Any]]:
    """Fail when reads of the block do more than look at so many rows by an index."""
    asked: list[Any] = []
    read = ow.store.read

    def counted(name: str, /, **params: object) -> list[Any]:
        asked.append(name)
        check = _check_plan if ow.store.engine == "postgres" else _check_steps
        check(ow, name, dict(params), rows_looked_at)
        return read(name, **params)

    with monkeypatch.context() as patch:
        patch.setattr(ow.store, "read", counted)
        yield asked
    assert asked


def _check_steps(ow: Onceward, name: str, params: dict[str, Any], rows_looked_at: int) -> None:
    """Count the steps of SQLite's machine, and see which tables it walks."""
    store: Any = ow.store
    connection = store.database.acquire_connection()
    store.database.release_connection(
        connection
    )  # The next read takes it: it was the last to come back.
    steps: list[int] = []

    def step() -> bool:
        steps.append(1_000)
        return False

    connection.raw.set_progress_handler(step, 1_000)
    store.__class__.read(store, name, **params)
    connection.raw.set_progress_handler(None, 1_000)
    assert sum(steps) <= STEPS_PER_PAGE + STEPS_PER_ROW * rows_looked_at, (name, sum(steps))


def _check_plan(ow: Onceward, name: str, params: dict[str, Any], rows_looked_at: int) -> None:
    """Let PostgreSQL tell what it did: no table is read whole, nothing long is sorted."""
    store: Any = ow.store
    statement = f"explain (analyze, format json) {query('postgres', name)}"
    with store.connection() as connection:
        ((found,),) = connection.execute(for_psycopg(statement), params, prepare=False).fetchall()
    for node in nodes(found[0]["Plan"]):
        rows = node["Actual Rows"] * node["Actual Loops"]
        removed = node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
        assert node["Node Type"] != "Seq Scan", node
        assert rows + removed <= 2 * max(rows_looked_at, 1_001), node


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def test_pages_of_keys_do_not_read_the_table(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """At both ends and in the middle; open ones by their own index; filtered ones up to a bound."""
    fill(ow, OUTCOMES)
    for before in (NEWEST, ROWS // 2, 60):
        with watched(ow, monkeypatch, rows_looked_at=LIMIT + 1):
            found = ow.outcomes.page(before=before, limit=LIMIT)
        assert len(found.items) == LIMIT
    with watched(ow, monkeypatch, rows_looked_at=2 * SCAN_ROWS_MAX):
        seen = 0
        after: int | None = NEWEST
        while after is not None:
            page = ow.outcomes.page(state="ambiguous", before=after, limit=400)
            seen, after = seen + len(page.items), page.next
        assert seen == ROWS // OPEN_EVERY
        assert not ow.outcomes.page(state="failed", limit=LIMIT).items
        assert not ow.outcomes.page(words="key1", before=50, limit=LIMIT, scope="scope3").items
        assert len(ow.outcomes.numbers_of_key("key77")) == 1
        assert not ow.outcomes.numbers_of_key("key77", "scope78")


def test_pages_of_letters_do_not_read_the_table(
    ow: Onceward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The few that are dead are found among the many that are not, of all cursors or of one."""
    fill(ow, LETTERS)
    for cursor in (None, "cursor3"):
        with watched(ow, monkeypatch, rows_looked_at=LIMIT + 1):
            seen = 0
            before: int | None = NEWEST
            while before is not None:
                page = ow.dead.page(cursor=cursor, before=before, limit=LIMIT)
                seen, before = seen + len(page.items), page.next
        assert seen in range(ROWS // OPEN_EVERY // (7 if cursor else 1), ROWS // OPEN_EVERY + 1)
    with watched(ow, monkeypatch, rows_looked_at=LIMIT + 1):
        assert len(ow.dead.page(state=None, limit=LIMIT).items) == LIMIT
    with watched(ow, monkeypatch, rows_looked_at=SCAN_ROWS_MAX):
        found = ow.dead.page(state="redriven", words="nothing", limit=LIMIT)
        assert (found.items, found.next is None) == ((), False)

"""SQLite rows: read the rows of a user's SQLite table in commit order.

SQLite has one writer at a time, so ids that only grow are in commit order. A position is an id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from onceward.errors import InvalidCursor, SqlFailed, UndecodableText
from onceward.stores import Row, Store
from onceward.workers.source_protocol import ActivePartitions, Item, Lag
from onceward.workers.sources.json_messages import parse_time, row_json
from onceward.workers.sources.row_selection import LAG_ROWS_MAX, Selection, Value, quoted
from onceward.workers.sources.sqlite_plan import SqlitePlan, make_plan

_POSITION: Final = re.compile(r"0|[1-9][0-9]{0,18}")
#: Read plans by filter columns and partition column.
Plans = dict[tuple[tuple[str, ...], str | None], SqlitePlan]


class SqliteRows:
    """Reads rows in the order of their ids."""

    def __init__(self, store: Store, selection: Selection, plans: Plans | None = None) -> None:
        """Inspect the table on first use; readers with more filters share `plans`."""
        self._store = store
        self._selection = selection
        self._plans: Plans = {} if plans is None else plans
        self._values = {f"w{n}": value for n, (_, value) in enumerate(selection.where)}

    def filtered(self, column: str, value: Value) -> SqliteRows:
        """Return a reader with one more filter."""
        return SqliteRows(self._store, self._selection.filtered(column, value), self._plans)

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused if the table cannot be read without loss."""
        self._plans.clear()
        self._plan(by)

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position."""
        plan, first = self._plan(), _parse_position(after)
        rows_after = _from(plan, f"{plan.id} > :id")
        tail = f"{rows_after} order by {plan.id} limit {limit:d}"
        try:
            rows = self._select(f"select {plan.id}, {', '.join(plan.values)} {tail}", id=first)
        except UndecodableText:
            return self._read_undecodable(plan, tail, first)
        if not rows and first:
            self._check_position(first)
        return [Item(position=str(row[0]), raw=_raw(plan, row[1:])) for row in rows]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return the number of rows after `after`, up to and including `up_to`; None is start."""
        plan = self._plan()
        between = _from(plan, f"{plan.id} > :id", f"{plan.id} <= :last")
        rows = self._select(
            f"select count(*) {between}", id=_parse_position(after), last=_parse_position(up_to)
        )
        return int(rows[0][0])

    def lag(self, after: str | None) -> Lag:
        """Return the number of rows after a position, and the age of the oldest."""
        plan = self._plan()
        left = f"{_from(plan, f'{plan.id} > :id')} order by {plan.id}"
        counted = f"select count(*) from (select 1 {left} limit {LAG_ROWS_MAX + 1})"  # noqa: S608 - quoted
        oldest = f"select {plan.time} {left} limit 1"
        ((count, at),) = self._select(f"select ({counted}), ({oldest})", id=_parse_position(after))
        return Lag(messages=count if count <= LAG_ROWS_MAX else None, oldest_at=parse_time(at))

    def head(self) -> str | None:
        """Return the highest id that was ever assigned."""
        sql = "select seq from sqlite_sequence where name = :table collate nocase"
        rows = self._select(sql, table=self._selection.table)
        return str(rows[0][0]) if rows else "0"

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that were added since a marker, which is an id."""
        plan = self._plan(column)
        key = f"t.{quoted(column)}"
        head = self.head() or "0"
        if marker is not None:
            # By the id, not by the index: reads new rows only.
            new = (f"{plan.id} > :marker", f"{plan.id} <= :head", f"{key} is not null")
            where = " and ".join([*plan.filters, *new])
            sql = f"select distinct cast({key} as text) from {plan.table} where {where}"  # noqa: S608 - quoted
        else:
            # Steps from value to value, so the cost does not depend on the number of rows.
            first = f"select {key} {_from(plan, f'{key} is not null')} order by {key} limit 1"
            following = f"select {key} {_from(plan, f'{key} > keys.key')} order by {key} limit 1"
            sql = (
                f"with recursive keys (key) as (select ({first}) union all select ({following}) "  # noqa: S608 - quoted
                "from keys where key is not null) "
                "select cast(key as text) from keys where key is not null"
            )
        rows = self._select(sql, marker=_parse_position(marker), head=int(head))
        return ActivePartitions(keys=[row[0] for row in rows], marker=head)

    def _plan(self, by: str | None = None) -> SqlitePlan:
        cache_key = (self._selection.filters, by)
        plan = self._plans.get(cache_key)
        if plan is None:
            plan = self._plans[cache_key] = make_plan(self._store, self._selection, by)
        return plan

    def _select(self, sql: str, **params: object) -> list[Row]:
        try:
            return self._store.select(sql, {**self._values, **params})
        except SqlFailed:
            self._plans.clear()  # The schema may have changed: inspect it again.
            raise

    def _check_position(self, first: int) -> None:
        """Reject an id that was never assigned: new rows with lower ids would be skipped."""
        head = self.head()
        if head is not None and first > int(head):
            message = (
                f"position {first} is beyond {head}, the highest id that was ever assigned, "
                "perhaps because the table was recreated; nothing was read"
            )
            fix = "seek the cursor to the last row that was processed, or to the start"
            raise InvalidCursor(message, fix=fix)

    def _read_undecodable(self, plan: SqlitePlan, tail: str, first: int) -> Sequence[Item]:
        """Return rows of which at least one has text that is not UTF-8; keeps its bytes."""
        values = (
            f"case typeof({each}) when 'text' then cast({each} as blob) else {each} end, "
            f"typeof({each})"
            for each in plan.values
        )
        items = []
        for row in self._select(f"select {plan.id}, {', '.join(values)} {tail}", id=first):
            pairs = zip(row[1::2], row[2::2], strict=True)
            texts = [
                value.decode(errors="surrogateescape") if kind == "text" else value
                for value, kind in pairs
            ]
            items.append(Item(position=str(row[0]), raw=_raw_undecodable(plan, texts)))
        return items


def _from(plan: SqlitePlan, *conditions: str) -> str:
    """Return the FROM and WHERE clauses."""
    return f"from {plan.source} where {' and '.join([*plan.filters, *conditions])}"


def _raw(plan: SqlitePlan, row: Row) -> bytes:
    values: list[Any] = list(row)
    for index in plan.booleans:
        if values[index] in (0, 1):
            values[index] = bool(values[index])
    for index in plan.json_values:
        values[index] = _json_fragment(values[index])
    return row_json(plan.names, values)


def _json_fragment(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    """Return valid JSON text as a JSON fragment, and any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return orjson.Fragment(value)


def _raw_undecodable(plan: SqlitePlan, row: list[Any]) -> bytes:
    """Return a row as JSON, with the original bytes of its texts."""
    try:
        return _raw(plan, tuple(row))
    except TypeError:  # Not UTF-8, so the message is not JSON either; the decoder reports it.
        named = dict(zip(plan.names, row, strict=True))
        return json.dumps(named, ensure_ascii=False, default=repr).encode(errors="surrogateescape")


def _parse_position(position: str | None) -> int:
    if position is None:
        return 0
    if not _POSITION.fullmatch(position):
        message = f"{position!r:.60} is not a position of this table: the id of a row"
        raise InvalidCursor(message, fix="seek the cursor to one of its rows, or to the start")
    return int(position)

"""SqliteRows: the rows of an SQLite table in the order of their ids.

SQLite has one writer at a time, so ids that only grow are in the order of commits. A position is an
id.
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
from onceward.workers.sources.json_messages import moment, row_json
from onceward.workers.sources.row_selection import LAG_ROWS_MAX, Selection, Value, quoted
from onceward.workers.sources.sqlite_plan import SqlitePlan, plan

_FORM: Final = re.compile(r"0|[1-9][0-9]{0,18}")
#: Plans by the columns of their filters, and by the column that makes partitions.
Plans = dict[tuple[tuple[str, ...], str | None], SqlitePlan]


class SqliteRows:
    """Rows in the order of their ids."""

    def __init__(self, store: Store, selection: Selection, plans: Plans | None = None) -> None:
        """Look at the table when it is first read; `plans` are shared with narrower readers."""
        self._store = store
        self._selection = selection
        self._plans: Plans = {} if plans is None else plans
        self._values = {f"w{n}": value for n, (_, value) in enumerate(selection.where)}

    def filtered(self, column: str, value: Value) -> SqliteRows:
        """Return a reader of those rows that have a value in a column."""
        return SqliteRows(self._store, self._selection.filtered(column, value), self._plans)

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused if the table lacks something."""
        self._plans.clear()
        self._plan(by)

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position."""
        made, first = self._plan(), _parse_position(after)
        behind = _from(made, f"{made.id} > :id")
        end = f"{behind} order by {made.id} limit {limit:d}"
        try:
            rows = self._select(f"select {made.id}, {', '.join(made.values)} {end}", id=first)
        except UndecodableText:
            return self._page_of_bytes(made, end, first)
        if not rows and first:
            self._check_position(first)
        return [Item(position=str(row[0]), raw=_raw(made, row[1:])) for row in rows]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many rows lie behind `after`, up to and with `up_to`; None is the start."""
        made = self._plan()
        between = _from(made, f"{made.id} > :id", f"{made.id} <= :last")
        rows = self._select(
            f"select count(*) {between}", id=_parse_position(after), last=_parse_position(up_to)
        )
        return int(rows[0][0])

    def lag(self, after: str | None) -> Lag:
        """Return how many rows are left."""
        made = self._plan()
        left = f"{_from(made, f'{made.id} > :id')} order by {made.id}"
        counted = f"select count(*) from (select 1 {left} limit {LAG_ROWS_MAX + 1})"  # noqa: S608 - quoted
        oldest = f"select {made.moment} {left} limit 1"
        ((count, at),) = self._select(f"select ({counted}), ({oldest})", id=_parse_position(after))
        return Lag(messages=count if count <= LAG_ROWS_MAX else None, oldest_at=moment(at))

    def head(self) -> str | None:
        """Return the highest id that was ever given."""
        sql = "select seq from sqlite_sequence where name = :table collate nocase"
        rows = self._select(sql, table=self._selection.table)
        return str(rows[0][0]) if rows else "0"

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that came since a marker, which is an id."""
        made = self._plan(column)
        key = f"t.{quoted(column)}"
        head = self.head() or "0"
        if marker is not None:
            # By the id, not by the index: only what is new is looked at.
            new = (f"{made.id} > :marker", f"{made.id} <= :head", f"{key} is not null")
            where = " and ".join([*made.filters, *new])
            sql = f"select distinct cast({key} as text) from {made.table} where {where}"  # noqa: S608 - quoted
        else:
            # From one value to the next, however many rows each has.
            first = f"select {key} {_from(made, f'{key} is not null')} order by {key} limit 1"
            following = f"select {key} {_from(made, f'{key} > keys.key')} order by {key} limit 1"
            sql = (
                f"with recursive keys (key) as (select ({first}) union all select ({following}) "  # noqa: S608 - quoted
                "from keys where key is not null) "
                "select cast(key as text) from keys where key is not null"
            )
        rows = self._select(sql, marker=_parse_position(marker), head=int(head))
        return ActivePartitions(keys=[row[0] for row in rows], marker=head)

    def _plan(self, by: str | None = None) -> SqlitePlan:
        known = (self._selection.filters, by)
        made = self._plans.get(known)
        if made is None:
            made = self._plans[known] = plan(self._store, self._selection, by)
        return made

    def _select(self, sql: str, **params: object) -> list[Row]:
        try:
            return self._store.select(sql, {**self._values, **params})
        except SqlFailed:
            self._plans.clear()  # Perhaps the table has changed: look at it again.
            raise

    def _check_position(self, first: int) -> None:
        """Refuse an id that was never given: rows that come would be passed over."""
        head = self.head()
        if head is not None and first > int(head):
            message = f"position {first} is beyond {head}, the last id that was ever given"
            fix = (
                "if the table was recreated, or the file replaced, seek the cursor to its last row"
            )
            raise InvalidCursor(message, fix=fix)

    def _page_of_bytes(self, made: SqlitePlan, end: str, first: int) -> Sequence[Item]:
        """Return rows of which one holds text that is no text: its message cannot be decoded."""
        values = (
            f"case typeof({each}) when 'text' then cast({each} as blob) else {each} end, "
            f"typeof({each})"
            for each in made.values
        )
        items = []
        for row in self._select(f"select {made.id}, {', '.join(values)} {end}", id=first):
            pairs = zip(row[1::2], row[2::2], strict=True)
            texts = [
                value.decode(errors="surrogateescape") if kind == "text" else value
                for value, kind in pairs
            ]
            items.append(Item(position=str(row[0]), raw=_raw_of_bytes(made, texts)))
        return items


def _from(made: SqlitePlan, *conditions: str) -> str:
    """Return the table, and the rows of it that are wanted."""
    return f"from {made.source} where {' and '.join([*made.filters, *conditions])}"


def _raw(made: SqlitePlan, row: Row) -> bytes:
    values: list[Any] = list(row)
    for index in made.truths:
        if values[index] in (0, 1):
            values[index] = bool(values[index])
    for index in made.nested:
        values[index] = _nested(values[index])
    return row_json(made.names, values)


def _nested(value: Any) -> Any:  # noqa: ANN401 - whatever a column holds
    """Return JSON text as part of a message, and anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return orjson.Fragment(value)


def _raw_of_bytes(made: SqlitePlan, row: list[Any]) -> bytes:
    """Return a row with the bytes of its text as they are."""
    try:
        return _raw(made, tuple(row))
    except TypeError:  # It is not text, so this is not JSON either; the decoder will report it.
        named = dict(zip(made.names, row, strict=True))
        return json.dumps(named, ensure_ascii=False, default=repr).encode(errors="surrogateescape")


def _parse_position(position: str | None) -> int:
    if position is None:
        return 0
    if not _FORM.fullmatch(position):
        message = f"{position!r:.60} is not a position of this table: an id"
        raise InvalidCursor(message, fix="seek the cursor to one of its rows, or to the start")
    return int(position)

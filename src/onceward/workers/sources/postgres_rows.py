"""PostgresRows: the rows of a PostgreSQL table in an order in which none can appear too late.

Ids are drawn when a row is inserted and seen when its transaction commits, so by id a reader passes
rows that are not there yet. Each row therefore holds the number of its transaction, and only those
are read whose number is below that of every transaction that still runs: nothing can be added
there any more. A position is that number and the id: `742-31`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import orjson

from onceward.errors import InvalidCursor, SourceRefused, SqlFailed
from onceward.stores import Row, Store
from onceward.workers.source_protocol import ActivePartitions, Item, Lag
from onceward.workers.sources.json_messages import moment, row_json
from onceward.workers.sources.postgres_plan import PostgresPlan, plan, table_name
from onceward.workers.sources.row_selection import LAG_ROWS_MAX, Selection, Value, quoted

_FORM: Final = re.compile(r"([0-9]{1,20})-(.+)", re.DOTALL)
#: Every transaction below it has ended.
_XMIN: Final = "pg_snapshot_xmin(pg_current_snapshot())"
#: No transaction has begun from it on.
_XMAX: Final = "pg_snapshot_xmax(pg_current_snapshot())"
#: Plans by the columns of their filters, and by the column that makes partitions.
Plans = dict[tuple[tuple[str, ...], str | None], PostgresPlan]
#: One statement for all would put rows that wait before the last one that is done.
_NUMBER_DONE_FIRST: Final = (
    "renumber the rows that are done, then the others, then seek to the last that is done: "
    "see docs/how-to/back-up-and-restore.md"
)


class PostgresRows:
    """Rows in the order of their transactions."""

    def __init__(self, store: Store, selection: Selection, plans: Plans | None = None) -> None:
        """Look at the table when it is first read; `plans` are shared with narrower readers."""
        self._store = store
        self._selection = selection
        self._plans: Plans = {} if plans is None else plans
        #: A position that is known to be one of this database.
        self._verified_position: str | None = None
        self._values = {f"w{n}": str(value) for n, (_, value) in enumerate(selection.where)}

    def filtered(self, column: str, value: Value) -> PostgresRows:
        """Return a reader of those rows that have a value in a column."""
        return PostgresRows(self._store, self._selection.filtered(column, value), self._plans)

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused if the table lacks something."""
        self._plans.clear()
        self._plan(by)

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position that no transaction can get in front of any more."""
        made = self._plan()
        rows = self._select(
            f"select {made.xid}::text, {made.id}::text, {made.values}",
            _from(made, _after(made, after), _bound(made, "<", (made.xid, _XMIN))),
            _order(made),
            f"limit {limit:d}",
            after=after,
        )
        if not rows and after not in (None, self._verified_position):
            self._check_position(after)
            self._verified_position = after
        return [_item(made, row) for row in rows]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many rows lie behind `after`, up to and with `up_to`; None is the start."""
        if up_to is None:
            return 0
        made = self._plan()
        last = ((made.xid, "cast(:to_xid as xid8)"), (made.id, f"cast(:to_id as {made.id_type})"))
        between = _from(made, _after(made, after), _bound(made, "<=", *last))
        xid, row_id = _parse_position(up_to)
        rows = self._select("select count(*)", between, after=after, to_xid=xid, to_id=row_id)
        return int(rows[0][0])

    def lag(self, after: str | None) -> Lag:
        """Return how many rows are left, those that are held back among them, and by whom."""
        made = self._plan()
        left = _from(made, _after(made, after), _bound(made, "<="))
        held = _from(made, _bound(made, ">=", (made.xid, _XMIN)), _bound(made, "<="))
        ((count, oldest, is_held),) = self._select(
            f"select (select count(*) from (select {left} limit {LAG_ROWS_MAX + 1}) as counted),",  # noqa: S608 - quoted
            f"(select {made.moment} {left} {_order(made)} limit 1),",
            f"exists (select {held})",
            after=after,
        )
        return Lag(
            messages=count if count <= LAG_ROWS_MAX else None,
            oldest_at=moment(oldest),
            held_back_by=self._blocking_transaction() if is_held else None,
        )

    def head(self) -> str | None:
        """Return None: the writer of new rows announces them."""
        return None

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that came since a marker.

        The marker is the number below which all transactions had ended. A later commit has a
        number that is not below it, and is found by the next call.
        """
        made = self._plan(column)
        key = f"t.{quoted(column)}"
        present = f"{key} is not null"
        if marker is not None:
            window = (f"{made.xid} >= cast(:marker as xid8)", f"{made.xid} < {_XMIN}")
            equal = (" = ".join(each) for each in zip(made.filters, made.wanted, strict=True))
            found = f"select distinct {key}::text {_from(made, present, *window, *equal)}"
        else:
            # From one value to the next, however many rows each has.
            order = f"order by {', '.join([*made.filters, key])} limit 1"
            every = (_bound(made, ">="), _bound(made, "<="), present)
            first = f"select {key} {_from(made, *every)} {order}"
            more = (_bound(made, ">", (key, "keys.key")), _bound(made, "<="))
            following = f"select {key} {_from(made, *more)} {order}"
            found = (
                f"with recursive keys (key) as (({first}) union all select ({following}) from keys "  # noqa: S608 - quoted
                "where keys.key is not null) select key::text from keys where key is not null"
            )
        sql = f"select {_XMIN}::text, array({found})"
        ((reached, keys),) = self._select(sql, marker=marker)
        return ActivePartitions(keys=keys, marker=reached)

    def _plan(self, by: str | None = None) -> PostgresPlan:
        known = (self._selection.filters, by)
        made = self._plans.get(known)
        if made is None:
            made = plan(self._store, self._selection, by)
            self._check_transactions(made)
            self._plans[known] = made
        return made

    def _select(self, *parts: str, after: str | None = None, **params: object) -> list[Row]:
        if after is not None:
            params["xid"], params["id"] = _parse_position(after)
        try:
            return self._store.select(" ".join(parts), {**self._values, **params})
        except SqlFailed as exc:
            self._plans.clear()  # Perhaps the table has changed: look at it again.
            if after is not None and str(exc.context.get("sqlstate"))[:2] == "22":
                raise _invalid_position(after) from exc
            raise

    def _check_transactions(self, made: PostgresPlan) -> None:
        """Refuse rows with transactions that this database has not come to: they would wait."""
        beyond = (_bound(made, ">=", (made.xid, _XMAX)), _bound(made, "<="))
        if self._select(f"select 1 {_from(made, *beyond)} limit 1"):
            message = f"table {self._selection.table!r} holds the transactions of another database"
            raise SourceRefused(message, fix=self._renumber)

    def _check_position(self, after: str | None) -> None:
        """Refuse a position with a transaction that this database has not come to."""
        if self._select(f"select 1 where cast(:xid as xid8) >= {_XMAX}", after=after):
            message = f"position {after!r:.60} is of a transaction that this database never had"
            fix = f"was it restored from a dump of another server? {_NUMBER_DONE_FIRST}"
            raise InvalidCursor(message, fix=fix)

    @property
    def _renumber(self) -> str:
        column = quoted(self._selection.xid_column)
        table = table_name(self._selection.table)
        number = f"run: UPDATE {table} SET {column} = DEFAULT;"  # noqa: S608 - printed
        return f"if nothing of it is done yet, {number} else {_NUMBER_DONE_FIRST}"

    def _blocking_transaction(self) -> str:
        rows = self._store.read("table_holder")
        if not rows:
            return "a transaction that this role may not see"
        who, state, seconds = rows[0]
        return f"{who} ({state}, for {max(0.0, seconds or 0.0):.1f} s)"


def _from(made: PostgresPlan, *conditions: str) -> str:
    """Return the table, and the rows of it that are wanted."""
    return f"from {made.table} as t where {' and '.join(filter(None, conditions)) or 'true'}"


def _bound(made: PostgresPlan, comparison: str, *more: tuple[str, str]) -> str:
    """Return one end of the range of rows, as one comparison of all columns of the index.

    A filter is part of both ends instead of an equality, so that no other index has this order.
    """
    columns = ", ".join([*made.filters, *(column for column, _ in more)])
    values = ", ".join([*made.wanted, *(value for _, value in more)])
    return f"({columns}) {comparison} ({values})" if columns else ""


def _after(made: PostgresPlan, after: str | None) -> str:
    if after is None:
        return _bound(made, ">=")
    first = ((made.xid, "cast(:xid as xid8)"), (made.id, f"cast(:id as {made.id_type})"))
    return _bound(made, ">", *first)


def _order(made: PostgresPlan) -> str:
    # With the table's name: a bare one would be the text that is selected under it.
    return f"order by {', '.join([*made.filters, made.xid, made.id])}"


def _item(made: PostgresPlan, row: Row) -> Item:
    xid, row_id, *values = row
    for index in made.nested:
        if values[index] is not None:
            values[index] = orjson.Fragment(values[index])
    return Item(position=f"{xid}-{row_id}", raw=row_json(made.names, values))


def _parse_position(position: str) -> tuple[str, str]:
    found = _FORM.fullmatch(position)
    if found is None:
        raise _invalid_position(position)
    return found[1], found[2]


def _invalid_position(position: str) -> InvalidCursor:
    message = f"{position!r:.60} is not a position of this table: transaction-id"
    return InvalidCursor(message, fix="seek the cursor to one of its rows, or to the start")

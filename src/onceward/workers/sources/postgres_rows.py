"""PostgreSQL rows: read the rows of a user's table in an order in which no commit can be missed.

An id is assigned at the insert but visible only after the commit, so a reader in the order of ids
skips rows of transactions that commit later. Each row therefore stores the id of its transaction
(xid). Only rows with an xid below that of every running transaction are read: no row can be added
there any more. A position is xid and id: `742-31`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import orjson

from onceward.errors import InvalidCursor, SourceRefused, SqlFailed
from onceward.stores import Row, Store
from onceward.workers.source_protocol import ActivePartitions, Item, Lag
from onceward.workers.sources.json_messages import parse_time, row_json
from onceward.workers.sources.postgres_plan import PostgresPlan, make_plan, table_name
from onceward.workers.sources.row_selection import LAG_ROWS_MAX, Selection, Value, quoted

_POSITION: Final = re.compile(r"([0-9]{1,20})-(.+)", re.DOTALL)
#: Every transaction with a lower xid has ended.
_XMIN: Final = "pg_snapshot_xmin(pg_current_snapshot())"
#: No transaction with this xid, or a higher one, has begun.
_XMAX: Final = "pg_snapshot_xmax(pg_current_snapshot())"
#: Read plans by filter columns and partition column.
Plans = dict[tuple[tuple[str, ...], str | None], PostgresPlan]
#: In two statements: a single one could order unprocessed rows before the last processed one.
_RENUMBER_FIX: Final = (
    "renumber the processed rows, then the others, then seek to the last processed row: "
    "see 'Back up and restore' in the manual"
)


class PostgresRows:
    """Reads rows in the order of their transaction ids."""

    def __init__(self, store: Store, selection: Selection, plans: Plans | None = None) -> None:
        """Inspect the table on first use; readers with more filters share `plans`."""
        self._store = store
        self._selection = selection
        self._plans: Plans = {} if plans is None else plans
        #: A position that is known to belong to this database.
        self._verified_position: str | None = None
        self._values = {f"w{n}": str(value) for n, (_, value) in enumerate(selection.where)}

    def filtered(self, column: str, value: Value) -> PostgresRows:
        """Return a reader with one more filter."""
        return PostgresRows(self._store, self._selection.filtered(column, value), self._plans)

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused if the table cannot be read without loss."""
        self._plans.clear()
        self._plan(by)

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position, as far as no running transaction can add earlier ones."""
        plan = self._plan()
        rows = self._select(
            f"select {plan.xid}::text, {plan.id}::text, {plan.values}",
            _from(plan, _after(plan, after), _bound(plan, "<", (plan.xid, _XMIN))),
            _order(plan),
            f"limit {limit:d}",
            after=after,
        )
        if not rows and after not in (None, self._verified_position):
            self._check_position(after)
            self._verified_position = after
        return [_item(plan, row) for row in rows]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return the number of rows after `after`, up to and including `up_to`; None is start."""
        if up_to is None:
            return 0
        plan = self._plan()
        last = ((plan.xid, "cast(:to_xid as xid8)"), (plan.id, f"cast(:to_id as {plan.id_type})"))
        between = _from(plan, _after(plan, after), _bound(plan, "<=", *last))
        xid, row_id = _parse_position(up_to)
        rows = self._select("select count(*)", between, after=after, to_xid=xid, to_id=row_id)
        return int(rows[0][0])

    def lag(self, after: str | None) -> Lag:
        """Return the number of rows after a position, and the transaction that blocks any."""
        plan = self._plan()
        left = _from(plan, _after(plan, after), _bound(plan, "<="))
        held = _from(plan, _bound(plan, ">=", (plan.xid, _XMIN)), _bound(plan, "<="))
        ((count, oldest, is_held),) = self._select(
            f"select (select count(*) from (select {left} limit {LAG_ROWS_MAX + 1}) as counted),",  # noqa: S608 - quoted
            f"(select {plan.time} {left} {_order(plan)} limit 1),",
            f"exists (select {held})",
            after=after,
        )
        return Lag(
            messages=count if count <= LAG_ROWS_MAX else None,
            oldest_at=parse_time(oldest),
            held_back_by=self._blocking_transaction() if is_held else None,
        )

    def head(self) -> str | None:
        """Return None: writers publish new rows themselves."""
        return None

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that were added since a marker.

        The marker is the xid below which all transactions had ended. A transaction that commits
        later has an xid that is not below it, and is found by the next call.
        """
        plan = self._plan(column)
        key = f"t.{quoted(column)}"
        present = f"{key} is not null"
        if marker is not None:
            window = (f"{plan.xid} >= cast(:marker as xid8)", f"{plan.xid} < {_XMIN}")
            filters = zip(plan.filters, plan.filter_values, strict=True)
            filters = zip(plan.filters, plan.filter_values, strict=True)
            equal = (" = ".join(each) for each in filters)
            found = f"select distinct {key}::text {_from(plan, present, *window, *equal)}"
        else:
            # Steps from value to value, so the cost does not depend on the number of rows.
            order = f"order by {', '.join([*plan.filters, key])} limit 1"
            every = (_bound(plan, ">="), _bound(plan, "<="), present)
            first = f"select {key} {_from(plan, *every)} {order}"
            more = (_bound(plan, ">", (key, "keys.key")), _bound(plan, "<="))
            following = f"select {key} {_from(plan, *more)} {order}"
            found = (
                f"with recursive keys (key) as (({first}) union all select ({following}) from keys "  # noqa: S608 - quoted
                "where keys.key is not null) select key::text from keys where key is not null"
            )
        sql = f"select {_XMIN}::text, array({found})"
        ((xmin, keys),) = self._select(sql, marker=marker)
        return ActivePartitions(keys=keys, marker=xmin)

    def _plan(self, by: str | None = None) -> PostgresPlan:
        cache_key = (self._selection.filters, by)
        plan = self._plans.get(cache_key)
        if plan is None:
            plan = make_plan(self._store, self._selection, by)
            self._check_row_transactions(plan)
            self._plans[cache_key] = plan
        return plan

    def _select(self, *parts: str, after: str | None = None, **params: object) -> list[Row]:
        if after is not None:
            params["xid"], params["id"] = _parse_position(after)
        try:
            return self._store.select(" ".join(parts), {**self._values, **params})
        except SqlFailed as exc:
            self._plans.clear()  # The schema may have changed: inspect it again.
            if after is not None and str(exc.context.get("sqlstate"))[:2] == "22":
                raise _invalid_position(after) from exc
            raise

    def _check_row_transactions(self, plan: PostgresPlan) -> None:
        """Reject a table with xids that this database has not assigned: they would not be read."""
        beyond = (_bound(plan, ">=", (plan.xid, _XMAX)), _bound(plan, "<="))
        if self._select(f"select 1 {_from(plan, *beyond)} limit 1"):
            message = (
                f"table {self._selection.table!r} has transaction ids of another database server, "
                "so its rows have no reliable order; nothing was read"
            )
            raise SourceRefused(message, fix=self._renumber_fix)

    def _check_position(self, after: str | None) -> None:
        """Reject a position with an xid that this database has not assigned."""
        if self._select(f"select 1 where cast(:xid as xid8) >= {_XMAX}", after=after):
            message = (
                f"position {after!r:.60} has a transaction id that this database never had; "
                "nothing was read"
            )
            fix = (
                "seek the cursor to one of the table's rows; if the database was restored from a "
                f"dump of another server, {_RENUMBER_FIX}"
            )
            raise InvalidCursor(message, fix=fix)

    @property
    def _renumber_fix(self) -> str:
        column = quoted(self._selection.xid_column)
        table = table_name(self._selection.table)
        number = f"run: UPDATE {table} SET {column} = DEFAULT;"  # noqa: S608 - printed
        return f"if no row was processed yet, {number} else {_RENUMBER_FIX}"

    def _blocking_transaction(self) -> str:
        rows = self._store.read("table_holder")
        if not rows:
            return "a transaction that this role may not see"
        client, state, seconds = rows[0]
        return f"{client} ({state}, for {max(0.0, seconds or 0.0):.1f} s)"


def _from(plan: PostgresPlan, *conditions: str) -> str:
    """Return the FROM and WHERE clauses."""
    return f"from {plan.table} as t where {' and '.join(filter(None, conditions)) or 'true'}"


def _bound(plan: PostgresPlan, comparison: str, *more: tuple[str, str]) -> str:
    """Return one bound of the range of rows, as one comparison of all columns of the index.

    A filter is part of both bounds, not an equality: so no other index fits this order.
    """
    columns = ", ".join([*plan.filters, *(column for column, _ in more)])
    values = ", ".join([*plan.filter_values, *(value for _, value in more)])
    return f"({columns}) {comparison} ({values})" if columns else ""


def _after(plan: PostgresPlan, after: str | None) -> str:
    if after is None:
        return _bound(plan, ">=")
    first = ((plan.xid, "cast(:xid as xid8)"), (plan.id, f"cast(:id as {plan.id_type})"))
    return _bound(plan, ">", *first)


def _order(plan: PostgresPlan) -> str:
    # Qualified names: an unqualified one would be the selected text of that name.
    return f"order by {', '.join([*plan.filters, plan.xid, plan.id])}"


def _item(plan: PostgresPlan, row: Row) -> Item:
    xid, row_id, *values = row
    for index in plan.json_values:
        if values[index] is not None:
            values[index] = orjson.Fragment(values[index])
    return Item(position=f"{xid}-{row_id}", raw=row_json(plan.names, values))


def _parse_position(position: str) -> tuple[str, str]:
    found = _POSITION.fullmatch(position)
    if found is None:
        raise _invalid_position(position)
    return found[1], found[2]


def _invalid_position(position: str) -> InvalidCursor:
    message = f"{position!r:.60} is not a position of this table: TRANSACTION-ID, as in 741-12"
    return InvalidCursor(message, fix="seek the cursor to one of its rows, or to the start")

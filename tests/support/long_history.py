"""Long history: fill a store with past rows, one statement per table, and count a query's cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from onceward.client import Onceward
from onceward.stores.postgres.store import PostgresStore
from onceward.stores.queries import query
from onceward.stores.sqlite.store import SqliteStore
from onceward.stores.sqlite.transaction import statement
from onceward.system import timestamp

#: Cursors and groups; their number is not history.
NAMES = 10
#: Instructions of SQLite's machine between two counts.
STEPS = 10
#: Rows `n` of the numbers from :first to :last, by engine.
_NUMBERS = {
    "postgres": "(select n from generate_series(:first::bigint, :last::bigint) as n) as numbers",
    "sqlite": (
        "(with recursive counted (n) as (select :first union all select n + 1 from counted"
        " where n < :last) select n from counted) as numbers"
    ),
}
#: The moment so many seconds from now.
_MOMENTS: dict[str, Callable[[str], str]] = {
    "postgres": lambda seconds: f"onceward_now() + make_interval(secs => {seconds})",
    "sqlite": lambda seconds: f"strftime('%Y-%m-%dT%H:%M:%fZ', :wall, {seconds} || ' seconds')",
}
#: By table: what stands in its columns. {ago_1} is a day ago, {in_9} in nine days.
_ROWS = {
    # A third is due in nine days, a third too but since an earlier boot, a third waits in line.
    "onceward_parked": {
        "cursor_name": "'c' || (n % {names})",
        "position": "'p' || n",
        "sequence": "n",
        "key": "'k' || (n % 3)",
        "alone": "{third_0} or {third_1}",
        "is_head": "{third_0} or {third_1}",
        "raw": "{bytes}",
        "attempt": "1",
        "failures": "'[]'",
        "parked_at": "{ago_1}",
        "due_at": "case when {third_0} or {third_1} then {in_9} end",
    },
    "onceward_dead": {
        "cursor_name": "'c' || (n % {names})",
        "position": "'p' || n",
        "sequence": "n",
        "alone": "(n > 0)",
        "raw": "{bytes}",
        "state": "case n % 3 when 0 then 'dead' when 1 then 'redriven' else 'dropped' end",
        "error_type": "'E'",
        "error_message": "''",
        "error_trace": "''",
        "attempt_count": "9",
        "failures": "'[]'",
        "first_failed_at": "{ago_9}",
        "dead_at": "{ago_9}",
        "changed_at": "{ago_1}",
    },
    # Results that live, results that never end, and tombstones.
    "onceward_outcomes": {
        "scope": "'shop.charge'",
        "key": "'k' || n",
        "state": "case when {third_0} then 'expired' else 'done' end",
        "fence": "1",
        "owner": "'o'",
        "on_crash": "'rerun'",
        "claimed_at": "{ago_9}",
        "updated_at": "{ago_9}",
        "until_at": "case n % 3 when 0 then {ago_1} when 1 then {in_9} end",
    },
    "cursor_history": {
        "cursor_name": "'c' || (n % {names})",
        "kind": "case when {third_0} then 'seek' else 'steal' end",
        "happened_at": "{ago_9}",
        "actor": "'w'",
        "reason": "'r'",
        "epoch": "n",
    },
    "onceward_alerts": {
        "id": "'a' || n",
        "rule": "'r'",
        "kind": "'lag'",
        "cursor_name": "'c' || (n % {names})",
        "state": "'cleared'",
        "value": "1",
        "threshold": "1",
        "pending_at": "{ago_9}",
        "fired_at": "{ago_9}",
        "fired_sent_at": "{ago_9}",
        "cleared_at": "{ago_9}",
        "cleared_sent_at": "{ago_9}",
    },
    "onceward_grants": {
        "cursor_name": "'c' || (n % {names})",
        "epoch": "n",
        "worker": "'w'",
        "granted_at": "{ago_1}",
        "ended_at": "{ago_1}",
        "ending": "'released'",
    },
    "onceward_rejected_writes": {
        "cursor_name": "'c' || (n % {names})",
        "happened_at": "{ago_1}",
        "worker": "'w'",
        "epoch": "n",
        "what": "'renew'",
    },
    "onceward_samples": {
        "cursor_name": "'c' || (n % {names})",
        "taken_at": "{hour_ago}",
        "processed_count": "1",
    },
    "onceward_audit": {
        "happened_at": "{ago_9}",
        "actor": "'ann'",
        "via": "'cli'",
        "action": "'seek'",
        "target": "'c'",
        "outcome": "'done'",
        "details": "'{{}}'",
        "result": "''",
    },
    "dispatch_messages": {
        "channel": "'file'",
        "group_name": "'g' || (n % {names})",
        "id": "'m' || n",
        "seq": "n",
        "changed_seq": "n",
        "sender": "{bytes}",
        "body": "{bytes}",
        "received_at": "{ago_9}",
    },
    "dispatch_deliveries": {
        "group_name": "'g' || (n % {names})",
        "batch_number": "n",
        "state": "case when {third_0} then 'dead' else 'done' end",
        "attempt": "1",
        "first_seq": "n",
        "last_seq": "n",
        "started_at": "{ago_9}",
    },
    "dispatch_outbox": {
        "key": "'o' || n",
        "group_name": "'g' || (n % {names})",
        "batch_number": "n",
        "position": "1",
        "body": "{bytes}",
        "state": "'sent'",
        "seq": "n",
        "created_at": "{ago_9}",
    },
}
#: What SQLite's tables have beside: times are kept three ways there.
_BESIDE = {
    "onceward_parked": {
        "due_boot": "case n % 3 when 0 then :boot when 1 then 'an earlier boot' end",
        "due_seconds": "case when n % 3 < 2 then :now + 777600 end",
    },
    "onceward_outcomes": {
        "until_boot": "case when n % 3 < 2 then :boot end",
        "until_seconds": "case n % 3 when 0 then 0 when 1 then :now + 777600 end",
    },
    "onceward_alerts": {
        "pending_boot": ":boot",
        "pending_seconds": ":now",
    },
}


def write_history(ow: Onceward, first: int, last: int) -> None:
    """Write the rows from one number to another, in every table that keeps a past."""
    for table, row in _ROWS.items():
        _write(ow, table, row, first, last)
    _analyze(ow)


def write_last_entries(ow: Onceward, first: int, last: int) -> None:
    """Write one take-over of long ago for each of many cursors."""
    row = {
        **_ROWS["cursor_history"],
        "cursor_name": "'old' || n",
        "kind": "'steal'",
        "happened_at": "{ago_99}",
    }
    _write(ow, "cursor_history", row, first, last)
    _analyze(ow)


def _write(ow: Onceward, table: str, row: Mapping[str, str], first: int, last: int) -> None:
    sql = _insert(ow, table, row)
    with ow.transaction() as tx:
        tx.execute(sql, {"first": first, "last": last, **_times(ow, sql)})


def _analyze(ow: Onceward) -> None:
    if isinstance(ow.store, PostgresStore):
        with ow.store.connection() as connection:
            connection.execute("vacuum analyze", prepare=False)


def _insert(ow: Onceward, table: str, row: Mapping[str, str]) -> str:
    engine = ow.store.engine
    row = {**row, **(_BESIDE.get(table, {}) if engine == "sqlite" else {})}
    moment = _MOMENTS[engine]
    said = ", ".join(row.values()).format(
        names=NAMES,
        bytes="'{}'::bytea" if engine == "postgres" else "x'7b7d'",
        ago_1=moment("-86400"),
        ago_9=moment("-777600"),
        ago_99=moment("-8553600"),
        in_9=moment("777600"),
        # No two of one cursor at the same moment: what is written later is later.
        hour_ago=moment(f"(-3600 + (n / {NAMES}) / 100.0)"),
        **{f"third_{number}": f"(n % 3 = {number})" for number in range(3)},
    )
    return f"insert into {table} ({', '.join(row)}) select {said} from {_NUMBERS[engine]}"


def _times(ow: Onceward, sql: str) -> dict[str, object]:
    if not isinstance(ow.store, SqliteStore):
        return {}
    clock = ow.store.clock
    times = {"wall": timestamp(clock.now()), "boot": clock.boot_id(), "now": clock.boot_seconds()}
    return {name: value for name, value in times.items() if f":{name}" in sql}


def cost(ow: Onceward, name: str, params: Mapping[str, Any]) -> int:
    """Return what one of our queries costs: pages on PostgreSQL, instructions on SQLite."""
    if isinstance(ow.store, SqliteStore):
        return _steps(ow.store, name, params)
    sql = f"explain (analyze, buffers, timing off, format json)\n{query('postgres', name)}"
    with ow.transaction() as tx:
        undo = tx.savepoint()
        (((plan,),),) = tx.execute(sql, params)
        undo()
    top = plan["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def _steps(store: SqliteStore, name: str, params: Mapping[str, Any]) -> int:
    sql, bound = statement(store.clock, name, dict(params))
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += STEPS
        return 0

    connection = sqlite3.connect(store.url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        connection.execute("begin immediate")
        connection.set_progress_handler(count, STEPS)
        connection.execute(sql, bound).fetchall()
        connection.set_progress_handler(None, 0)
        connection.execute("rollback")
    finally:
        connection.close()
    return steps

"""Process messages in bare loops of inserts: the lower limit that workers are compared with."""

import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import psycopg

PAGE = 100
READ = "select id, payload from source where id > {0} order by id limit {0}"


def on_postgres(url: str, messages: int, batch: int) -> float:
    """Return the seconds of a message, pipelined as far as that goes."""
    page = max(batch, PAGE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table if not exists bare_effects (id bigint, payload text)")
        connection.execute("create table if not exists bare_cursor (position text)")
        connection.execute("truncate bare_cursor")
        connection.execute("insert into bare_cursor values ('')")
        began = time.perf_counter()
        for first in range(0, messages, page):
            rows = connection.execute(READ.format("%s").encode(), (first, page)).fetchall()
            for start in range(0, len(rows), batch):
                _step(connection, rows[start : start + batch])
        return (time.perf_counter() - began) / messages


def _step(connection: psycopg.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    insert = "insert into bare_effects values (%s, %s)"
    if len(rows) == 1:
        with connection.pipeline():
            connection.execute("begin")
            connection.execute(insert, rows[0])
    else:
        connection.execute("begin")
        connection.cursor().executemany(insert, rows)
    with connection.pipeline():
        connection.execute("update bare_cursor set position = %s", (str(rows[-1][0]),))
        connection.execute("commit")


def on_sqlite(path: str, messages: int) -> float:
    """Return the seconds of a message."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal").fetchall()
    connection.execute("pragma synchronous = full").fetchall()
    connection.execute("create table if not exists bare_effects (id bigint, payload text)")
    connection.execute("create table if not exists bare_cursor (position text)")
    connection.execute("delete from bare_cursor")
    connection.execute("insert into bare_cursor values ('')")
    began = time.perf_counter()
    for first in range(0, messages, PAGE):
        for row in connection.execute(READ.format("?"), (first, PAGE)).fetchall():
            connection.execute("begin immediate")
            connection.execute("insert into bare_effects values (?, ?)", row)
            connection.execute("update bare_cursor set position = ?", (str(row[0]),))
            connection.execute("commit")
    took = time.perf_counter() - began
    connection.close()
    return took / messages

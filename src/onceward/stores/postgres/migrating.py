"""Migration locking: change a PostgreSQL schema under short lock timeouts, with retries.

A transaction that waits for a table lock blocks every later transaction on that table. So a
migration waits briefly for its locks, gives up, and retries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import psycopg

from onceward.errors import StoreBusy
from onceward.stores.base import Row
from onceward.stores.placeholders import tokens
from onceward.system import Clock

T = TypeVar("T")
#: Builds an index without blocking writers. After a crash the index may exist, but be invalid.
_INDEX: Final = re.compile(
    r"create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(\w+)", re.IGNORECASE
)
_INVALID: Final = """
select 1 from pg_index where indexrelid = to_regclass(%s) and not indisvalid
"""
#: First line of a migration whose statements run one by one, outside a transaction. Each is
#: idempotent: after a crash all of them run again.
NON_TRANSACTIONAL: Final = "-- Not transactional"
#: Runs before a migration. Shorter than the lock timeouts of others and than `deadlock_timeout`, so
#: the migration gives up first.
LOCK_BRIEFLY: Final = "set local lock_timeout = '500ms'"
#: How long it is retried.
RETRY_SECONDS_MAX: Final = 60.0
#: Backoff between retries: doubles from the first value up to the second.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.25, 5.0


def run_non_transactional(connection: psycopg.Connection[Row], sql: str) -> None:
    """Run the statements of a migration one by one; rebuild an index that a crash left invalid."""
    for statement in _statements(sql):
        index = _INDEX.match(statement)
        if index is not None and connection.execute(_INVALID, [index[1]], prepare=False).fetchall():
            connection.execute(f"drop index concurrently {index[1]}".encode(), prepare=False)
        connection.execute(statement.encode(), prepare=False)


def _statements(sql: str) -> Iterator[str]:
    """Yield the statements of a text, without comments."""
    statement = ""
    for kind, text in tokens(sql, "postgres"):
        if kind == "semicolon":
            yield statement.strip()
            statement = ""
        elif kind != "comment":
            statement += text
    if statement.strip():
        yield statement.strip()


def retry_while_busy(what: str, attempt: Callable[[], T], clock: Clock) -> T:
    """Retry `attempt` while it raises StoreBusy, up to RETRY_SECONDS_MAX."""
    until = clock.monotonic() + RETRY_SECONDS_MAX
    pause = PAUSE_SECONDS
    while True:
        try:
            return attempt()
        except StoreBusy as exc:
            if clock.monotonic() >= until:
                raise _still_blocked(what, exc) from exc
        clock.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


def _still_blocked(what: str, last: StoreBusy) -> StoreBusy:
    message = f"{what} got no lock within {RETRY_SECONDS_MAX:g} s: {last.message}"
    fix = (
        "end long-running transactions (see pg_stat_activity) or stop the workers, then run "
        "`onceward db migrate` again; migrations that were applied stay"
    )
    return StoreBusy(message, fix=fix, sqlstate=last.context.get("sqlstate"))

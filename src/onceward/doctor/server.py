"""Server: whether a PostgreSQL is new enough for our statements, and a database takes any text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from onceward.doctor.models import Check, Status

if TYPE_CHECKING:
    from onceward.stores import Store

#: The first that can end a session and wait for its end, as who takes a lease from a frozen worker
#: must.
POSTGRES_VERSION_MIN: Final = 14
#: PostgreSQL counts its releases as 180003 for 18.3.
_MAJOR: Final = 10_000


def examine_server(store: Store) -> Iterator[Check]:
    """Look at the server behind a store, by what it said when it was connected to."""
    # Its driver is there: somebody has opened the store.
    from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415

    assert isinstance(store, PostgresStore), store
    with store.connection() as connection:
        version = connection.info.server_version
        encoding = connection.info.parameter_status("server_encoding") or "unknown"
    yield _version(version)
    if encoding != "UTF8":
        yield _encoding(encoding)


def _version(version: int) -> Check:
    is_new = version >= POSTGRES_VERSION_MIN * _MAJOR
    return Check(
        name="server",
        status="ok" if is_new else "fail",
        detail=f"PostgreSQL {version // _MAJOR}.{version % _MAJOR}",
        why="an older one cannot wait for the end of a worker that is frozen",
        fix="" if is_new else f"upgrade the server to PostgreSQL {POSTGRES_VERSION_MIN} or newer",
    )


def _encoding(encoding: str) -> Check:
    # In this one text is bytes of nobody knows what, and comes back as such.
    status: Status = "fail" if encoding == "SQL_ASCII" else "warn"
    return Check(
        name="encoding",
        status=status,
        detail=f"the database keeps text as {encoding}",
        why="messages, keys and memories may hold any character",
        fix="create database … template template0 encoding 'UTF8'",
    )

"""PostgreSQL server: check its version and encoding, and whether a pooler is in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from onceward.doctor.models import Check, Status

if TYPE_CHECKING:
    from onceward.stores import Store

#: The first version that can end a session and wait for its end, which a takeover from a frozen
#: worker needs.
POSTGRES_VERSION_MIN: Final = 14
#: PostgreSQL reports 18.3 as 180003.
_MAJOR: Final = 10_000


def examine_server(store: Store) -> Iterator[Check]:
    """Check the server of a store, from the parameters that it reported on connecting."""
    # The driver is installed, because the store is open.
    from onceward.stores.postgres.error_mapping import mapped_errors  # noqa: PLC0415
    from onceward.stores.postgres.pooler import is_pooled  # noqa: PLC0415
    from onceward.stores.postgres.store import PostgresStore  # noqa: PLC0415

    assert isinstance(store, PostgresStore), store
    with store.connection() as connection, mapped_errors("doctor"):
        version = connection.info.server_version
        encoding = connection.info.parameter_status("server_encoding") or "unknown"
        has_pooler = is_pooled(connection)
    yield _version(version)
    if has_pooler or store.connections.is_pooled:
        yield _pooler(store.connections.setting, is_there=has_pooler)
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


def _pooler(setting: str | None, *, is_there: bool) -> Check:
    """Report a pooler, or a pooler setting in the URL, and its cost."""
    status: Status = "note"
    detail = "a connection pooler is between this program and PostgreSQL"
    why = "statements are not prepared and workers poll: slower, but equally safe"
    fix = "no change is needed; in session mode, pooler=none in the store's URL is faster"
    if setting == "prepared":
        why = "statements are prepared and workers poll; right with PgBouncer 1.21 or newer"
    if not is_there:
        detail = f"the store's URL has pooler={setting}, but there is no pooler"
        fix = f"remove pooler={setting} from the URL of the store"
    elif setting == "none":
        status = "warn"
        detail += ", but the store's URL has pooler=none"
        why = "correct in session mode only; in transaction mode calls fail at first"
        fix = "remove pooler=none from the URL of the store, unless the mode is session"
    return Check(name="pooler", status=status, detail=detail, why=why, fix=fix)


def _encoding(encoding: str) -> Check:
    # With SQL_ASCII, text is stored and returned as bytes of unknown encoding.
    status: Status = "fail" if encoding == "SQL_ASCII" else "warn"
    return Check(
        name="encoding",
        status=status,
        detail=f"the database's encoding is {encoding}",
        why="messages, keys and memories may hold any character",
        fix="create database … template template0 encoding 'UTF8'",
    )

"""Migrations: apply numbered schema changes until a database has this version's schema.

Migration 1 is `stores/schema/<engine>.sql`: the tables, and PostgreSQL's functions `onceward_*`.
The statements that use them are in `stores/queries/<package>.sql`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from onceward.errors import SchemaMismatch, SqlFailed
from onceward.stores.base import Row, Store
from onceward.stores.queries import INITIAL, migrations
from onceward.system.crash_points import crash_point

#: PostgreSQL's error code for a missing table.
_UNDEFINED_TABLE: Final = "42P01"
#: How to handle a store of an earlier development version.
EARLIER_FIX: Final = "create a new store, or use the version of Onceward that made it"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaStatus:
    """Which migrations a database has, and which it lacks."""

    #: Numbers of the applied migrations.
    applied: tuple[int, ...]
    #: Number and name of the missing ones.
    pending: tuple[tuple[int, str], ...]
    #: Applied numbers that this version does not know: a newer version has migrated it.
    unknown: tuple[int, ...]
    #: Whether a development version before the initial schema created it.
    is_earlier: bool = False


class Readable(Protocol):
    """A store, or a read-only SQLite file."""

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run one of Onceward's read-only queries."""


def read_applied(store: Readable) -> dict[int, str]:
    """Return the applied migrations, without creating their table."""
    try:
        return dict(store.read("list_migrations"))
    except SqlFailed as exc:
        if "sqlstate" in exc.context:
            is_missing = exc.context["sqlstate"] == _UNDEFINED_TABLE
        else:
            is_missing = "no such table" in exc.message
        if is_missing:
            return {}
        raise


def status(store: Store) -> SchemaStatus:
    """Compare a database with the migrations of this version."""
    return compare(
        store.applied(), [(number, name) for number, name, _ in migrations(store.engine)]
    )


def compare(applied: dict[int, str], known: list[tuple[int, str]]) -> SchemaStatus:
    """Compare applied migrations with known ones."""
    if applied.get(1, INITIAL) != INITIAL:
        return SchemaStatus(
            applied=tuple(applied), pending=(), unknown=tuple(applied), is_earlier=True
        )
    return SchemaStatus(
        applied=tuple(applied),
        pending=tuple((number, name) for number, name in known if number not in applied),
        unknown=tuple(number for number in applied if number > len(known)),
    )


def migrate(store: Store) -> list[int]:
    """Apply missing migrations in order and return their numbers; idempotent, also concurrently."""
    found = status(store)
    if found.is_earlier:
        message = f"{store.url} was made by an earlier development version; nothing was changed"
        raise SchemaMismatch(message, fix=EARLIER_FIX)
    if found.unknown:
        message = (
            f"{store.url} has migration {found.unknown[-1]} of a newer version of Onceward, which "
            "this version does not know; nothing was changed"
        )
        raise SchemaMismatch(message, fix="install the version of Onceward that made it, or newer")
    done = []
    pending = {number for number, _ in found.pending}
    for number, name, sql in migrations(store.engine):
        if number in pending and store.apply(number, name, sql):
            crash_point("migrate.after_one")
            done.append(number)
    return done

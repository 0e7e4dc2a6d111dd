"""Migrations: numbered changes that bring a database to the schema this version knows."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.crash import crash_point
from onceward.errors import SchemaMismatch
from onceward.stores.base import Store
from onceward.stores.queries import migrations


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaStatus:
    """How far a database has come."""

    #: Numbers of the migrations it has seen.
    applied: tuple[int, ...]
    #: Number and name of those it has not.
    pending: tuple[tuple[int, str], ...]
    #: Numbers that this version does not know: a newer one was here.
    unknown: tuple[int, ...]


def status(store: Store) -> SchemaStatus:
    """Compare a database with the migrations of this version."""
    applied = store.applied()
    known = migrations(store.engine)
    return SchemaStatus(
        applied=tuple(applied),
        pending=tuple((number, name) for number, name, _ in known if number not in applied),
        unknown=tuple(number for number in applied if number > len(known)),
    )


def migrate(store: Store) -> list[int]:
    """Apply what is missing, in order, and return the numbers; many may run it at once."""
    found = status(store)
    if found.unknown:
        message = f"{store.url} has migration {found.unknown[-1]}, which this version does not know"
        raise SchemaMismatch(message, fix="install the version of Onceward that made it, or newer")
    done = []
    pending = {number for number, _ in found.pending}
    for number, name, sql in migrations(store.engine):
        if number in pending and store.apply(number, name, sql):
            crash_point("migrate.after_one")
            done.append(number)
    return done

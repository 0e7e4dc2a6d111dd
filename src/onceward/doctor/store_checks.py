"""Store checks: check a store's connection, schema, clock and integrity without changing it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from onceward.doctor.directories import examine_place, unreachable
from onceward.doctor.models import Check
from onceward.doctor.postgres_server import examine_server
from onceward.doctor.sqlite_read_only import SqliteFile, UnsettledError
from onceward.errors import OncewardError
from onceward.stores import Store, open_store
from onceward.stores.migrations import EARLIER_FIX, Readable, compare, read_applied
from onceward.stores.queries import Engine, migrations
from onceward.stores.sqlite.second_library import processes_with_two
from onceward.stores.store_urls import HOME_VARIABLE, STORE_VARIABLE, home
from onceward.system import Clock, SystemClock

#: Difference between the clocks of store and machine that is still ok.
SKEW_SECONDS_MAX: Final = 5.0
#: How often a file is checked again because another process opened it meanwhile.
CHECKS_MAX: Final = 3
#: PostgreSQL's error code for missing privileges.
_NOT_ALLOWED: Final = "42501"
_WHY_STORE: Final = "cursors, outcomes, memory and conversations are in it"
_WHY_SCHEMA: Final = "programs and tables must be of the same version"
_WHY_INTEGRITY: Final = "a damaged page or index loses rows without an error"


class CheckableStore(Readable, Protocol):
    """A store that can also check itself."""

    engine: Engine
    url: str

    def problems(self) -> list[str]:
        """Return the problems that the database engine's own check finds."""


def examine_url(url: str | None = None, *, is_deep: bool = False) -> list[Check]:
    """Check the store of a URL, or the default store, without creating or changing anything."""
    try:
        with closing(open_store(url)) as store:
            if store.engine == "sqlite":
                return list(_file(store.url, _setting(url), is_deep=is_deep))
            return examine_store(store, is_deep=is_deep)
    except OncewardError as exc:
        return [_failed(exc)]


def _setting(url: str | None) -> str:
    """Return the option or variable that sets the store."""
    if url:
        return "--store"
    return STORE_VARIABLE if os.environ.get(STORE_VARIABLE) else HOME_VARIABLE


def _file(url: str, setting: str, *, is_deep: bool) -> Iterator[Check]:
    path = Path(url.removeprefix("sqlite:///"))
    if not path.parent.is_relative_to(home().absolute()):
        yield from examine_place(path.parent, setting)
    try:
        path.stat()
        yield from _check_file(path, is_deep=is_deep)
        yield from _second_libraries(path)
    except FileNotFoundError:
        detail = f"{url} does not exist yet; the first command that writes creates it"
        yield Check(name="store", status="ok", detail=detail, why=_WHY_STORE)
    except OncewardError as exc:
        yield _failed(exc)
    except OSError as exc:
        yield unreachable("store", path, exc, why=_WHY_STORE, setting=setting)
    except UnsettledError:
        yield Check(
            name="store",
            status="note",
            detail=f"{url} was left in the middle of a commit: only a writer can recover it",
            why="the next process that opens it completes the recovery; nothing is lost",
            fix=f"run `onceward db status --store {url}`, then this check again",
        )


def _second_libraries(path: Path) -> Iterator[Check]:
    for process, libraries in processes_with_two(path).items():
        yield Check(
            name="sqlite library",
            status="warn",
            detail=f"process {process} has {path} open and has loaded {', '.join(libraries)}",
            why="two SQLite libraries in one process drop each other's locks and corrupt the file",
            fix="use Python's sqlite3 in that process, or keep the other library off this file",
        )


def _check_file(path: Path, *, is_deep: bool) -> list[Check]:
    """Check a file, and check it again if another process opened it meanwhile."""
    found: list[Check] = []
    for _ in range(CHECKS_MAX):
        clock = SystemClock()
        with closing(SqliteFile(path, clock)) as file:
            found = _check_readable(file, clock, is_deep=is_deep)
            if not file.is_disturbed:
                break
    return found


def examine_store(
    store: Store, *, is_deep: bool = False, clock: Clock | None = None
) -> list[Check]:
    """Check a store; with `is_deep` the engine checks all of it, which may take long."""
    try:
        server = list(examine_server(store)) if store.engine == "postgres" else []
    except OncewardError as exc:
        return [_failed(exc)]
    if any(check.status == "fail" for check in server):
        return server  # The answers of an unsupported server may be wrong.
    return [*_check_readable(store, clock or SystemClock(), is_deep=is_deep), *server]


def _check_readable(store: CheckableStore, clock: Clock, *, is_deep: bool) -> list[Check]:
    try:
        return list(_store(store, clock, is_deep=is_deep))
    except OncewardError as exc:
        return [_failed(exc)]


def _failed(exc: OncewardError) -> Check:
    fix = exc.fix or "pass another store, or restore this one from a backup"
    if exc.context.get("sqlstate") == _NOT_ALLOWED:
        fix = "grant this role the missing privileges, or connect as the role that owns the tables"
    return Check(name="store", status="fail", detail=exc.message, why=_WHY_STORE, fix=fix)


def _store(store: CheckableStore, clock: Clock, *, is_deep: bool) -> Iterator[Check]:
    began = clock.monotonic()
    applied = read_applied(store)
    millis = (clock.monotonic() - began) * 1000
    detail = f"{store.url} answers in {millis:.1f} ms"
    yield Check(name="store", status="ok", detail=detail, why=_WHY_STORE)
    schema = _schema([(number, name) for number, name, _ in migrations(store.engine)], applied)
    yield schema
    if applied and schema.status == "ok":  # the time function needs the tables
        ((store_time,),) = store.read("store_time")
        yield _store_clock(datetime.fromisoformat(store_time), clock)
    if is_deep:
        yield _integrity(store)


def _schema(known: list[tuple[int, str]], applied: dict[int, str]) -> Check:
    found = compare(applied, known)
    pending, unknown = [number for number, _ in found.pending], found.unknown
    fix = ""
    if not applied:
        detail = "no tables yet; the first command that writes creates them"
    elif found.is_earlier:
        detail, fix = "an earlier development version created this store", EARLIER_FIX
    elif pending:
        detail = f"migrations {', '.join(map(str, pending))} are missing"
        fix = "run `onceward db migrate`"
    elif unknown:
        detail = f"migration {unknown[-1]} belongs to a newer version"
        fix = "install the version of Onceward that applied it, or newer"
    else:
        detail = f"{len(applied)} of {len(known)} migrations"
    return Check(
        name="schema",
        status="fail" if fix else "ok",
        detail=detail,
        why=_WHY_SCHEMA,
        fix=fix,
    )


def _store_clock(store_time: datetime, clock: Clock) -> Check:
    """Compare the store's clock, which decides leases, with this machine's, which logs use."""
    apart = (store_time - clock.now()).total_seconds()
    is_near = abs(apart) <= SKEW_SECONDS_MAX
    side = "ahead of" if apart > 0 else "behind"
    return Check(
        name="store clock",
        status="ok" if is_near else "warn",
        detail=f"{abs(apart):.1f} s from ours" if is_near else f"{abs(apart):.0f} s {side} ours",
        why="leases use the store's clock, and logs this machine's",
        fix="" if is_near else "set the clocks of both machines",
    )


def _integrity(store: CheckableStore) -> Check:
    problems = store.problems()
    if store.engine == "postgres" and not problems:
        return Check(
            name="integrity",
            status="note",
            detail="PostgreSQL checks pages as it reads them; pg_amcheck checks all of them",
            why=_WHY_INTEGRITY,
            fix="run pg_amcheck --install-missing --heapallindexed DATABASE",
        )
    detail = "; ".join(problems[:5]) or "the engine finds no problem"
    return Check(
        name="integrity",
        status="fail" if problems else "ok",
        detail=detail[:1_000],
        why=_WHY_INTEGRITY,
        fix="restore it from a backup; `onceward db check` shows all" if problems else "",
    )

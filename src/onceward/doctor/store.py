"""Store: whether a store answers, has the schema of this version, and agrees about the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from onceward.doctor.models import Check
from onceward.doctor.places import examine_place
from onceward.errors import OncewardError, SqlFailed
from onceward.seams import Clock, SystemClock
from onceward.stores import Store, open_store
from onceward.stores.opening import home
from onceward.stores.queries import migrations

#: A store's clock may be so far from this machine's before it is worth a word.
SKEW_SECONDS_MAX: Final = 5.0
_WHY_STORE: Final = "cursors, outcomes, memory and conversations are in it"
_WHY_SCHEMA: Final = "programs and tables must be of the same version"


def examine_url(url: str | None = None, *, is_deep: bool = False) -> list[Check]:
    """Look at the store behind a URL, or at our own; one that is not there yet is not made."""
    try:
        with closing(open_store(url)) as store:
            return list(_opened(store, is_deep=is_deep))
    except OncewardError as exc:
        return [_failed(exc)]


def _opened(store: Store, *, is_deep: bool) -> Iterator[Check]:
    if store.engine == "sqlite":
        file = Path(store.url.removeprefix("sqlite:///"))
        if not file.parent.is_relative_to(home().absolute()):
            yield from examine_place(file.parent)
        if not file.exists():
            detail = f"{store.url} is not there yet: whatever uses it first makes it"
            yield Check(name="store", status="ok", detail=detail, why=_WHY_STORE)
            return
    yield from examine_store(store, is_deep=is_deep)


def examine_store(
    store: Store, *, is_deep: bool = False, clock: Clock | None = None
) -> list[Check]:
    """Look at a store; `is_deep` lets the engine check all of it, which may take long."""
    try:
        return list(_store(store, clock or SystemClock(), is_deep=is_deep))
    except OncewardError as exc:
        return [_failed(exc)]


def _failed(exc: OncewardError) -> Check:
    return Check(name="store", status="fail", detail=exc.message, why=_WHY_STORE, fix=exc.fix)


def _store(store: Store, clock: Clock, *, is_deep: bool) -> Iterator[Check]:
    began = clock.monotonic()
    applied = _applied(store)
    millis = (clock.monotonic() - began) * 1000
    detail = f"{store.url} answers in {millis:.1f} ms"
    yield Check(name="store", status="ok", detail=detail, why=_WHY_STORE)
    yield _schema({number for number, _, _ in migrations(store.engine)}, applied)
    if applied:  # What tells the time comes with the tables.
        ((told,),) = store.read("store_time")
        yield _store_clock(datetime.fromisoformat(told), clock)
    if is_deep:
        yield _integrity(store.problems())


def _applied(store: Store) -> set[int]:
    """Return what was applied, without making the table that says so."""
    try:
        return {row[0] for row in store.read("list_migrations")}
    except SqlFailed:
        return set()


def _schema(known: set[int], applied: set[int]) -> Check:
    pending, unknown = sorted(known - applied), sorted(applied - known)
    fix = ""
    if not applied:
        detail = "no tables yet: whatever uses the store first makes them"
    elif pending:
        detail = f"migrations {', '.join(map(str, pending))} are missing"
        fix = "run `onceward db migrate`"
    elif unknown:
        detail = f"migration {unknown[-1]} is of a newer version"
        fix = "install the version of Onceward that made it, or newer"
    else:
        detail = f"{len(applied)} of {len(known)} migrations"
    return Check(
        name="schema",
        status="fail" if fix else "ok",
        detail=detail,
        why=_WHY_SCHEMA,
        fix=fix,
    )


def _store_clock(told: datetime, clock: Clock) -> Check:
    """Compare clocks: the store's decides, and this machine's is what people see beside it."""
    apart = (told - clock.now()).total_seconds()
    is_near = abs(apart) <= SKEW_SECONDS_MAX
    side = "ahead of" if apart > 0 else "behind"
    return Check(
        name="store clock",
        status="ok" if is_near else "warn",
        detail=f"{abs(apart):.1f} s from ours" if is_near else f"{abs(apart):.0f} s {side} ours",
        why="leases go by the store's clock, and logs by this machine's",
        fix="" if is_near else "set the clocks of both machines",
    )


def _integrity(problems: list[str]) -> Check:
    detail = "; ".join(problems[:5]) or "the engine finds nothing wrong"
    return Check(
        name="integrity",
        status="fail" if problems else "ok",
        detail=detail[:1_000],
        why="a damaged page or index loses rows in silence",
        fix="restore it from a backup; `onceward db check` shows all" if problems else "",
    )

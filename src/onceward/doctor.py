"""Doctor: whether this machine, and a store, are fit to keep promises.

Looks, and writes nothing but a probe that is gone again. Knows neither terminals nor HTTP.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import apsw

from onceward.errors import OncewardError
from onceward.seams import Clock, SystemClock, SystemFiles, timestamp
from onceward.stores import Store
from onceward.stores.opening import home
from onceward.stores.queries import migrations

SQLITE_VERSION_MIN: Final = (3, 51, 3)
FREE_BYTES_MIN: Final = 1024**3
PROBE_COUNT: Final = 20
DEFAULT_PORT: Final = 3939
#: A store's clock may be so far from this machine's before it is worth a word.
SKEW_SECONDS_MAX: Final = 5.0

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    #: What to do when the status is not ok.
    fix: str = ""


def examine_machine(*, is_serving: bool = False) -> list[Check]:
    """Look at this machine; whoever serves already need not ask for the port."""
    looks = [look for look in CHECKS if not (is_serving and look is _port)]
    return [check for look in looks for check in look()]


def examine_store(
    store: Store, *, is_deep: bool = False, clock: Clock | None = None
) -> list[Check]:
    """Look at a store; `is_deep` lets the engine check all of it, which may take long."""
    try:
        return list(_store(store, clock or SystemClock(), is_deep=is_deep))
    except OncewardError as exc:
        return [Check(name="store", status="fail", detail=exc.message, fix=exc.fix)]


def _store(store: Store, clock: Clock, *, is_deep: bool) -> Iterator[Check]:
    began = clock.monotonic()
    applied = {row[0] for row in store.read("list_migrations")}
    millis = (clock.monotonic() - began) * 1000
    yield Check(name="store", status="ok", detail=f"{store.url} answers in {millis:.1f} ms")
    yield _schema({number for number, _, _ in migrations(store.engine)}, applied)
    ((told,),) = store.read("store_time")
    yield _store_clock(datetime.fromisoformat(told), clock)
    if is_deep:
        problems = store.problems()
        fix = "restore it from a backup; `onceward db check` shows all" if problems else ""
        detail = "; ".join(problems[:5]) or "the engine finds nothing wrong"
        yield Check(
            name="integrity", status="fail" if problems else "ok", detail=detail[:1_000], fix=fix
        )


def _schema(known: set[int], applied: set[int]) -> Check:
    pending, unknown = sorted(known - applied), sorted(applied - known)
    if pending:
        detail = f"migrations {', '.join(map(str, pending))} are missing"
        return Check(name="schema", status="fail", detail=detail, fix="run `onceward db migrate`")
    if unknown:
        detail = f"migration {unknown[-1]} is of a newer version"
        fix = "install the version of Onceward that made it, or newer"
        return Check(name="schema", status="fail", detail=detail, fix=fix)
    return Check(name="schema", status="ok", detail=f"{len(applied)} of {len(known)} migrations")


def _store_clock(told: datetime, clock: Clock) -> Check:
    """Compare clocks: the store's decides, and this machine's is what people see beside it."""
    apart = (told - clock.now()).total_seconds()
    if abs(apart) <= SKEW_SECONDS_MAX:
        return Check(name="store clock", status="ok", detail=f"{abs(apart):.1f} s from ours")
    detail = f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} this machine"
    return Check(
        name="store clock", status="warn", detail=detail, fix="set the clocks of both machines"
    )


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check(name="python", status="ok", detail=version)  # An older one cannot load this file.
    if sys.flags.optimize:
        detail = "assertions are off, and with them our own checks"
        yield Check(name="python -O", status="warn", detail=detail, fix="run without -O")


def _sqlite() -> Iterator[Check]:
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) >= SQLITE_VERSION_MIN:
        yield Check(
            name="sqlite", status="ok", detail=f"{version}, from apsw {apsw.apsw_version()}"
        )
    else:
        detail = f"{version} can corrupt a WAL file that two processes write"
        yield Check(name="sqlite", status="fail", detail=detail, fix="pip install -U apsw")


def _disk() -> Iterator[Check]:
    place = next(level for level in (home(), *home().parents) if level.is_dir())
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    detail = f"{free / 1024**3:.1f} GiB free at {place}"
    if free >= FREE_BYTES_MIN:
        yield Check(name="disk", status="ok", detail=detail)
    else:
        yield Check(name="disk", status="warn", detail=detail, fix="free at least 1 GiB")


def _fsync() -> Iterator[Check]:
    """Append and sync a few times where our state will live."""
    place = next(level for level in (home(), *home().parents) if level.is_dir())
    files, clock = SystemFiles(), SystemClock()
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".onceward-doctor-") as directory:
            file = files.open_append(Path(directory) / "probe")
            began = clock.monotonic()
            for _ in range(PROBE_COUNT):
                file.write(b"x" * 512)
                file.sync()
            millis = (clock.monotonic() - began) * 1000 / PROBE_COUNT
            file.close()
    except (OncewardError, OSError) as exc:
        detail = f"cannot write and sync at {place}: {exc}"
        fix = "set ONCEWARD_HOME to a directory you can write to"
        yield Check(name="fsync", status="fail", detail=detail, fix=fix)
        return
    detail = f"{millis:.2f} ms a sync at {place}"
    if millis >= 0.005:
        yield Check(name="fsync", status="ok", detail=detail)
    else:
        fix = "power loss may lose acknowledged work here; use a disk, not tmpfs"
        yield Check(name="fsync", status="warn", detail=f"{detail}: too fast to be a disk", fix=fix)


def _permissions() -> Iterator[Check]:
    for place in (home(), Path.home() / ".cm"):
        if not place.exists():
            yield Check(name="permissions", status="ok", detail=f"{place} will be made, mode 0700")
        elif not os.access(place, os.W_OK | os.X_OK):
            fix = f"chown -R $(id -un) {place}"
            yield Check(name="permissions", status="fail", detail=f"{place}: not ours", fix=fix)
        elif place.stat().st_mode & 0o022:
            fix = f"chmod go-w {place}"
            detail = f"{place} can be written by others"
            yield Check(name="permissions", status="warn", detail=detail, fix=fix)
        else:
            yield Check(name="permissions", status="ok", detail=str(place))


def _clock() -> Iterator[Check]:
    now = SystemClock().now()
    built = Path(__file__).stat().st_mtime
    if now.timestamp() + 86_400 < built:
        detail = f"{timestamp(now)} is before Onceward was installed"
        yield Check(name="clock", status="warn", detail=detail, fix="set the system clock")
    else:
        yield Check(name="clock", status="ok", detail=timestamp(now))


def _port() -> Iterator[Check]:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            detail = f"{DEFAULT_PORT} is taken; `onceward up` takes the next free one"
            yield Check(name="port", status="warn", detail=detail, fix="or pass --port")
            return
    yield Check(name="port", status="ok", detail=f"127.0.0.1:{DEFAULT_PORT} is free")


CHECKS: Final[tuple[Callable[[], Iterator[Check]], ...]] = (
    _python,
    _sqlite,
    _disk,
    _fsync,
    _permissions,
    _clock,
    _port,
)

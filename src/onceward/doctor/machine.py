"""Machine: check Python, SQLite, disks, limits, clock and port of this machine."""

from __future__ import annotations

import resource
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from onceward.doctor.directories import examine_permissions, examine_place
from onceward.doctor.models import Check
from onceward.stores.sqlite.connection import SQLITE_VERSION_MIN
from onceward.stores.store_urls import HOME_VARIABLE, home
from onceward.system import SystemClock, timestamp

#: SQLite releases with the fix for commits lost when a checkpoint restarts the log: from this one
#: on, and in two older branches.
SQLITE_SAFE_FROM: Final = (3, 51, 3)
SQLITE_SAFE_BRANCHES: Final = ((3, 44, 6), (3, 50, 7))
#: Each agent needs a few open files, each open page and each connection one.
OPEN_FILES_MIN: Final = 1_024
DEFAULT_PORT: Final = 3939


def examine_machine(*, is_serving: bool = False) -> list[Check]:
    """Check this machine; a server that already listens skips the check of its port."""
    looks = [look for look in CHECKS if not (is_serving and look is _port)]
    return [check for look in looks for check in look()]


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    why = "Onceward supports Python 3.11 and newer"
    yield Check(
        name="python", status="ok", detail=version, why=why
    )  # An older Python cannot import this module.
    if sys.flags.optimize:
        yield Check(
            name="python -O",
            status="warn",
            detail="assertions are off",
            why="Onceward's own checks are off as well",
            fix="run without -O, and without PYTHONOPTIMIZE",
        )


def _sqlite() -> Iterator[Check]:
    version = sqlite3.sqlite_version_info
    is_new = version >= SQLITE_VERSION_MIN
    oldest = ".".join(map(str, SQLITE_VERSION_MIN))
    yield Check(
        name="sqlite",
        status="ok" if is_new else "fail",
        detail=f"{sqlite3.sqlite_version}, of Python's sqlite3",
        why=f"Onceward needs SQLite {oldest} or newer",
        fix="" if is_new else "use a Python that was built with a newer SQLite",
    )
    if is_new and not _is_safe_with_foreign_writers(version):
        safe = ".".join(map(str, SQLITE_SAFE_FROM))
        yield Check(
            name="sqlite writers",
            status="note",
            detail=f"before {safe}, programs other than Onceward should not write to its files",
            why="in older releases a checkpoint by another program may, rarely, lose a commit",
            fix=f"let only Onceward write, or use a Python whose SQLite is {safe} or newer",
        )


def _is_safe_with_foreign_writers(version: tuple[int, ...]) -> bool:
    """Return whether this release has the fix for logs that are restarted during a checkpoint."""
    is_fixed = any(version[:2] == each[:2] and version >= each for each in SQLITE_SAFE_BRANCHES)
    return version >= SQLITE_SAFE_FROM or is_fixed


def _home() -> Iterator[Check]:
    yield from examine_place(home())
    yield examine_permissions(home(), HOME_VARIABLE)
    yield examine_permissions(Path.home() / ".cm", "HOME")


def _open_files() -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = soft == resource.RLIM_INFINITY or soft >= OPEN_FILES_MIN
    yield Check(
        name="open files",
        status="ok" if is_enough else "warn",
        detail="no limit" if soft == resource.RLIM_INFINITY else f"{soft} at a time",
        why="agents, open pages and connections to PostgreSQL each need some",
        fix="" if is_enough else f"ulimit -n {OPEN_FILES_MIN}{_raised(hard)}",
    )


def _raised(hard: int) -> str:
    """Return an addition to the fix if this user's hard limit is too low."""
    is_allowed = hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_MIN
    return "" if is_allowed else "; as root, because this user's hard limit is lower"


def _clock() -> Iterator[Check]:
    now = SystemClock().now()
    installed = Path(__file__).stat().st_mtime
    is_late = now.timestamp() + 86_400 < installed
    yield Check(
        name="clock",
        status="warn" if is_late else "ok",
        detail=f"{timestamp(now)}{' is before Onceward was installed' if is_late else ''}",
        why="leases and schedules on SQLite use this clock, and so do logs",
        fix="set the system clock" if is_late else "",
    )


def _port() -> Iterator[Check]:
    why = "the default port of `onceward up`, which otherwise uses the next free one"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            yield Check(
                name="port",
                status="note",
                detail=f"127.0.0.1:{DEFAULT_PORT} is in use, perhaps by another Onceward server",
                why=why,
                fix="stop the program that uses it, or pass --port",
            )
            return
    yield Check(name="port", status="ok", detail=f"127.0.0.1:{DEFAULT_PORT} is free", why=why)


CHECKS: Final[tuple[Callable[[], Iterator[Check]], ...]] = (
    _python,
    _sqlite,
    _home,
    _open_files,
    _clock,
    _port,
)

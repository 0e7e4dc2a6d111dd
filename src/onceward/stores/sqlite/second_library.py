"""Second library: detect another SQLite library in this process that has the store's file open.

POSIX locks belong to the process. When one SQLite library closes a descriptor of a file, the locks
of the other library on it are dropped, and another process may write in the middle of a commit.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from onceward.errors import SecondSqlite

#: Python packages that bundle an SQLite library.
_CARRIERS: Final = re.compile(r"/(apsw|pysqlite3|sqlcipher3|sqlean)/")
_log: Final = logging.getLogger("onceward.stores")


def other_libraries(process: int | str = "self") -> list[str]:
    """Return the SQLite libraries that a process has loaded in addition to Python's."""
    found = set()
    with suppress(OSError):  # Not Linux, or no permission.
        for line in Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines():
            carrier = _CARRIERS.search(line)
            if carrier is not None:
                found.add(carrier[1])
    return sorted(found)


def has_open(identity: tuple[int, int], process: int | str = "self") -> bool:
    """Return whether a process has the file with this device and inode open."""
    directory = Path(f"/proc/{process}/fd")
    with suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208 - names are what is wanted
            with suppress(OSError):
                found = os.stat(directory / name)  # noqa: PTH116 - follows the link
                if (found.st_dev, found.st_ino) == identity:
                    return True
    return False


def check(path: Path, identity: tuple[int, int], *, is_strict: bool) -> None:
    """Warn, or raise under `strict`, if another library may have this file open already."""
    others = other_libraries()
    if not others or not has_open(identity):
        return
    message = f"{path} is open in this process, perhaps through {', '.join(others)}"
    if is_strict:
        message += "; using both corrupts it, so the store was not opened"
        raise SecondSqlite(message)
    _log.warning("%s; two SQLite libraries in one process corrupt the file", message)


def processes_with_two(path: Path) -> dict[int, list[str]]:
    """Return processes that have this file open and a second SQLite loaded, if visible to us."""
    found_stat = path.stat()
    identity = (found_stat.st_dev, found_stat.st_ino)
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are what is wanted
        if name.isdecimal() and has_open(identity, name) and (others := other_libraries(name)):
            found[int(name)] = others
    return found

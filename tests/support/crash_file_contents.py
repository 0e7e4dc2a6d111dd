"""Crash file contents: a durable log in a file system, and what each crash leaves of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onceward.system import Files, OpenFile
    from onceward.testing import CrashFiles

ROOT = Path("/")
LOG = ROOT / "log"


def durable_log(files: Files, data: bytes = b"") -> OpenFile:
    """Return an open file whose name and content are on disk."""
    file = files.open_append(LOG)
    file.write(data)
    file.sync()
    files.sync_directory(ROOT)
    return file


def content(files: Files, path: Path = LOG) -> bytes | None:
    found = files.stat(path)
    return None if found is None else files.open_read(path).read(0, found.size)


def contents(files: CrashFiles, path: Path = LOG, *, seed: int = 0) -> list[bytes | None]:
    return [content(state, path) for state in files.crashes(seed=seed)]

"""Kept: copies of files that are not as a run recorded them, made before anything overwrites them.

Owns `state/kept/<run>/<number>/`: `files/` holds the copies, `kept.json` says what each one was.
A copy gets its number only once all of it is on disk. Nothing here is ever overwritten or removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from onceward.crash import crash_point
from onceward.errors import StorageError
from onceward.journal import Record
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.seams import FILE_MODE, Files, translated

SCHEMA_VERSION: Final = 1
NOTE: Final = "kept.json"
_CHUNK_BYTES: Final = 1024 * 1024
_NUMBER: Final = re.compile(r"[0-9]{4,}")
#: How a snapshot writes a byte of a name that is not UTF-8.
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")


class Kept:
    """The copies that belong to one run."""

    def __init__(self, workspace: Workspace, run_id: str, *, files: Files) -> None:
        """Copy nothing yet."""
        self._root, self._files = workspace.root, files
        self._folder = workspace.kept(run_id)

    def copy(self, paths: Iterable[str], *, before: str, after: str) -> tuple[str, int] | None:
        """Copy what is new at these paths; return where to and how many, None if all was kept.

        `before` and `after` name the recorded and the present state. A path that is gone is noted.
        """
        known = set(self._known())
        numbers = [each for each in self._files.names(self._folder) if _NUMBER.fullmatch(each)]
        number = f"{max(map(int, numbers), default=0) + 1:04}"
        partial = self._folder / f"{number}.partial"
        if partial.exists():  # Whoever made it died: all of it is still in the workspace.
            shutil.rmtree(partial)
        noted = [self._keep(path, partial / "files", known) for path in sorted(set(paths))]
        entries = [each for each in noted if each is not None]
        if not entries:
            shutil.rmtree(partial, ignore_errors=True)
            return None
        record = {"schemaVersion": SCHEMA_VERSION, "from": before, "to": after, "files": entries}
        write_sealed(partial / NOTE, record, self._files)
        for folder, _, _ in os.walk(partial, topdown=False):
            self._files.sync_directory(Path(folder))
        crash_point("orchestrator.kept.before_name")
        self._files.replace(partial, self._folder / number)
        self._files.sync_directory(self._folder)
        crash_point("orchestrator.kept.after_name")
        return str((self._folder / number).relative_to(self._root)), len(entries)

    def _known(self) -> Iterator[tuple[object, ...]]:
        """Yield what was kept before."""
        for name in self._files.names(self._folder):
            if _NUMBER.fullmatch(name):
                try:
                    note = read_sealed(self._folder / name / NOTE, self._files) or {"files": []}
                except StorageError:
                    continue  # The copies are there; they are only made once more.
                yield from map(_identity, note["files"])

    def _keep(self, path: str, folder: Path, known: set[tuple[object, ...]]) -> Record | None:
        """Copy one file, unless the same is kept already; a link is copied as a link."""
        source, target = self._source(path), folder / path
        entry: Record = {"path": path, "kind": "removed"}
        try:
            mode = source.lstat().st_mode
            if stat.S_ISLNK(mode):
                link = os.fsencode(source.readlink())
                shown = link.decode("utf-8", errors="backslashreplace")
                entry = {"path": path, "kind": "link", "target": shown}
            elif stat.S_ISREG(mode):
                entry = self._copied(path, source, target)
        except (FileNotFoundError, NotADirectoryError):
            pass
        if _identity(entry) in known:
            target.unlink(missing_ok=True)
            return None
        if entry["kind"] == "link":
            self._files.make_directories(target.parent)
            target.symlink_to(os.fsdecode(link))
        return entry

    def _copied(self, path: str, source: Path, target: Path) -> Record:
        hashed, size = hashlib.sha256(), 0
        with translated(source, "read"):
            descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._files.make_directories(target.parent)
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            with closing(self._files.open_append(target, follow_links=False)) as copy:
                while chunk := os.pread(descriptor, _CHUNK_BYTES, size):
                    rest = memoryview(chunk)
                    while rest:
                        rest = rest[copy.write(bytes(rest)) :]
                    hashed.update(chunk)
                    size += len(chunk)
                copy.sync()
        finally:
            os.close(descriptor)
        # Its owner can read it, whatever it was; no copy runs with the rights of its owner.
        target.chmod(mode & 0o777 | FILE_MODE)
        return {
            "path": path,
            "kind": "file",
            "sha256": hashed.hexdigest(),
            "size": size,
            "mode": f"{mode:04o}",
        }

    def _source(self, path: str) -> Path:
        """Return the file of a path as snapshots write it."""
        plain = self._root / path
        if "\\x" not in path or os.path.lexists(plain):
            return plain
        raw = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), path.encode())
        return self._root / os.fsdecode(raw)


def _identity(entry: Record) -> tuple[object, ...]:
    fields = ("path", "kind", "sha256", "mode", "target")
    return tuple(entry.get(name) for name in fields)

"""File backups: copies of files that differ from a run's record, made before they are overwritten.

Each backup is `state/kept/<run>/<number>/`: copies in `files/`, their description in `kept.json`.
A backup gets its number when it is durable. Backups are never overwritten or removed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, StorageError, WrongPath
from onceward.journal import Record
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.system import FILE_MODE, Files, mapped_os_errors
from onceward.system.crash_points import crash_point
from onceward.system.safe_paths import RootedDirectory

SCHEMA_VERSION: Final = 1
INDEX_NAME: Final = "kept.json"
_CHUNK_BYTES: Final = 1024 * 1024
_NUMBER: Final = re.compile(r"[0-9]{4,}")
#: How snapshots escape a byte of a name that is not UTF-8.
_ESCAPED: Final = re.compile(rb"\\x([0-9a-f]{2})")
_Identity = tuple[object, ...]


class FileBackups:
    """The backups of one run."""

    def __init__(self, workspace: Workspace, run_id: str, *, files: Files) -> None:
        """Use the run's backup directory; copies nothing yet."""
        self._root, self._files = workspace.root, files
        self._folder = workspace.kept(run_id)

    def copy(self, paths: Iterable[str], *, before: str, after: str) -> tuple[str, int] | None:
        """Back up these paths; return the backup's path and file count, or None if all were known.

        `before` and `after` are the recorded and the current snapshot. Missing files are recorded
        as removed.
        """
        known = dict(self._backed_up())
        numbers = [each for each in self._files.names(self._folder) if _NUMBER.fullmatch(each)]
        number = f"{max(map(int, numbers), default=0) + 1:04}"
        partial = self._folder / f"{number}.partial"
        if partial.exists():  # Its process died; all files are still in the workspace.
            shutil.rmtree(partial)
        links: dict[Path, bytes] = {}
        attempted = [
            self._back_up(path, partial / "files", known, links) for path in sorted(set(paths))
        ]
        entries = [each for each in attempted if each is not None]
        # After all files, so that no copy is written through one of them.
        for path, link in links.items():
            self._files.make_directories(path.parent)
            with mapped_os_errors(path, "write"):
                path.symlink_to(os.fsdecode(link))
        if not entries:
            shutil.rmtree(partial, ignore_errors=True)
            return None
        record = {"schemaVersion": SCHEMA_VERSION, "from": before, "to": after, "files": entries}
        write_sealed(partial / INDEX_NAME, record, self._files)
        for folder, _, _ in os.walk(partial, topdown=False):
            self._files.sync_directory(Path(folder))
        crash_point("orchestrator.backup.before_rename")
        self._files.replace(partial, self._folder / number)
        self._files.sync_directory(self._folder)
        crash_point("orchestrator.backup.after_rename")
        return str((self._folder / number).relative_to(self._root)), len(entries)

    def _backed_up(self) -> Iterator[tuple[_Identity, Path]]:
        """Yield the identity of each file that was backed up, and where its copy was made."""
        for name in self._files.names(self._folder):
            if _NUMBER.fullmatch(name):
                try:
                    note = read_sealed(self._folder / name / INDEX_NAME, self._files) or {
                        "files": []
                    }
                except StorageError:
                    continue  # The copies exist; the files are merely copied again.
                for entry in note["files"]:
                    yield _identity(entry), self._folder / name / "files" / entry["path"]

    def _back_up(
        self, path: str, folder: Path, known: Mapping[_Identity, Path], links: dict[Path, bytes]
    ) -> Record | None:
        """Copy one file unless its copy is still there; a link is added to `links` instead.

        Files reached through a linked directory are treated as missing at this path.
        """
        source, target = self._source(path), folder / path
        entry: Record = {"path": path, "kind": "removed"}
        above = source.parent.relative_to(self._root)
        with (
            # A parent is missing, is not a directory, or is a link.
            suppress(FileMissing, WrongPath, FileNotFoundError),
            RootedDirectory.open(self._root, above) as parent,
        ):
            location = parent.path() / source.name
            mode = location.lstat().st_mode
            if stat.S_ISLNK(mode):
                link = os.fsencode(location.readlink())
                shown = link.decode("utf-8", errors="backslashreplace")
                entry = {"path": path, "kind": "link", "target": shown}
            elif stat.S_ISREG(mode):
                entry = self._copy_file(path, location, target)
        earlier = known.get(_identity(entry))
        if earlier is not None and _is_intact(entry, earlier):
            if entry["kind"] == "file":
                target.unlink()
            return None
        if entry["kind"] == "link":
            links[target] = link
        return entry

    def _copy_file(self, path: str, source: Path, target: Path) -> Record:
        hashed, size = hashlib.sha256(), 0
        with mapped_os_errors(Path(path), "read"):
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
        # Readable by the owner in any case, and without set-user-id bits.
        target.chmod(mode & 0o777 | FILE_MODE)
        return {
            "path": path,
            "kind": "file",
            "sha256": hashed.hexdigest(),
            "size": size,
            "mode": f"{mode:04o}",
        }

    def _source(self, path: str) -> Path:
        """Return the file of a snapshot path, with its escapes undone."""
        plain = self._root / path
        if "\\x" not in path or os.path.lexists(plain):
            return plain
        raw = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), path.encode())
        return self._root / os.fsdecode(raw)


def _is_intact(entry: Record, copy: Path) -> bool:
    """Return whether a copy is still there with its content; a person may have moved it."""
    try:
        if entry["kind"] == "file":
            found = copy.lstat()
            # With a second name it could be the file that is about to be overwritten.
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                return False
            with copy.open("rb") as file:
                return bool(hashlib.file_digest(file, "sha256").hexdigest() == entry["sha256"])
        if entry["kind"] == "link":
            target = os.fsencode(copy.readlink())
            return bool(target.decode("utf-8", errors="backslashreplace") == entry["target"])
    except OSError:
        return False
    return True  # What was removed has no copy.


def _identity(entry: Record) -> _Identity:
    fields = ("path", "kind", "sha256", "mode", "target")
    return tuple(entry.get(name) for name in fields)

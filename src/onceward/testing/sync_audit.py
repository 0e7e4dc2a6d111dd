"""Sync audit: fail when code acknowledges a write that no fsync has made durable.

Records file events and which of them are not synced yet, so that an early acknowledgement fails at
once, without a simulated crash. Checks the order of events only, never content.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onceward.system import Files, FileStat, OpenFile

#: A file or directory: device and inode.
Identity = tuple[int, int]
#: A name: its directory, which may have been removed, and the name itself.
Place = tuple[Identity | None, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One recorded file operation or acknowledgement."""

    #: create, write, truncate, sync, replace, remove, make_directories, sync_directory or ack.
    kind: str
    path: Path
    #: Details for the failure message.
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}{self.detail and f' ({self.detail})'}"


@dataclass(eq=False, kw_only=True, slots=True)
class _Content:
    """A change of content that is not synced yet."""

    event: AuditEvent
    #: The changed file, even if it was renamed since.
    file: Identity
    #: The name under which the writer opened the file.
    place: Place
    #: A sync that starts before the change is finished does not make it durable.
    finished: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class _Names:
    """A change of names that no directory sync has made durable yet."""

    event: AuditEvent
    places: frozenset[Place]
    #: Directories still to be synced.
    unsynced: set[Identity | None]


class Audit:
    """Records file operations, and which of them a crash could still undo."""

    def __init__(self, files: Files) -> None:
        """Watch files whose present state is taken as durable."""
        self._files = files
        self._mutex = threading.RLock()
        self._contents: list[_Content] = []
        self._names: list[_Names] = []
        #: All successful operations, oldest first.
        self.events: list[AuditEvent] = []

    def ack(self, *paths: Path) -> None:
        """Declare that these files, and their names, are now acknowledged to the caller as durable.

        Raise AssertionError naming every operation on them that was not synced: on the file of that
        name, on any other file that was changed under that name, and on the name itself.
        """
        assert paths, "pass at least one path"
        with self._mutex:
            unsynced = [event for path in paths for event in self._unsynced(path)]
            self.events += [AuditEvent(kind="ack", path=path) for path in paths]
        if unsynced:
            message = f"acknowledged before it was durable: {'; '.join(map(str, unsynced))}"
            raise AssertionError(message)

    def _unsynced(self, path: Path) -> list[AuditEvent]:
        file, place = self._identity(path), self.place(path)
        contents = [c.event for c in self._contents if c.file == file or c.place == place]
        places = {place, *(self.place(level) for level in path.parents)}
        return contents + [n.event for n in self._names if n.places & places]

    def place(self, path: Path) -> Place:
        """Return the identity of a path's directory, and its last name."""
        return (self._identity(path.parent), path.name)

    def _identity(self, path: Path) -> Identity | None:
        found = self._files.stat(path)
        return None if found is None else found.identity

    @contextmanager
    def content(self, event: AuditEvent, file: Identity, place: Place) -> Iterator[None]:
        """Record a change of content; the block performs it."""
        change = _Content(event=event, file=file, place=place)
        with self._mutex:
            self._contents.append(change)
        try:
            yield
        except BaseException:
            with self._mutex:
                self._contents.remove(change)
            raise
        with self._mutex:
            change.finished = True
            self.events.append(event)

    @contextmanager
    def sync(self, path: Path, file: Identity) -> Iterator[None]:
        """Record a sync; it covers the changes that were finished when it started."""
        with self._mutex:
            covered = [c for c in self._contents if c.file == file and c.finished]
        yield
        with self._mutex:
            self._contents = [c for c in self._contents if c not in covered]
            self.events.append(AuditEvent(kind="sync", path=path))

    def names(self, event: AuditEvent, *paths: Path) -> None:
        """Record that these names changed in one atomic step."""
        with self._mutex:
            places = frozenset(map(self.place, paths))
            unsynced = {directory for directory, _ in places}
            self._names.append(_Names(event=event, places=places, unsynced=unsynced))
            self.events.append(event)

    @contextmanager
    def directory_sync(self, path: Path) -> Iterator[None]:
        """Record a directory sync; it covers the names that had changed when it started."""
        directory = self._identity(path)
        with self._mutex:
            covered = list(self._names)
        yield
        with self._mutex:
            for change in covered:
                change.unsynced.discard(directory)
            self._names = [change for change in self._names if change.unsynced]
            self.events.append(AuditEvent(kind="sync_directory", path=path))

    def forget(self, path: Path) -> None:
        """Drop the pending changes of a file that is about to be removed."""
        gone = (self._identity(path), self.place(path))
        with self._mutex:
            self._contents = [c for c in self._contents if (c.file, c.place) != gone]

    def note(self, event: AuditEvent) -> None:
        """Record an event that needs no sync."""
        with self._mutex:
            self.events.append(event)


class AuditedFiles:
    """A file system that reports every operation to an `Audit`."""

    def __init__(self, files: Files) -> None:
        """Delegate every operation to `files`."""
        self._files = files
        self.audit = Audit(files)

    def ack(self, *paths: Path) -> None:
        """Declare that these files are now acknowledged to the caller as durable."""
        self.audit.ack(*paths)

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending; the name of a new file needs a directory sync."""
        existed = self._files.stat(path) is not None
        file = self._files.open_append(path, follow_links=follow_links)
        if not existed:
            self.audit.names(AuditEvent(kind="create", path=path), path)
        return _AuditedFile(self.audit, path, file)

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; the file can also be synced."""
        return _AuditedFile(self.audit, path, self._files.open_read(path))

    def stat(self, path: Path) -> FileStat | None:
        """Delegate to the audited file system."""
        return self._files.stat(path)

    def names(self, path: Path) -> list[str]:
        """Delegate to the audited file system."""
        return self._files.names(path)

    def replace(self, source: Path, target: Path) -> None:
        """Rename; both names need a directory sync."""
        self._files.replace(source, target)
        event = AuditEvent(kind="replace", path=target, detail=f"by {source}")
        self.audit.names(event, source, target)

    def remove(self, path: Path) -> None:
        """Remove; the name needs a directory sync, the content none."""
        if self._files.stat(path) is not None:
            self.audit.forget(path)
            self._files.remove(path)
            self.audit.names(AuditEvent(kind="remove", path=path), path)

    def make_directories(self, path: Path) -> None:
        """Delegate to the audited file system, which syncs the directories it makes."""
        self._files.make_directories(path)
        self.audit.note(AuditEvent(kind="make_directories", path=path))

    def sync_directory(self, path: Path) -> None:
        """Sync the names of one directory."""
        with self.audit.directory_sync(path):
            self._files.sync_directory(path)


class _AuditedFile:
    """An open file that reports its operations to the audit."""

    def __init__(self, audit: Audit, path: Path, file: OpenFile) -> None:
        self._audit = audit
        self._path = path
        self._file = file
        self._identity = file.stat().identity
        self._place = audit.place(path)

    def stat(self) -> FileStat:
        return self._file.stat()

    def read(self, offset: int, size: int) -> bytes:
        return self._file.read(offset, size)

    def write(self, data: bytes) -> int:
        event = AuditEvent(kind="write", path=self._path, detail=f"{len(data)} bytes")
        with self._audit.content(event, self._identity, self._place):
            return self._file.write(data)

    def truncate(self, size: int) -> None:
        event = AuditEvent(kind="truncate", path=self._path, detail=f"to {size} bytes")
        with self._audit.content(event, self._identity, self._place):
            self._file.truncate(size)

    def lock(self) -> None:
        self._file.lock()

    def try_lock(self) -> bool:
        return self._file.try_lock()

    def unlock(self) -> None:
        self._file.unlock()

    def sync(self) -> None:
        with self._audit.sync(self._path, self._identity):
            self._file.sync()

    def close(self) -> None:
        self._file.close()

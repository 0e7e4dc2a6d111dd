"""The ack audit: nothing is acknowledged before it is on disk.

Owns the stream of file events and what in it was not synced yet, so that a promise made too early
is seen when it is made, without any crash. Looks at the order of events only, never at content.
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
#: A name: the directory it stands in, which may be gone, and the name itself.
Place = tuple[Identity | None, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEvent:
    """One thing that happened, in order."""

    #: create, write, truncate, sync, replace, remove, make_directories, sync_directory or ack.
    kind: str
    path: Path
    #: What else there is to say, for people.
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path}{self.detail and f' ({self.detail})'}"


@dataclass(eq=False, kw_only=True, slots=True)
class _Content:
    """A change of content that no sync has covered."""

    event: AuditEvent
    #: The file that was changed, whatever its name is now.
    file: Identity
    #: The name under which the writer had opened it.
    place: Place
    #: A sync that begins before the change is finished does not cover it.
    finished: bool = False


@dataclass(eq=False, kw_only=True, slots=True)
class _Names:
    """A change of names that no directory sync has covered."""

    event: AuditEvent
    places: frozenset[Place]
    #: Directories still to be synced.
    unsynced: set[Identity | None]


class Audit:
    """What happened to the files, and which of it a crash could still undo."""

    def __init__(self, files: Files) -> None:
        """Watch files whose present state is taken as durable."""
        self._files = files
        self._mutex = threading.RLock()
        self._contents: list[_Content] = []
        self._names: list[_Names] = []
        #: All that succeeded so far, oldest first.
        self.events: list[AuditEvent] = []

    def ack(self, *paths: Path) -> None:
        """Declare that these files, and their names, are now acknowledged to the caller as durable.

        Raise AssertionError naming every operation on them that was not synced: on the file of that
        name, on any other file that was changed under that name, and on the name itself.
        """
        assert paths, "an ack depends on something"
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
        """Return which name a path ends in, however its directory is written."""
        return (self._identity(path.parent), path.name)

    def _identity(self, path: Path) -> Identity | None:
        found = self._files.stat(path)
        return None if found is None else found.identity

    @contextmanager
    def content(self, event: AuditEvent, file: Identity, place: Place) -> Iterator[None]:
        """Watch a change of content from its beginning to its end."""
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
        """Watch a sync; it covers what was finished when it began."""
        with self._mutex:
            covered = [c for c in self._contents if c.file == file and c.finished]
        yield
        with self._mutex:
            self._contents = [c for c in self._contents if c not in covered]
            self.events.append(AuditEvent(kind="sync", path=path))

    def names(self, event: AuditEvent, *paths: Path) -> None:
        """Note that these names changed in one step."""
        with self._mutex:
            places = frozenset(map(self.place, paths))
            unsynced = {directory for directory, _ in places}
            self._names.append(_Names(event=event, places=places, unsynced=unsynced))
            self.events.append(event)

    @contextmanager
    def directory_sync(self, path: Path) -> Iterator[None]:
        """Watch a directory sync; it covers the names that had changed when it began."""
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
        """Note that the content of a file is about to be removed on purpose."""
        gone = (self._identity(path), self.place(path))
        with self._mutex:
            self._contents = [c for c in self._contents if (c.file, c.place) != gone]

    def note(self, event: AuditEvent) -> None:
        """Add an event that leaves nothing to sync."""
        with self._mutex:
            self.events.append(event)


class AuditedFiles:
    """Any file system, under audit."""

    def __init__(self, files: Files) -> None:
        """Pass everything on to `files`."""
        self._files = files
        self.audit = Audit(files)

    def ack(self, *paths: Path) -> None:
        """Declare that these files are now acknowledged to the caller as durable."""
        self.audit.ack(*paths)

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending; a file that was missing has a new name to sync."""
        existed = self._files.stat(path) is not None
        file = self._files.open_append(path, follow_links=follow_links)
        if not existed:
            self.audit.names(AuditEvent(kind="create", path=path), path)
        return _AuditedFile(self.audit, path, file)

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; the file can be synced, too."""
        return _AuditedFile(self.audit, path, self._files.open_read(path))

    def stat(self, path: Path) -> FileStat | None:
        """Pass it on."""
        return self._files.stat(path)

    def names(self, path: Path) -> list[str]:
        """Pass it on."""
        return self._files.names(path)

    def replace(self, source: Path, target: Path) -> None:
        """Rename; both names are to be synced."""
        self._files.replace(source, target)
        event = AuditEvent(kind="replace", path=target, detail=f"by {source}")
        self.audit.names(event, source, target)

    def remove(self, path: Path) -> None:
        """Remove; the missing name is to be synced, its content no more."""
        if self._files.stat(path) is not None:
            self.audit.forget(path)
            self._files.remove(path)
            self.audit.names(AuditEvent(kind="remove", path=path), path)

    def make_directories(self, path: Path) -> None:
        """Pass it on; it syncs what it makes."""
        self._files.make_directories(path)
        self.audit.note(AuditEvent(kind="make_directories", path=path))

    def sync_directory(self, path: Path) -> None:
        """Sync the names of one directory."""
        with self.audit.directory_sync(path):
            self._files.sync_directory(path)


class _AuditedFile:
    """An open file that tells the audit what is done to it."""

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

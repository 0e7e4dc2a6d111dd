"""Lab export: all records of the Lab, or of one session, in one self-contained JSON file.

Owns the content of an export and its allowed locations: below the exports directory or an allowed
root, through no link. Overwrites earlier exports only.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, Self

from onceward.errors import (
    FileMissing,
    InvalidArgument,
    RequestRefused,
    StorageError,
    WrongPath,
)
from onceward.journal import Journal, Record, atomic_file
from onceward.keys.encoding import encoded
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import SCHEMA_VERSION, Experiment, LabRun, is_feedback
from onceward.system import (
    Clock,
    Files,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
    timestamp,
)
from onceward.system.safe_paths import RootedDirectory

SUFFIX: Final = ".json"
#: Below the kernel's limit of 255 bytes, since the temporary's name is longer.
NAME_BYTES_MAX: Final = 240
_EXPORTS: Final = "exports"
#: The first bytes of every export, and of no other file that Onceward writes.
_HEAD: Final = b'{"schemaVersion":1,"exportedAt":"'


@dataclass(frozen=True, kw_only=True, slots=True)
class LabExportResult:
    """The path of a finished export, and its number of entries."""

    #: Path of the file.
    path: str
    #: Number of feedback entries in it.
    count: int


def write_export(  # noqa: PLR0913 - three of them are injected
    paths: LabPaths,
    roots: Sequence[Path],
    *,
    session_id: str | None = None,
    path: str | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> LabExportResult:
    """Write all records, or those of one session, into one file, atomically.

    Args:
        paths: Where the Lab's files are.
        roots: Real paths of further directories in which an export may be written.
        session_id: Export only records of this session, and those they refer to.
        path: A name below the exports directory, or an absolute path. Default: a generated name.
        files: The file system.
        clock: The clock.
        randomness: The source of randomness for a generated name.

    Raises:
        RequestRefused: The path is outside the allowed directories, or contains a link, or another
            file exists there; that file is unchanged.
        InvalidArgument, FileMissing: The name is invalid, or its directory does not exist.

    """
    disk, now = files or SystemFiles(), timestamp((clock or SystemClock()).now())
    requested = _new_name(now, randomness or SystemRandomness()) if path is None else path
    with _ExportTarget.open(_resolve_target(paths, roots, requested), disk) as target:
        target.check_free()
        content = collect_records(paths, now, session_id, files=disk)
        target.write(encoded(content), disk)
        return LabExportResult(path=target.shown, count=len(content["feedback"]))


def collect_records(
    paths: LabPaths, now: str, session_id: str | None = None, *, files: Files | None = None
) -> Record:
    """Return the content of an export: all records, of each experiment the last one only.

    Feedback is read before the records it refers to, so that none of those is missing.
    """

    def records(path: Path, valid: Callable[[Record], bool]) -> list[Record]:
        return list(_all(Journal(path, valid=valid, sync=False, files=files)))

    feedback = records(paths.feedback, is_feedback)
    last = {
        each["experimentId"]: each
        for each in records(
            paths.experiments, lambda line: Experiment.from_record(line) is not None
        )
    }
    experiments = list(last.values())
    runs = records(paths.runs, lambda line: LabRun.from_record(line) is not None)
    if session_id is not None:
        feedback = [each for each in feedback if each.get("sessionId") == session_id]
        named = {each.get("experimentId") for each in feedback}
        experiments = [
            each
            for each in experiments
            if each.get("sessionId") == session_id or each["experimentId"] in named
        ]
        # An import may return a run of an earlier session, so runs are selected by id.
        used = {each.get("runId") for each in feedback}
        used.update(run_id for each in experiments for run_id in _runs_of(each))
        runs = [
            each for each in runs if each.get("sessionId") == session_id or each["runId"] in used
        ]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "exportedAt": now,
        "sessionId": session_id,
        "runs": runs,
        "experiments": experiments,
        "feedback": feedback,
    }


def _all(journal: Journal) -> Iterable[Record]:
    since, tag = "0", None
    while True:
        page = journal.read(since, tag=tag)
        yield from page.items
        if page.next_cursor == since:
            return
        since, tag = page.next_cursor, page.tag


def _runs_of(experiment: Record) -> list[str]:
    return [experiment["baselineRunId"], *(each["runId"] for each in experiment["variants"])]


class _ExportTarget:
    """A file name in a directory that is held open, so that it cannot be swapped for a link."""

    def __init__(self, directory: RootedDirectory, name: str, shown: str) -> None:
        self._directory, self._name = directory, name
        #: The path for messages and responses.
        self.shown = shown

    @classmethod
    def open(cls, place: tuple[Path, PurePath], files: Files) -> Self:
        """Open the directory."""
        root, relative = place
        try:
            if root.name == _EXPORTS:
                files.make_directories(root)
            directory = RootedDirectory.open(root, relative.parent)
        except FileMissing:
            message = "path: the directory of the export does not exist; nothing was written"
            raise FileMissing(
                message, fix="create it, or pass a plain name", field="path"
            ) from None
        except WrongPath as exc:
            raise _location_refused() from exc
        return cls(directory, relative.name, str(root / relative))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.close()

    def check_free(self) -> None:
        """Reject a target that exists and is not an export."""
        try:
            with self._directory.open_file(self._name) as file:
                is_ours = file.read(0, len(_HEAD)) == _HEAD
        except FileMissing:
            return
        except WrongPath as exc:
            raise _location_refused() from exc
        if not is_ours:
            message = f"path: {self.shown} exists and is not an export; it was left unchanged"
            fix = "choose another name, or move that file away"
            raise RequestRefused(message, fix=fix, field="path")

    def write(self, data: bytes, files: Files) -> None:
        """Write the content atomically; a link in its place is replaced, not followed."""
        assert data.startswith(_HEAD), data[:64]
        held = self._directory.path()
        try:
            _remove_hard_linked(held / f".{self._name}.tmp", files)
            atomic_file.write(held / self._name, data, files=files)
        except WrongPath as exc:
            raise _location_refused() from exc
        except StorageError as exc:
            # The open directory has a path below /proc, which means nothing to the caller.
            message = exc.message.replace(str(held), str(Path(self.shown).parent))
            raise type(exc)(message, fix=exc.fix) from exc


def _remove_hard_linked(temporary: Path, files: Files) -> None:
    """Remove a temporary with a second hard link, since a write would change that file, too.

    A temporary with one link stays: another writer may be using it under a lock.
    """
    try:
        found = temporary.lstat()
    except OSError:
        return  # Missing or unreadable; the write reports an error.
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        files.remove(temporary)


def _resolve_target(paths: LabPaths, roots: Sequence[Path], path: str) -> tuple[Path, PurePath]:
    """Return the allowed root of an export, and the path below it, without resolving links."""
    own = Path(os.path.realpath(paths.root), _EXPORTS)
    parts = path.split("/")
    if "\0" in path or ".." in parts or not _is_text(path):
        raise _location_refused()
    _check_name(parts[-1])
    if not path.startswith("/"):
        return own, PurePath(*filter(None, parts))
    requested = PurePath(path)
    # The topmost match: nothing below it may be a link, not even one back into the root.
    for above in reversed(requested.parents):
        real = Path(os.path.realpath(above))
        if real in roots or real == own:
            return real, requested.relative_to(above)
    raise _location_refused()


def _check_name(name: str) -> None:
    """Reject hidden names, names without the suffix, and names that are too long."""
    is_short = len(name.encode()) <= NAME_BYTES_MAX
    if name.startswith((".", "~")) or not name.endswith(SUFFIX) or not is_short:
        size = len(name.encode())
        message = f"path: {name!r:.60} ({size} bytes) is not a valid name of an export"
        fix = f"use at most {NAME_BYTES_MAX} bytes, ending in {SUFFIX}, without a leading . or ~"
        raise InvalidArgument(message, fix=fix, field="path")


def export_name(request_id: str) -> str:
    """Return the file name of the export of a request id."""
    return f"lab-{hashlib.sha256(request_id.encode()).hexdigest()[:24]}{SUFFIX}"


def _new_name(now: str, randomness: Randomness) -> str:
    """Return a name from the time, with a random part that makes it unique."""
    return f"lab-{now.replace('-', '').replace(':', '')}-{randomness.hex(12)}{SUFFIX}"


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _location_refused() -> RequestRefused:
    # The same error whether the path exists or not, so that it reveals nothing.
    message = (
        "path: is outside the exports directory and the allowed roots, or contains a link or `..`; "
        "nothing was written"
    )
    fix = "pass a plain name such as results.json, or start the server with --allow-root"
    return RequestRefused(message, fix=fix, field="path")

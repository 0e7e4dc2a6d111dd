"""Exports: everything of the Lab, or of one session, in one self-contained JSON file.

Owns what goes into it and where it may lie: below the exports directory or an allowed root, reached
through no link. Never writes over anything but an earlier export.
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
from onceward.journal import Journal, Record, atomic
from onceward.keys.encoding import encoded
from onceward.lab.models import SCHEMA_VERSION, Experiment, Run, is_feedback
from onceward.lab.paths import LabPaths
from onceward.rooted import RootedDirectory
from onceward.seams import (
    Clock,
    Files,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
    timestamp,
)

SUFFIX: Final = ".json"
#: The kernel takes no longer name, and the temporary beside it needs a few bytes more.
NAME_BYTES_MAX: Final = 240
_EXPORTS: Final = "exports"
#: How every export begins, and no other file of ours.
_HEAD: Final = b'{"schemaVersion":1,"exportedAt":"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A finished export."""

    #: Where it lies.
    path: str
    #: How many entries of feedback it holds.
    count: int


def write_export(  # noqa: PLR0913 - three of them are seams
    paths: LabPaths,
    roots: Sequence[Path],
    *,
    session_id: str | None = None,
    path: str | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> Exported:
    """Write everything, or everything of a session, into one file, whole or not at all.

    Args:
        paths: Where the Lab's files are.
        roots: Real paths of the directories in which an export may lie besides the Lab's own.
        session_id: Only what belongs to this session, and what that refers to.
        path: A name below the exports directory, or an absolute path; one is made up if left out.
        files: The file system.
        clock: The clock.
        randomness: Chance, for a name that is made up.

    Raises:
        RequestRefused: The path leads elsewhere, or over a link, or something that is no export is
            there; it stays as it is.
        InvalidArgument, FileMissing: The name is not usable, or its directory does not exist.

    """
    disk, now = files or SystemFiles(), timestamp((clock or SystemClock()).now())
    asked = _new_name(now, randomness or SystemRandomness()) if path is None else path
    with _Target.open(_place(paths, roots, asked), disk) as target:
        target.check_free()
        content = collect(paths, now, session_id, files=disk)
        target.write(encoded(content), disk)
        return Exported(path=target.shown, count=len(content["feedback"]))


def collect(
    paths: LabPaths, now: str, session_id: str | None = None, *, files: Files | None = None
) -> Record:
    """Return what an export holds: records as they stand, of experiments the last one each.

    Feedback is read before what it refers to, so that nothing it names is missing.
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
    runs = records(paths.runs, lambda line: Run.from_record(line) is not None)
    if session_id is not None:
        feedback = [each for each in feedback if each.get("sessionId") == session_id]
        named = {each.get("experimentId") for each in feedback}
        experiments = [
            each
            for each in experiments
            if each.get("sessionId") == session_id or each["experimentId"] in named
        ]
        # An import finds the run of an earlier session again, so runs are followed by name.
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


class _Target:
    """One file name in a directory that is held open, so that nobody can swap it for a link."""

    def __init__(self, directory: RootedDirectory, name: str, shown: str) -> None:
        self._directory, self._name = directory, name
        #: The path as people read it.
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
            message = "path: the directory of the export does not exist"
            raise FileMissing(message, fix="make it, or give a plain name", field="path") from None
        except WrongPath as exc:
            raise _refused() from exc
        return cls(directory, relative.name, str(root / relative))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.close()

    def check_free(self) -> None:
        """Refuse to replace anything but an export."""
        try:
            with self._directory.open_file(self._name) as file:
                is_ours = file.read(0, len(_HEAD)) == _HEAD
        except FileMissing:
            return
        except WrongPath as exc:
            raise _refused() from exc
        if not is_ours:
            message = f"path: {self.shown} exists and is not an export"
            fix = "choose another name, or move what is there away"
            raise RequestRefused(message, fix=fix, field="path")

    def write(self, data: bytes, files: Files) -> None:
        """Put the content there in one step; a link in its place would itself be replaced."""
        assert data.startswith(_HEAD), data[:64]
        held = self._directory.path()
        try:
            _drop_planted(held / f".{self._name}.tmp", files)
            atomic.write(held / self._name, data, files=files)
        except WrongPath as exc:
            raise _refused() from exc
        except StorageError as exc:
            # What we hold open has no name that says something to people.
            message = exc.message.replace(str(held), str(Path(self.shown).parent))
            raise type(exc)(message, fix=exc.fix) from exc


def _drop_planted(temporary: Path, files: Files) -> None:
    """Remove a temporary that has a second name: what is written to it would be written there too.

    Ours has one name only, and stays: another writer may be at it, and we take turns.
    """
    try:
        found = temporary.lstat()
    except OSError:
        return  # Not there, or nothing that can be looked at; the write will say.
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        files.remove(temporary)


def _place(paths: LabPaths, roots: Sequence[Path], path: str) -> tuple[Path, PurePath]:
    """Return the root that an export lies in, and the way from there, by the letter."""
    own = Path(os.path.realpath(paths.root), _EXPORTS)
    parts = path.split("/")
    if "\0" in path or ".." in parts or not _is_text(path):
        raise _refused()
    _check_name(parts[-1])
    if not path.startswith("/"):
        return own, PurePath(*filter(None, parts))
    asked = PurePath(path)
    # The first one from the top: what comes below it may not be a link, not even one back into it.
    for above in reversed(asked.parents):
        real = Path(os.path.realpath(above))
        if real in roots or real == own:
            return real, asked.relative_to(above)
    raise _refused()


def _check_name(name: str) -> None:
    """Refuse names that tools take for something else than data."""
    is_short = len(name.encode()) <= NAME_BYTES_MAX
    if name.startswith((".", "~")) or not name.endswith(SUFFIX) or not is_short:
        message = f"path: {name[:60]!r} is not the name of an export"
        fix = f"choose a name that ends in {SUFFIX}, does not begin with a dot, and is not too long"
        raise InvalidArgument(message, fix=fix, field="path")


def name_for(request_id: str) -> str:
    """Return the name of the one export that a request id makes."""
    return f"lab-{hashlib.sha256(request_id.encode()).hexdigest()[:24]}{SUFFIX}"


def _new_name(now: str, randomness: Randomness) -> str:
    """Return a name after the time; by chance, so that nobody else takes the same one meanwhile."""
    return f"lab-{now.replace('-', '').replace(':', '')}-{randomness.hex(12)}{SUFFIX}"


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused() -> RequestRefused:
    # The same answer whatever lies there, so that nobody can look around with it.
    message = "path: exports may only lie in the exports directory or an allowed root, not by links"
    fix = "give a plain name such as results.json, or start the server with --allow-root"
    return RequestRefused(message, fix=fix, field="path")

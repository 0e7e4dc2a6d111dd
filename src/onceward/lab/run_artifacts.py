"""Run artifacts: read the files of a run's directory, and select those to show.

Owns the known file names, the choice among attempts, the fingerprint and the content for the page.
Broken or hostile files of an agent are reported as problems and never raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final, Self

from onceward.errors import (
    FileMissing,
    InvalidArgument,
    NotFound,
    OncewardError,
    RequestRefused,
    StorageError,
    TooLarge,
)
from onceward.lab.content_fingerprint import FileState, RunFileStates, RunFingerprint
from onceward.lab.manifest import (
    MANIFEST,
    VIDEO_TYPES,
    ArtifactProblem,
    DeclaredArtifact,
    Kind,
    display_text,
    extension,
    problem_text,
    read_json,
    read_manifest,
)
from onceward.lab.run_metrics import RunMetrics
from onceward.system.safe_paths import (
    DirectoryEntry,
    RootedDirectory,
    RootedFile,
    RootedStat,
    locate_below,
)

ARTIFACT_BYTES_MAX: Final = 8 * 1024 * 1024
VIDEO: Final = "video.mp4"
_KNOWN: Final = (
    "script",
    "timestamps",
    "visuals",
    "score",
    "sync-report",
    "caption-report",
    "caption-quality",
    "caption-settings",
)
#: File names that make a directory importable.
RECOGNISED: Final[tuple[str, ...]] = (*(f"{stem}.json" for stem in _KNOWN), VIDEO, MANIFEST)
_ATTEMPT: Final = re.compile(
    rf"(?P<stem>{'|'.join(_KNOWN)})(?:-attempt(?P<attempt>[1-9][0-9]{{0,8}}))?\.json", re.ASCII
)

#: A run shows the content of its import.
_IMPORT_AGAIN: Final = "; then import the directory again"


class RunDirectory:
    """The open directory of one run; caches parsed files."""

    def __init__(self, directory: RootedDirectory, path: Path, video: str | None) -> None:
        """Take ownership of an open directory; use `RunDirectory.open` instead."""
        self._directory = directory
        #: The real path of the directory.
        self.path = path
        self._requested_video = _inside(path, video) if video else None
        self._problems: dict[str, str] = {}
        self._parsed_by_stem: dict[str, object] = {}
        #: The parsed `lab.json`.
        self.manifest = read_manifest(directory)

    @classmethod
    def open(cls, path: Path, roots: Sequence[Path], video: str | None = None) -> Self:
        """Open a run's directory; `video` is the name or the absolute path of its video."""
        found = locate_below(str(path), roots)
        if found is None:
            message = "the run's directory is outside the directories that the Lab may read"
            fix = "start the Lab with --allow-root for that directory"
            raise RequestRefused(message, fix=fix)
        root, relative = found
        directory = RootedDirectory.open(root, relative)
        try:
            return cls(directory, root / relative, video)
        except BaseException:
            directory.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory. Idempotent."""
        self._directory.close()

    # --- summary ------------------------------------------------------------------------------

    def is_recognisable(self) -> bool:
        """Return whether the directory has any file that the Lab can show."""
        return (
            bool(self.manifest.files)
            or self.video_name() is not None
            or any(self._file_state(self._select_file(stem)) is not None for stem in _KNOWN)
        )

    def topic(self) -> str | None:
        """Return the topic of the run, from its script or else its manifest."""
        script = self._parsed_artifact("script")
        fields = script if isinstance(script, dict) else {}
        nested = [fields.get(key) for key in ("meta", "metadata")]
        topics = [each.get("topic") for each in nested if isinstance(each, dict)]
        spoken = [display_text(each) for each in (*topics, fields.get("title"))]
        declared = [self.manifest.topic, self.manifest.title]
        return next((each for each in (*spoken, *declared) if each), None)

    def metrics(self) -> RunMetrics:
        """Return the metrics of the current reports."""
        return RunMetrics.from_reports(
            sync=self._parsed_artifact("sync-report"),
            caption=self._parsed_artifact(self._caption_stem),
            score=self._parsed_artifact("score"),
        )

    def reports(self) -> dict[str, str]:
        """Return the paths of its reports; missing ones are left out."""
        stems = {
            "syncReportPath": "sync-report",
            "captionReportPath": self._caption_stem,
            "scorePath": "score",
        }
        found = {key: self._file_state(self._select_file(stem)) for key, stem in stems.items()}
        return {key: each.path for key, each in found.items() if each is not None}

    def fingerprint(self) -> RunFingerprint:
        """Return the fingerprint of the current content."""
        return self._current_states().to_record()

    def holds(self, fingerprint: Mapping[str, Any]) -> bool:
        """Return whether the content still matches a recorded fingerprint."""
        return self._current_states().matches(fingerprint)

    def _current_states(self) -> RunFileStates:
        """Return the files of the fingerprint: video and script, declared files, or else all."""
        video, script = (
            self._file_state(self.video_name()),
            self._file_state(self._select_file("script")),
        )
        files = None
        if self.manifest.files:
            names = {MANIFEST, *(each.path for each in self.manifest.files)}
            files = [each for each in map(self._file_state, names) if each is not None]
        elif video is None and script is None:
            files = [self._file(each.name, each) for each in self._directory.entries()]
        listed = None if files is None else sorted(files, key=lambda each: each.path)
        return RunFileStates(video=video, script=script, files=listed)

    # --- content ------------------------------------------------------------------------------

    def content(self) -> dict[str, object]:
        """Return parsed artifacts, the list of declared files and problems, ready for JSON."""
        parsed = {stem: self._parsed_artifact(stem) for stem in _KNOWN[:4]}
        reports = {
            "sync": self._parsed_artifact("sync-report"),
            "caption": self._parsed_artifact(self._caption_stem),
        }
        self.video_name()
        files = [self._describe(each) for each in self.manifest.files]
        found = [ArtifactProblem(name=name, problem=why) for name, why in self._problems.items()]
        problems = [
            {"name": each.name, "problem": each.problem}
            for each in (*self.manifest.problems, *found)
        ]
        shown = {"prompt": self.manifest.prompt, "files": files, "problems": problems}
        return {**parsed, "reports": reports, **shown}

    def open_artifact(self, name: str) -> tuple[RootedFile, Kind]:
        """Open a file that may be served: a known name, or one declared in the manifest."""
        if _ATTEMPT.fullmatch(name):
            return self._directory.open_file(name), "json"
        for each in self.manifest.files:
            if each.path == name:
                return self._directory.open_file(name), each.kind
        message = f"this run has no known or declared file {name!r:.60}"
        fix = f"correct the name; or declare the file in {MANIFEST}{_IMPORT_AGAIN}"
        raise NotFound(message, fix=fix)

    def video_name(self) -> str | None:
        """Return the path of the video, relative to the directory.

        The requested one, else the manifest's, else `video.mp4`, else the only one. A requested
        video that is missing is not replaced by another, so that the wrong one is never judged.
        """
        return self._video

    def open_video(self) -> RootedFile:
        """Open the video; FileMissing if there is none."""
        name = self.video_name()
        if name is None:
            raise self._no_video()
        return self._directory.open_file(name)

    # --- helpers --------------------------------------------------------------------------------

    @cached_property
    def _video(self) -> str | None:
        named = self._requested_video or self.manifest.video
        if named is not None:
            return self._usable_video(named)
        if self._exists(VIDEO):
            return self._usable_video(VIDEO)
        there = [each.name for each in self._entries if extension(each.name) in VIDEO_TYPES]
        if len(there) > 1:
            self._problems[MANIFEST] = f"should name the video: there are {len(there)} here"
        return there[0] if len(there) == 1 and _is_text(there[0]) else None

    def _no_video(self) -> FileMissing:
        named = self._requested_video or self.manifest.video
        if named is not None:
            message = f"the video of this run, {named!r:.60}, is missing or is not playable"
            fix = f"add this file, or name another one in {MANIFEST}{_IMPORT_AGAIN}"
            return FileMissing(message, fix=fix)
        if self._problems.get(MANIFEST):
            message = "this run has several videos, and none is declared"
            return FileMissing(message, fix=f"declare one of them in {MANIFEST}{_IMPORT_AGAIN}")
        message = "this run has no video"
        fix = f"add {VIDEO}, or declare a video in {MANIFEST}{_IMPORT_AGAIN}"
        return FileMissing(message, fix=fix)

    def _usable_video(self, name: str) -> str | None:
        if extension(name) not in VIDEO_TYPES:
            self._problems[name] = "is not a video that browsers play"
            return None
        return name if self._stat(name, note=True) is not None else None

    @cached_property
    def _caption_stem(self) -> str:
        return next(
            (stem for stem in ("caption-report", "caption-quality") if self._select_file(stem)),
            "caption-report",
        )

    @cached_property
    def _entries(self) -> list[DirectoryEntry]:
        try:
            return self._directory.entries()
        except (StorageError, TooLarge) as exc:
            self._problems["."] = exc.message
            return []

    def _select_file(self, stem: str) -> str | None:
        """Return the file without an attempt number, else the one of the highest attempt."""
        base = f"{stem}.json"
        if self._exists(base):
            return base
        attempts = [
            (int(found["attempt"]), each.name)
            for each in self._entries
            if (found := _ATTEMPT.fullmatch(each.name))
            and found["stem"] == stem
            and found["attempt"]
        ]
        return max(attempts)[1] if attempts else None

    def _parsed_artifact(self, stem: str) -> object:
        """Return the parsed content of the selected file; record its problems."""
        if stem not in self._parsed_by_stem:
            self._parsed_by_stem[stem] = self._parse(self._select_file(stem))
        return self._parsed_by_stem[stem]

    def _parse(self, name: str | None) -> object:
        if name is None:
            return None
        try:
            value, problem = read_json(self._directory, name, bytes_max=ARTIFACT_BYTES_MAX)
        except FileMissing:
            return None
        if problem is not None:
            self._problems[name] = problem
        return value

    def _exists(self, name: str) -> bool:
        """Return whether a file of that name exists, usable or not."""
        try:
            self._directory.open_file(name).close()
        except FileMissing:
            return False
        except StorageError:
            return True
        return True

    def _stat(self, name: str, *, note: bool = False) -> RootedStat | None:
        try:
            with self._directory.open_file(name) as file:
                return file.stat
        except StorageError as exc:
            if note:
                self._problems[name] = problem_text(exc)
            return None

    def _file_state(self, name: str | None) -> FileState | None:
        found = self._stat(name) if name else None
        return self._file(name, found) if name and found else None

    def _file(self, name: str, found: RootedStat | DirectoryEntry) -> FileState:
        # A name that is not valid UTF-8 must not make the record invalid.
        path = f"{self.path}/{name}".encode("utf-8", "backslashreplace").decode()
        return FileState(path=path, size_bytes=found.size, mtime_ns=found.mtime_ns)

    def _describe(self, file: DeclaredArtifact) -> dict[str, object]:
        state, size = "ok", None
        try:
            with self._directory.open_file(file.path) as opened:
                size = opened.stat.size
        except FileMissing:
            state = "missing"
        except OncewardError as exc:
            state = "refused"
            self._problems[file.path] = problem_text(exc)
        return {
            "name": file.path,
            "label": file.label,
            "kind": file.kind,
            "sizeBytes": size,
            "state": state,
        }


def _inside(path: Path, video: str) -> str:
    """Return a video's path within the run; one outside stays unchanged and is rejected later."""
    video_path = PurePath(video)
    if video_path.is_absolute():
        with suppress(InvalidArgument):  # Not a valid path.
            if found := locate_below(str(video_path.parent), [path]):
                return str(found[1] / video_path.name)
    return video


def _is_text(name: str) -> bool:
    return name == name.encode("utf-8", "replace").decode()

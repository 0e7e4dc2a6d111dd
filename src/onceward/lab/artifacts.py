"""Artifacts: what the directory of a run holds, and which of it is shown.

Owns the names the Lab knows, the choice among attempts, the fingerprint and the run's content as
people see it. Whatever an agent left there, broken or hostile, is shown as such and never raises.
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
from onceward.lab.fingerprints import Fingerprint, SeenFile, SeenFiles
from onceward.lab.manifest import (
    MANIFEST,
    VIDEO_TYPES,
    Declared,
    Kind,
    Problem,
    extension,
    read_json,
    read_manifest,
    text_of,
    why_not,
)
from onceward.lab.metrics import Metrics
from onceward.rooted import Entry, RootedDirectory, RootedFile, RootedStat, contained

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
#: What an import looks for.
RECOGNISED: Final[tuple[str, ...]] = (*(f"{stem}.json" for stem in _KNOWN), VIDEO, MANIFEST)
_ATTEMPT: Final = re.compile(
    rf"(?P<stem>{'|'.join(_KNOWN)})(?:-attempt(?P<attempt>[1-9][0-9]{{0,8}}))?\.json", re.ASCII
)


class RunDirectory:
    """The directory of one run, held open; what it has read once it does not read again."""

    def __init__(self, directory: RootedDirectory, path: Path, video: str | None) -> None:
        """Own an open directory; `RunDirectory.open` is the way to get one."""
        self._directory = directory
        #: The real path of the directory.
        self.path = path
        self._asked = _inside(path, video) if video else None
        self._problems: dict[str, str] = {}
        self._read: dict[str, object] = {}
        #: What its `lab.json` says.
        self.manifest = read_manifest(directory)

    @classmethod
    def open(cls, path: Path, roots: Sequence[Path], video: str | None = None) -> Self:
        """Open a run's directory; `video` is the file that is its video, by name or whole path."""
        found = contained(str(path), roots)
        if found is None:
            message = "this path is outside the directories that the Lab may read"
            raise RequestRefused(message, fix="start the Lab with --allow-root for its directory")
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
        """Give the directory back; a second time changes nothing."""
        self._directory.close()

    # --- what it is ---------------------------------------------------------------------------

    def is_recognisable(self) -> bool:
        """Return whether there is anything here that the Lab can show."""
        return (
            bool(self.manifest.files)
            or self.video_name() is not None
            or any(self._seen(self._chosen(stem)) is not None for stem in _KNOWN)
        )

    def topic(self) -> str | None:
        """Return what the run is about, as its script says, else its manifest."""
        script = self._artifact("script")
        fields = script if isinstance(script, dict) else {}
        nested = [fields.get(key) for key in ("meta", "metadata")]
        topics = [each.get("topic") for each in nested if isinstance(each, dict)]
        spoken = [text_of(each) for each in (*topics, fields.get("title"))]
        declared = [self.manifest.topic, self.manifest.title]
        return next((each for each in (*spoken, *declared) if each), None)

    def metrics(self) -> Metrics:
        """Return what its reports say now."""
        return Metrics.from_reports(
            sync=self._artifact("sync-report"),
            caption=self._artifact(self._caption),
            score=self._artifact("score"),
        )

    def reports(self) -> dict[str, str]:
        """Return where its reports lie; absent ones are left out."""
        stems = {
            "syncReportPath": "sync-report",
            "captionReportPath": self._caption,
            "scorePath": "score",
        }
        found = {key: self._seen(self._chosen(stem)) for key, stem in stems.items()}
        return {key: each.path for key, each in found.items() if each is not None}

    def fingerprint(self) -> Fingerprint:
        """Return what changes when the run is made again in the same directory."""
        return self._counted().to_record()

    def holds(self, fingerprint: Mapping[str, Any]) -> bool:
        """Say whether the directory holds what a recorded fingerprint was taken of."""
        return self._counted().matches(fingerprint)

    def _counted(self) -> SeenFiles:
        """Return the files that count: video and script, declared ones, else all there are."""
        video, script = self._seen(self.video_name()), self._seen(self._chosen("script"))
        files = None
        if self.manifest.files:
            names = {MANIFEST, *(each.path for each in self.manifest.files)}
            files = [each for each in map(self._seen, names) if each is not None]
        elif video is None and script is None:
            files = [self._file(each.name, each) for each in self._directory.entries()]
        listed = None if files is None else sorted(files, key=lambda each: each.path)
        return SeenFiles(video=video, script=script, files=listed)

    # --- what it shows ------------------------------------------------------------------------

    def content(self) -> dict[str, object]:
        """Return everything but the video and the declared files themselves, ready to be sent."""
        parsed = {stem: self._artifact(stem) for stem in _KNOWN[:4]}
        reports = {
            "sync": self._artifact("sync-report"),
            "caption": self._artifact(self._caption),
        }
        self.video_name()
        files = [self._described(each) for each in self.manifest.files]
        found = [Problem(name=name, problem=why) for name, why in self._problems.items()]
        problems = [
            {"name": each.name, "problem": each.problem}
            for each in (*self.manifest.problems, *found)
        ]
        told = {"prompt": self.manifest.prompt, "files": files, "problems": problems}
        return {**parsed, "reports": reports, **told}

    def open_artifact(self, name: str) -> tuple[RootedFile, Kind]:
        """Open a file that may be served: a known name, or one that the manifest declares."""
        if _ATTEMPT.fullmatch(name):
            return self._directory.open_file(name), "json"
        for each in self.manifest.files:
            if each.path == name:
                return self._directory.open_file(name), each.kind
        message = "this run serves no file of that name"
        raise NotFound(message, fix=f"declare it in the run's {MANIFEST}")

    def video_name(self) -> str | None:
        """Return which file is the video, relative to the directory.

        The one asked for, else the manifest's, else `video.mp4`, else the only one there. One that
        was named and is missing is not replaced by another: nobody shall judge the wrong video.
        """
        return self._video

    def open_video(self) -> RootedFile:
        """Open the video; raise FileMissing when there is none."""
        name = self.video_name()
        if name is None:
            message = "this run has no video"
            raise FileMissing(message, fix=f"put a {VIDEO} there, or name one in {MANIFEST}")
        return self._directory.open_file(name)

    # --- how it looks ---------------------------------------------------------------------------

    @cached_property
    def _video(self) -> str | None:
        named = self._asked or self.manifest.video
        if named is not None:
            return self._usable_video(named)
        if self._exists(VIDEO):
            return self._usable_video(VIDEO)
        there = [each.name for each in self._entries if extension(each.name) in VIDEO_TYPES]
        if len(there) > 1:
            self._problems[MANIFEST] = f"should name the video: there are {len(there)} here"
        return there[0] if len(there) == 1 and _is_text(there[0]) else None

    def _usable_video(self, name: str) -> str | None:
        if extension(name) not in VIDEO_TYPES:
            self._problems[name] = "is not a video that browsers play"
            return None
        return name if self._stat(name, note=True) is not None else None

    @cached_property
    def _caption(self) -> str:
        return next(
            (stem for stem in ("caption-report", "caption-quality") if self._chosen(stem)),
            "caption-report",
        )

    @cached_property
    def _entries(self) -> list[Entry]:
        try:
            return self._directory.entries()
        except (StorageError, TooLarge) as exc:
            self._problems["."] = exc.message
            return []

    def _chosen(self, stem: str) -> str | None:
        """Return the file that counts: the one without an attempt, else the highest attempt."""
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

    def _artifact(self, stem: str) -> object:
        """Return the parsed content of the file that counts; what is wrong with it is noted."""
        if stem not in self._read:
            self._read[stem] = self._parsed(self._chosen(stem))
        return self._read[stem]

    def _parsed(self, name: str | None) -> object:
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
        """Return whether something has that name, be it usable or not."""
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
                self._problems[name] = why_not(exc)
            return None

    def _seen(self, name: str | None) -> SeenFile | None:
        found = self._stat(name) if name else None
        return self._file(name, found) if name and found else None

    def _file(self, name: str, found: RootedStat | Entry) -> SeenFile:
        # A name that is not text must not keep the record from being written.
        path = f"{self.path}/{name}".encode("utf-8", "backslashreplace").decode()
        return SeenFile(path=path, size_bytes=found.size, mtime_ns=found.mtime_ns)

    def _described(self, file: Declared) -> dict[str, object]:
        state, size = "ok", None
        try:
            with self._directory.open_file(file.path) as opened:
                size = opened.stat.size
        except FileMissing:
            state = "missing"
        except OncewardError as exc:
            state = "refused"
            self._problems[file.path] = why_not(exc)
        return {
            "name": file.path,
            "label": file.label,
            "kind": file.kind,
            "sizeBytes": size,
            "state": state,
        }


def _inside(path: Path, video: str) -> str:
    """Return a video's name within the run; what lies elsewhere stays as it is and is refused."""
    whole = PurePath(video)
    if whole.is_absolute():
        with suppress(InvalidArgument):  # It cannot be a path at all.
            if found := contained(str(whole.parent), [path]):
                return str(found[1] / whole.name)
    return video


def _is_text(name: str) -> bool:
    return name == name.encode("utf-8", "replace").decode()

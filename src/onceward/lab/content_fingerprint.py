"""Content fingerprint: detect whether the content of a run's directory has changed.

Other programs write fingerprints into the same file, with times as floats. Pure: reads no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypedDict


class FileFingerprint(TypedDict):
    """Path, size and mtime of one file in a fingerprint."""

    path: str
    sizeBytes: int
    mtimeMs: int


class RunFingerprint(TypedDict, total=False):
    """Distinguishes a run from a later one in the same directory."""

    video: FileFingerprint
    script: FileFingerprint
    files: list[FileFingerprint]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """The current path, size and mtime of one file."""

    path: str
    size_bytes: int
    mtime_ns: int

    def to_record(self) -> FileFingerprint:
        """Return the file's part of a fingerprint."""
        milliseconds = self.mtime_ns // 1_000_000
        return FileFingerprint(path=self.path, sizeBytes=self.size_bytes, mtimeMs=milliseconds)

    def matches(self, recorded: object) -> bool:
        """Return whether a record has this name, size and mtime in milliseconds.

        The directory is not compared: a record may name it through a link.
        """
        if not isinstance(recorded, Mapping):
            return False
        path, mtime = recorded.get("path"), recorded.get("mtimeMs")
        if not isinstance(path, str) or PurePath(path).name != PurePath(self.path).name:
            return False
        return recorded.get("sizeBytes") == self.size_bytes and self._is_time(mtime)

    def _is_time(self, mtime: object) -> bool:
        if isinstance(mtime, bool) or not isinstance(mtime, int | float):
            return False
        seconds, rest = divmod(self.mtime_ns, 10**9)
        # As a float, which cannot represent nanoseconds, it may round up to the next millisecond.
        as_float = seconds * 1000 + rest / 1e6
        return math.isfinite(mtime) and math.floor(mtime) in (
            self.mtime_ns // 1_000_000,
            math.floor(as_float),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFileStates:
    """The current state of the files that a fingerprint covers."""

    video: FileState | None
    script: FileState | None
    #: Sorted by path; None if video and script suffice.
    files: Sequence[FileState] | None

    def to_record(self) -> RunFingerprint:
        """Return the fingerprint; missing files are left out."""
        found: RunFingerprint = {}
        if self.video is not None:
            found["video"] = self.video.to_record()
        if self.script is not None:
            found["script"] = self.script.to_record()
        if self.files is not None:
            found["files"] = [each.to_record() for each in self.files]
        return found

    def matches(self, recorded: Mapping[str, Any]) -> bool:
        """Return whether a recorded fingerprint matches these files."""
        for now, then in ((self.video, "video"), (self.script, "script")):
            before = recorded.get(then)
            if before is None and now is None:
                continue
            if now is None or not now.matches(before):
                return False
        # Without video and script, the original Lab records an empty fingerprint.
        return not recorded or self._are_files(recorded.get("files"))

    def _are_files(self, recorded: object) -> bool:
        if self.files is None or not isinstance(recorded, list):
            return self.files is None and recorded is None
        pairs = zip(self.files, recorded, strict=False)
        return len(self.files) == len(recorded) and all(
            now.matches(then) and then.get("path") == now.path for now, then in pairs
        )

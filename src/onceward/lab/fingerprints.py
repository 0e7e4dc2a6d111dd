"""Fingerprints: what tells the content of a run's directory from other content in the same place.

Other programs write them into the same file, with times as floats. Pure: reads no files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypedDict


class FilePrint(TypedDict):
    """One file as a fingerprint records it."""

    path: str
    sizeBytes: int
    mtimeMs: int


class Fingerprint(TypedDict, total=False):
    """What tells a run from a later one in the same directory."""

    video: FilePrint
    script: FilePrint
    files: list[FilePrint]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFile:
    """One file as it is now."""

    path: str
    size_bytes: int
    mtime_ns: int

    def to_record(self) -> FilePrint:
        """Return the file as a fingerprint records it."""
        whole = self.mtime_ns // 1_000_000
        return FilePrint(path=self.path, sizeBytes=self.size_bytes, mtimeMs=whole)

    def matches(self, recorded: object) -> bool:
        """Say whether a record has this name, this size and this time in whole milliseconds.

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
        # As a float, which has no room for the last nanoseconds, it may be the next millisecond.
        as_float = seconds * 1000 + rest / 1e6
        return math.isfinite(mtime) and math.floor(mtime) in (
            self.mtime_ns // 1_000_000,
            math.floor(as_float),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFiles:
    """The files of a directory that count, as they are now."""

    video: SeenFile | None
    script: SeenFile | None
    #: By path; None where video and script are enough.
    files: Sequence[SeenFile] | None

    def to_record(self) -> Fingerprint:
        """Return the fingerprint; what is not there is left out."""
        found: Fingerprint = {}
        if self.video is not None:
            found["video"] = self.video.to_record()
        if self.script is not None:
            found["script"] = self.script.to_record()
        if self.files is not None:
            found["files"] = [each.to_record() for each in self.files]
        return found

    def matches(self, recorded: Mapping[str, Any]) -> bool:
        """Say whether a recorded fingerprint is of these files."""
        for now, then in ((self.video, "video"), (self.script, "script")):
            before = recorded.get(then)
            if before is None and now is None:
                continue
            if now is None or not now.matches(before):
                return False
        # Where there is neither video nor script, the original Lab records nothing at all.
        return not recorded or self._are_files(recorded.get("files"))

    def _are_files(self, recorded: object) -> bool:
        if self.files is None or not isinstance(recorded, list):
            return self.files is None and recorded is None
        pairs = zip(self.files, recorded, strict=False)
        return len(self.files) == len(recorded) and all(
            now.matches(then) and then.get("path") == now.path for now, then in pairs
        )

"""Manifest: parse a run's optional `lab.json`, and list the file kinds that the Lab shows.

Owns the reading of JSON that agents wrote, and the allow-list of kinds and content types. An
invalid manifest, or entry in it, is reported as a problem; the valid rest is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

import orjson

from onceward.errors import FileMissing, NotWritable, OncewardError, TooLarge, WrongPath
from onceward.system.safe_paths import RootedDirectory

Kind: TypeAlias = Literal["text", "markdown", "image", "json", "video"]

MANIFEST: Final = "lab.json"
MANIFEST_BYTES_MAX: Final = 1024 * 1024
DECLARED_FILES_MAX: Final = 50
DECLARED_PATH_BYTES_MAX: Final = 1024
TITLE_CHARACTERS_MAX: Final = 500
PROMPT_CHARACTERS_MAX: Final = 100_000
#: Deeper JSON could be parsed but not serialized again.
DEPTH_MAX: Final = 100

IMAGE_TYPES: Final[Mapping[str, str]] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "avif": "image/avif",
}
VIDEO_TYPES: Final[Mapping[str, str]] = {"mp4": "video/mp4", "webm": "video/webm"}
_TEXT: Final = (
    *("txt", "log", "json", "jsonl", "csv", "tsv", "yaml", "yml", "toml", "ini", "diff", "patch"),
    *("py", "js", "ts", "html", "css", "xml", "sql", "sh", "rs", "go", "java", "c", "h", "cpp"),
    "rb",
)
#: The default kind of a file by its extension.
KIND_OF_EXTENSION: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_TEXT, "text"),
    **dict.fromkeys(("md", "markdown"), "markdown"),
    **dict.fromkeys(IMAGE_TYPES, "image"),
}
_DECLARABLE: Final[Mapping[object, Kind]] = {
    "text": "text",
    "markdown": "markdown",
    "image": "image",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactProblem:
    """A problem with a file of a run, shown to people; it does not block the import."""

    #: Name of the file.
    name: str
    #: A sentence without its subject, which is the name: `is not valid JSON: …`.
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredArtifact:
    """One file declared in the manifest."""

    #: Path relative to the run's directory; also its name in addresses.
    path: str
    #: The label on the page.
    label: str
    #: How the page shows it.
    kind: Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The content of `lab.json`; empty if there is none."""

    #: Whether the file exists, valid or not.
    is_present: bool = False
    title: str | None = None
    topic: str | None = None
    #: The prompt of the agent.
    prompt: str | None = None
    #: Path of the run's video.
    video: str | None = None
    files: tuple[DeclaredArtifact, ...] = ()
    problems: tuple[ArtifactProblem, ...] = ()


def extension(name: str) -> str:
    """Return the extension of a file name, in lower case and without the dot."""
    return PurePosixPath(name).suffix.removeprefix(".").lower()


def content_type(name: str, kind: Kind) -> str:
    """Return the content type of a file by its kind; never a type that browsers execute."""
    if kind == "json":
        return "application/json"
    if kind in ("image", "video"):
        types = IMAGE_TYPES if kind == "image" else VIDEO_TYPES
        return types.get(extension(name), "application/octet-stream")
    return "text/plain; charset=utf-8"


def display_text(value: object, *, characters_max: int = TITLE_CHARACTERS_MAX) -> str | None:
    """Return a text trimmed and truncated for display; None if it is empty or not text."""
    return value.strip()[:characters_max].rstrip() or None if isinstance(value, str) else None


def problem_text(exc: OncewardError) -> str:
    """Return why a file cannot be shown, as a sentence without its subject."""
    match exc:
        case FileMissing():
            return "does not exist"
        case WrongPath():
            return "is a link or not a regular file, so it is not read"
        case NotWritable():
            return "cannot be read; check its owner and mode"
        case TooLarge():
            return "is too large to be shown"
        case _:
            return f"could not be read: {exc.message}"


def read_json(
    directory: RootedDirectory, name: str, *, bytes_max: int
) -> tuple[object, str | None]:
    """Return the parsed content and None, or None and the problem. Raises FileMissing only."""
    try:
        data = directory.read(name, bytes_max=bytes_max)
        # Some editors add a byte order mark, which JSON does not allow.
        value: object = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except FileMissing:
        raise
    except TooLarge:
        return None, f"is larger than {bytes_max // (1024 * 1024)} MiB and was not read"
    except OncewardError as exc:
        return None, problem_text(exc)
    except orjson.JSONDecodeError as exc:
        return None, f"is not valid JSON: {exc}"
    if _is_deeper(value, DEPTH_MAX):
        return None, f"is nested more than {DEPTH_MAX} levels deep and was not read"
    return value, None


def read_manifest(directory: RootedDirectory) -> Manifest:
    """Return the manifest of a run, with its problems."""
    try:
        value, problem = read_json(directory, MANIFEST, bytes_max=MANIFEST_BYTES_MAX)
    except FileMissing:
        return Manifest()
    if problem is None and not isinstance(value, dict):
        problem = "must be a JSON object"
    if problem is not None:
        return Manifest(
            is_present=True, problems=(ArtifactProblem(name=MANIFEST, problem=problem),)
        )
    assert isinstance(value, dict)
    return _ManifestParser().manifest(value)


class _ManifestParser:
    """Parses a manifest and collects its problems."""

    def __init__(self) -> None:
        self._problems: list[ArtifactProblem] = []

    def manifest(self, value: Mapping[str, object]) -> Manifest:
        title, topic = self._text(value, "title"), self._text(value, "topic")
        prompt = self._text(value, "prompt", characters_max=PROMPT_CHARACTERS_MAX)
        return Manifest(
            is_present=True,
            title=title,
            topic=topic,
            prompt=prompt,
            video=self._video(value.get("video")),
            files=self._files(value.get("files")),
            problems=tuple(self._problems),
        )

    def _note(self, problem: str) -> None:
        self._problems.append(ArtifactProblem(name=MANIFEST, problem=problem))

    def _text(
        self, value: Mapping[str, object], key: str, *, characters_max: int = TITLE_CHARACTERS_MAX
    ) -> str | None:
        found = value.get(key)
        if found is not None and not isinstance(found, str):
            self._note(f"has a {key} that is not text")
        return display_text(found, characters_max=characters_max)

    def _video(self, found: object) -> str | None:
        if found is None:
            return None
        path = self._path(found, "video")
        if path is None:
            return None
        if extension(path) not in VIDEO_TYPES:
            self._note(f"video: {_brief(path)} must end in {_endings(VIDEO_TYPES)}")
            return None
        return path

    def _files(self, found: object) -> tuple[DeclaredArtifact, ...]:
        if found is None:
            return ()
        if not isinstance(found, list):
            self._note("has `files` that are not a list")
            return ()
        if len(found) > DECLARED_FILES_MAX:
            self._note(f"declares more than {DECLARED_FILES_MAX} files; the rest is ignored")
        declared: dict[str, DeclaredArtifact] = {}
        for number, each in enumerate(found[:DECLARED_FILES_MAX]):
            file = self._file(each, f"files[{number}]")
            if file is not None and file.path in declared:
                self._note(f"files[{number}]: {_brief(file.path)} is declared twice")
            elif file is not None:
                declared[file.path] = file
        return tuple(declared.values())

    def _file(self, found: object, where: str) -> DeclaredArtifact | None:
        fields = found if isinstance(found, dict) else {"path": found}
        path = self._path(fields.get("path"), where)
        if path is None:
            return None
        declared_kind = fields.get("kind")
        kind = KIND_OF_EXTENSION.get(extension(path))
        if declared_kind is not None:
            kind = _DECLARABLE.get(declared_kind) if isinstance(declared_kind, str) else None
            if kind is None:
                self._note(f"{where}: kind must be {_endings(_DECLARABLE, dot='')}")
                return None
        if kind is None:
            self._note(f"{where}: {_brief(path)} has an unknown extension, so it needs a kind")
            return None
        if kind == "image" and extension(path) not in IMAGE_TYPES:
            self._note(f"{where}: {_brief(path)} is not an image type that browsers show")
            return None
        label = fields.get("label")
        if label is not None and not isinstance(label, str):
            self._note(f"{where}: its label is not text")
        return DeclaredArtifact(path=path, label=display_text(label) or path, kind=kind)

    def _path(self, found: object, where: str) -> str | None:
        """Return a declared path in normalized form, or None if it leads outside the run."""
        if not isinstance(found, str):
            self._note(f"{where}: its path is not text")
            return None
        pure = PurePosixPath(found)
        if not pure.parts or pure.is_absolute() or ".." in pure.parts or "\0" in found:
            self._note(f"{where}: {_brief(found)} is not the path of a file inside the run")
            return None
        if len(found.encode()) > DECLARED_PATH_BYTES_MAX:
            self._note(f"{where}: {_brief(found)} is too long")
            return None
        return pure.as_posix()


def _is_deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects are nested deeper than `levels`, without recursion."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [
            child
            for each in layer
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
    return bool(layer)


def _endings(names: Mapping[object, object] | Mapping[str, object], *, dot: str = ".") -> str:
    return " or ".join(f"{dot}{name}" for name in names)


def _brief(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")

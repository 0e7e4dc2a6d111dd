"""Run files: read a run's ledger page by page, and the artifacts that its receipts name.

Text of agents is untrusted: it is sent as plain text, cut if it is long, and only from files that a
receipt of the run names. Files are opened below the workspace only, without following links.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from onceward.agents.artifacts import check_path
from onceward.console.responses import extended, moment
from onceward.console.run_history import RunHistory
from onceward.errors import FileMissing, InvalidCursor, NotFound, OncewardError
from onceward.journal.byte_cursor import parse_cursor
from onceward.orchestrator.ledger import LedgerLine, ledger_lines
from onceward.orchestrator.ledger_replay import RECEIVED, CommandState
from onceward.system.safe_paths import RootedDirectory, RootedFile

T = TypeVar("T")
#: How many bytes of a ledger one page reads; a longer line is a page of its own.
PAGE_BYTES_MAX: Final = 1024 * 1024
#: How many characters of a damaged line are shown.
DAMAGED_CHARACTERS_MAX: Final = 2_000
#: How many bytes of an artifact are shown, and the largest artifact that is verified.
TEXT_BYTES_MAX: Final = 256 * 1024
CHECKED_BYTES_MAX: Final = 1024 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerItem:
    """A line of a ledger; a damaged one is shown as text."""

    seq: int | None
    at: str | None
    kind: str | None
    line: dict[str, Any] | str
    is_damaged: bool
    problem: str | None
    #: Where the line begins in its file, and its length, in bytes.
    offset: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerPage:
    """Records of a ledger, in the order in which they were written."""

    items: list[LedgerItem]
    #: Byte offset of the next page; None at the end.
    following: str | None


def journal_page(file: RootedFile, after: str | None, limit: int) -> LedgerPage:
    """Return the records after a byte offset; reads at most one page."""
    start = _start(file, after)
    items: list[LedgerItem] = []
    for line in ledger_lines(file, start, file.stat.size):
        if len(items) == limit or line.offset - start >= PAGE_BYTES_MAX:
            return LedgerPage(items=items, following=str(line.offset))
        if line.record is not None or line.problem is not None:
            items.append(_item(line))
    return LedgerPage(items=items, following=None)


def _start(file: RootedFile, after: str | None) -> int:
    start = parse_cursor(after or "0")
    if start > file.stat.size or (start and file.read(start - 1, 1) != b"\n"):
        message = f"after: no record of this ledger begins at byte {start}"
        raise InvalidCursor(message, fix="omit `after` to start at the beginning", field="after")
    return start


def _item(line: LedgerLine) -> LedgerItem:
    text = line.raw[: 4 * DAMAGED_CHARACTERS_MAX].decode(errors="replace")
    known = line.record or {"kind": "damaged"}
    return LedgerItem(
        seq=_typed(int, known.get("seq")),
        at=_typed(str, known.get("at")),
        kind=_typed(str, known.get("kind")),
        line=text[:DAMAGED_CHARACTERS_MAX] if line.record is None else line.record,
        is_damaged=line.record is None,
        problem=line.problem,
        offset=line.offset,
        bytes=len(line.raw),
    )


def _typed(kind: type[T], value: object) -> T | None:
    """Return a value of this type; None for another, which no run writes."""
    return value if isinstance(value, kind) else None


# --- artifacts -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedFile:
    """What a receipt says of a file."""

    sha256: str | None
    size: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentFile(RecordedFile):
    """A file as it is now."""

    #: None if it cannot be shown.
    text: str | None = None
    #: Why it cannot be shown or verified.
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactContent(CurrentFile):
    """A file that a receipt names, as recorded and as it is now."""

    path: str
    step: int
    recorded: RecordedFile
    is_as_recorded: bool
    as_of: str


def artifact_of(root: Path, step: int, path: str, recorded: RecordedFile) -> ArtifactContent:
    """Return a file that a receipt names, as recorded and as it is now. May take long."""
    is_same = False
    try:
        check_path(path)
        with RootedDirectory.open(root) as directory, directory.open_file(path) as file:
            found = _current_file(file)
        is_same = (found.sha256, found.size) == (recorded.sha256, recorded.size)
    except FileMissing:
        found = CurrentFile(sha256=None, size=None, reason="it no longer exists")
    except OncewardError as exc:
        found = CurrentFile(sha256=None, size=None, reason=exc.message)
    return extended(
        ArtifactContent,
        found,
        path=path,
        step=step,
        recorded=recorded,
        is_as_recorded=is_same,
        as_of=moment(),
    )


def recorded_of(history: RunHistory, step: int, path: str) -> RecordedFile:
    """Return a step's receipt entry of a file; NotFound if the receipt does not name it."""
    asked = history.state.commands
    named = _named(asked[step - 1]) if 0 < step <= len(asked) else []
    for each in named:
        if isinstance(each, dict) and each.get("path") == path:
            return RecordedFile(
                sha256=_typed(str, each.get("sha256")), size=_typed(int, each.get("size"))
            )
    message = f"no receipt of step {step} names this file"
    raise NotFound(message, fix="choose one from the run's artifacts", field="path")


def _named(asked: CommandState) -> list[Any]:
    named = (asked.event or {}).get("artifacts") if asked.state == RECEIVED else None
    return named if isinstance(named, list) else []


def _current_file(file: RootedFile) -> CurrentFile:
    """Return a file's current checksum and size, and its text if it can be shown."""
    size = file.stat.size
    if size > CHECKED_BYTES_MAX:
        large = "it is too large to verify here; `onceward runs verify` reads all of it"
        return CurrentFile(sha256=None, size=size, reason=large)
    hashed, start = hashlib.sha256(), file.read(0, TEXT_BYTES_MAX)
    read = 0
    while read <= CHECKED_BYTES_MAX and (chunk := file.read(read, _CHUNK_BYTES)):
        hashed.update(chunk)
        read += len(chunk)
    text, reason = _text(start, read)
    return CurrentFile(sha256=hashed.hexdigest(), size=read, text=text, reason=reason)


def _text(start: bytes, size: int) -> tuple[str | None, str | None]:
    if size > TEXT_BYTES_MAX:
        return None, f"it has {size} bytes, and up to {TEXT_BYTES_MAX} are shown"
    try:
        text = start.decode()
    except UnicodeDecodeError:
        return None, "it is not text: its bytes are not UTF-8"
    if "\0" in text:
        return None, "it is not text: it holds NUL characters"
    return text, None

"""Ledger: everything that happened to a run, in order, each line with a checksum.

Append-only and on disk before the effect that it announces. A torn last line is passed over, a
damaged one is named. Knows nothing of what the records mean.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from onceward.errors import FileMissing
from onceward.journal import Journal, Record
from onceward.journal.lines import Readable, blocks
from onceward.keys import compact_json
from onceward.seams import Clock, Files, timestamp

#: The checksum is the last field of every line, so that it can be checked without decoding.
_SUM: Final = b',"sum":"'
_SUM_BYTES: Final = 16
_TAIL_BYTES: Final = len(_SUM) + _SUM_BYTES + len(b'"}')
_CHUNK_BYTES: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Damaged:
    """A complete line that is not what was written."""

    #: Byte offset of the line.
    offset: int
    problem: str


class Line(NamedTuple):
    """A complete line; a tuple, because one is made for every record. A blank one says nothing."""

    #: Byte offset of the line, and of what follows it.
    offset: int
    end: int
    #: Its bytes, without the newline.
    raw: bytes
    record: Record | None
    #: Why it is no record.
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """What a ledger holds."""

    records: list[Record]
    damaged: list[Damaged]
    #: Bytes behind the last newline: a writer died in the middle of them.
    torn_bytes: int


class Ledger:
    """The ledger of one run."""

    def __init__(self, path: Path, *, files: Files, clock: Clock) -> None:
        """Name the file; it need not exist."""
        self.path = path
        self._files, self._clock = files, clock
        self._synced = Journal(path, files=files, clock=clock)
        self._unsynced = Journal(path, sync=False, files=files, clock=clock)

    def append(self, seq: int, kind: str, fields: Record, *, sync: bool = True) -> Record:
        """Add a record and return it; on disk when this returns, unless that does not matter."""
        at = timestamp(self._clock.now())
        record: Record = {"seq": seq, "at": at, "kind": kind, **fields}
        (self._synced if sync else self._unsynced).append(_sealed(record))
        return record

    def read(self) -> Read:
        """Return all records, and what is damaged; FileMissing when there is no ledger."""
        records: list[Record] = []
        damaged: list[Damaged] = []
        with closing(self._files.open_read(self.path)) as file:
            size, position = file.stat().size, 0
            for line in lines_of(file, 0, size):
                if line.record is not None:
                    records.append(line.record)
                elif line.problem is not None:
                    damaged.append(Damaged(offset=line.offset, problem=line.problem))
                position = line.end
        return Read(records=records, damaged=damaged, torn_bytes=size - position)

    def mend(self, read: Read) -> None:
        """Cut off a line whose writer died; only for who holds the run.

        It was never acknowledged. Left there, a line that lacks nothing but its newline would
        become a record when the next one is appended, beside another of the same number.
        """
        if not read.torn_bytes:
            return
        with closing(self._files.open_append(self.path)) as file:
            file.truncate(file.stat().size - read.torn_bytes)
            file.sync()

    def has_begun(self) -> bool:
        """Say whether its first record was written whole; the rest is not looked at."""
        with closing(self._files.open_read(self.path)) as file:
            offset = 0
            while chunk := file.read(offset, _CHUNK_BYTES):
                if b"\n" in chunk:
                    return True
                offset += len(chunk)
        return False

    def exists(self) -> bool:
        """Say whether there is such a ledger."""
        try:
            self._files.open_read(self.path).close()
        except FileMissing:
            return False
        return True


def lines_of(file: Readable, start: int, end: int) -> Iterator[Line]:
    """Yield the complete lines between two places, of which the first is the start of a line."""
    for offset, block, length in blocks(file, start, end):
        begin = 0
        while begin < length:
            stop = block.index(b"\n", begin)
            raw = block[begin:stop]
            found = _decode(raw)
            said = (None, found) if isinstance(found, str) else (found, None)
            yield Line(offset + begin, offset + stop + 1, raw, *said)
            begin = stop + 1


def seal_line(record: Record) -> bytes:
    """Return the line of a record as the file holds it."""
    return compact_json(_sealed(record)) + b"\n"


def _sealed(record: Record) -> Record:
    return {**record, "sum": _checksum(compact_json(record)[:-1])}


def _decode(line: bytes) -> Record | str | None:
    """Return the record of a line, or why it is none; None for a blank one."""
    if not line.strip():
        return None
    body, tail = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    if not tail.startswith(_SUM):
        return "it has no checksum"
    if tail[len(_SUM) : -2].decode("ascii", "replace") != _checksum(body):
        return "its checksum does not fit"
    try:
        record: Record = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        return f"it is not JSON: {exc.msg}"
    del record["sum"]
    return record


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_SUM_BYTES]

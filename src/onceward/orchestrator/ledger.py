"""Ledger: the append-only log of a run, one JSON record with a checksum per line.

A write-ahead log: a record is durable before the effect that it announces. A torn last line is
ignored, damaged lines are reported. Knows nothing of the records' meaning.
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
from onceward.journal.line_scanner import ByteReader, blocks
from onceward.keys import compact_json
from onceward.system import Clock, Files, timestamp

#: The checksum is the last field of every line, so that it can be checked without decoding.
_SUM: Final = b',"sum":"'
_SUM_BYTES: Final = 16
_TAIL_BYTES: Final = len(_SUM) + _SUM_BYTES + len(b'"}')
_CHUNK_BYTES: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class DamagedLine:
    """A complete line whose content is damaged."""

    #: Byte offset of the line.
    offset: int
    problem: str


class LedgerLine(NamedTuple):
    """A complete line. A tuple for speed. A blank line has neither record nor problem."""

    #: Byte offsets of the line and of the next one.
    offset: int
    end: int
    #: Its bytes, without the newline.
    raw: bytes
    record: Record | None
    #: Why it is not a valid record.
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerContents:
    """The records of a ledger, and its damage."""

    records: list[Record]
    damaged: list[DamagedLine]
    #: Bytes after the last newline: a torn line of a writer that died.
    torn_bytes: int


class Ledger:
    """The ledger of one run."""

    def __init__(self, path: Path, *, files: Files, clock: Clock) -> None:
        """Use the file at `path`, which need not exist."""
        self.path = path
        self._files, self._clock = files, clock
        self._synced = Journal(path, files=files, clock=clock)
        self._unsynced = Journal(path, sync=False, files=files, clock=clock)

    def append(self, seq: int, kind: str, fields: Record, *, sync: bool = True) -> Record:
        """Append a record and return it; with `sync` it is durable on return."""
        at = timestamp(self._clock.now())
        record: Record = {"seq": seq, "at": at, "kind": kind, **fields}
        (self._synced if sync else self._unsynced).append(_sealed(record))
        return record

    def read(self) -> LedgerContents:
        """Return all records and the damaged lines; FileMissing if there is no ledger."""
        records: list[Record] = []
        damaged: list[DamagedLine] = []
        with closing(self._files.open_read(self.path)) as file:
            size, position = file.stat().size, 0
            for line in ledger_lines(file, 0, size):
                if line.record is not None:
                    records.append(line.record)
                elif line.problem is not None:
                    damaged.append(DamagedLine(offset=line.offset, problem=line.problem))
                position = line.end
        return LedgerContents(records=records, damaged=damaged, torn_bytes=size - position)

    def truncate_torn_line(self, read: LedgerContents) -> None:
        """Remove a torn last line; call only while holding the run's lock.

        The line was never acknowledged. If only its newline were missing, the next append would
        turn it into a second record with the same number.
        """
        if not read.torn_bytes:
            return
        with closing(self._files.open_append(self.path)) as file:
            file.truncate(file.stat().size - read.torn_bytes)
            file.sync()

    def has_first_record(self) -> bool:
        """Return whether the first line is complete; reads no further."""
        with closing(self._files.open_read(self.path)) as file:
            offset = 0
            while chunk := file.read(offset, _CHUNK_BYTES):
                if b"\n" in chunk:
                    return True
                offset += len(chunk)
        return False

    def exists(self) -> bool:
        """Return whether the ledger exists."""
        try:
            self._files.open_read(self.path).close()
        except FileMissing:
            return False
        return True


def ledger_lines(file: ByteReader, start: int, end: int) -> Iterator[LedgerLine]:
    """Yield the complete lines between two offsets; `start` must be the start of a line."""
    for offset, block, length in blocks(file, start, end):
        begin = 0
        while begin < length:
            stop = block.index(b"\n", begin)
            raw = block[begin:stop]
            found = _decode(raw)
            record, problem = (None, found) if isinstance(found, str) else (found, None)
            yield LedgerLine(offset + begin, offset + stop + 1, raw, record, problem)
            begin = stop + 1


def seal_line(record: Record) -> bytes:
    """Return the line of a record as it is in the file."""
    return compact_json(_sealed(record)) + b"\n"


def _sealed(record: Record) -> Record:
    return {**record, "sum": _checksum(compact_json(record)[:-1])}


def _decode(line: bytes) -> Record | str | None:
    """Return the record of a line, or the problem as a text; None for a blank line."""
    if not line.strip():
        return None
    body, tail = line[:-_TAIL_BYTES], line[-_TAIL_BYTES:]
    if not tail.startswith(_SUM):
        return "it has no checksum"
    if tail[len(_SUM) : -2].decode("ascii", "replace") != _checksum(body):
        return "its checksum does not match"
    try:
        record: Record = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        return f"it is not JSON: {exc.msg}"
    del record["sum"]
    return record


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_SUM_BYTES]

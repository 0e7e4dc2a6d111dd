"""Journal: an append-only JSON Lines file that several processes can write and read.

Appends, reads by byte cursor, waits and verifies. A record is one line, written in one call under
an exclusive lock, then synced. A returned cursor only covers data that is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Final, TypeVar

from onceward.errors import (
    FileMissing,
    InvalidArgument,
    InvalidCursor,
    OutcomeUnknown,
    StorageError,
)
from onceward.journal.byte_cursor import (
    START,
    PositionTags,
    check_position,
    parse_cursor,
    position_tag,
)
from onceward.journal.directory_watch import DirectoryWatch
from onceward.journal.file_lock import open_locked
from onceward.journal.line_scanner import count_lines, last_line_end
from onceward.journal.models import Appended, JournalLine, JournalVerification, Record, RecordPage
from onceward.journal.page_scan import (
    AllLines,
    LineSelector,
    RecordFilter,
    check_limit,
    check_match,
    check_wait,
    scan,
)
from onceward.journal.verification import verify_file
from onceward.keys import compact_json
from onceward.system import Clock, Files, FileStat, OpenFile, SystemClock, SystemFiles
from onceward.system.crash_points import crash_point

T = TypeVar("T")
#: One append is one write, and the kernel takes at most 2 GiB in one.
APPEND_BYTES_MAX: Final = 1024**3


class Journal:
    """A journal file; keeps no open descriptor, so it survives forks and file replacement."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        valid: Callable[[Record], bool] | None = None,
        sync: bool = True,
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set the path; the file need not exist.

        Args:
            path: The file.
            valid: Returns whether a JSON object is a valid record; other lines are skipped.
            sync: Whether appends and returned cursors wait for the disk.
            files: The file system. Default: the machine's.
            clock: The clock for waiting.

        """
        self.path: Final = Path(path)
        self._valid = valid
        self._sync = sync
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        #: Identity of the file whose name is known to be on disk.
        self._named: tuple[int, int] | None = None

    def append(self, record: Mapping[str, object], *more: Mapping[str, object]) -> Appended:
        """Append one or more records in one write; durable when this returns.

        Raises:
            NotCanonical: A value is not plain JSON; nothing was written.
            DiskFull, NotWritable: The system rejected it; nothing was written.
            OutcomeUnknown: Only part was written, or it may not be on disk. Readers never see part
                of a record; search for yours before appending it again.

        """
        lines = b"".join(_line(index, each) for index, each in enumerate((record, *more)))
        if len(lines) > APPEND_BYTES_MAX:
            message = (
                f"records: {len(lines)} bytes are too many for one append; nothing was written"
            )
            fix = f"append at most {APPEND_BYTES_MAX} bytes at once"
            raise InvalidArgument(message, fix=fix, field="records")
        file, before = open_locked(self.path, self._files)
        try:
            try:
                is_torn = before.size > 0 and file.read(before.size - 1, 1) != b"\n"
                start = before.size + is_torn
                crash_point("journal.append.before_write")
                # Ends the torn line of a writer that died: readers skip it, ours stays intact.
                self._write(file, b"\n" + lines if is_torn else lines)
                crash_point("journal.append.after_write")
            finally:
                # Before the sync: the kernel groups concurrent syncs, unless the lock serialises
                # them. In `finally`: closing alone keeps the lock if a forked child has a copy.
                file.unlock()
            crash_point("journal.append.after_unlock")
            try:
                self._make_durable(file, before)
            except StorageError as exc:
                message = f"all records are in {self.path} but may not be on disk: {exc.message}"
                fix = f"{exc.fix}; append again only records that a read does not return"
                raise OutcomeUnknown(message, fix=fix, path=str(self.path)) from exc
            crash_point("journal.append.before_return")
            return Appended(start=str(start), end=str(start + len(lines)))
        finally:
            file.close()

    def read(
        self,
        since: str = START,
        limit: int | None = None,
        match: Mapping[str, str] | None = None,
        tag: str | None = None,
    ) -> RecordPage:
        """Return the records after a cursor, and the cursor after them.

        Args:
            since: The cursor to resume after.
            limit: The maximum number of records, up to 500.
            match: Top-level fields and their text; the cursor also moves past other lines.
            tag: The file fingerprint that was returned with `since`; a replaced or rewritten file
                raises InvalidCursor.

        Raises:
            InvalidCursor: `since` is malformed, beyond the end, not the start of a line, or does
                not match its tag.
            InvalidArgument: `limit` is not a positive integer, or `match` is malformed.

        """
        start, entries = parse_cursor(since), check_limit(limit)
        wanted = RecordFilter(match=check_match(match), valid=self._valid)
        items, end, place = self._scan(start, tag, lambda _: wanted, entries)
        return RecordPage(items=items, next_cursor=str(end), tag=place)

    def lines(
        self, since: str = START, limit: int = 500, tag: str | None = None
    ) -> list[JournalLine]:
        """Return the raw lines after a cursor: complete and not blank, records or not."""
        start, place = parse_cursor(since), tag
        assert limit > 0, limit
        while True:
            items, end, place = self._scan(start, place, AllLines, limit)
            if items or end == start:
                return items
            start = end  # One scan found only blank lines up to its limit.

    def count(
        self,
        since: str = START,
        until: str | None = None,
        *,
        tag: str | None = None,
        until_tag: str | None = None,
    ) -> int:
        """Return the number of lines between two cursors, or up to the end."""
        start, end = parse_cursor(since), None if until is None else parse_cursor(until)
        opened = self._opened(max(start, end or 0))
        if opened is None:
            return 0
        with closing(opened) as file:
            stat = file.stat()
            check_position(file, stat, start, tag)
            check_position(file, stat, end or 0, until_tag)
            return count_lines(file, start, stat.size if end is None else end)

    def tail(
        self,
        since: str = START,
        limit: int | None = None,
        match: Mapping[str, str] | None = None,
        tag: str | None = None,
        *,
        wait: float = 30.0,
    ) -> RecordPage:
        """Read like `read`, but wait up to `wait` seconds for the first record that matches."""
        deadline = self._clock.monotonic() + check_wait(wait)
        watch = DirectoryWatch(self.path.parent, self._clock)
        while True:
            page = self.read(since, limit, match, tag)
            left = deadline - self._clock.monotonic()
            if page.items or left <= 0:
                return page
            if page.next_cursor == since:
                watch.wait(left)
            since, tag = page.next_cursor, page.tag

    def end(self) -> tuple[str, str]:
        """Return the cursor after the last complete line, and its tag; new records follow it."""
        try:
            opened = self._files.open_read(self.path)
        except FileMissing:
            return START, START
        with closing(opened) as file:
            stat = file.stat()
            position = last_line_end(file, stat.size)
            self._make_durable(file, stat)
            return str(position), position_tag(file, stat, position)

    def verify(self) -> JournalVerification:
        """Check every line and report those that are not records; FileMissing without a file."""
        with closing(self._files.open_read(self.path)) as file:
            return verify_file(file, self._valid)

    def _scan(
        self,
        start: int,
        tag: str | None,
        wanted: Callable[[PositionTags], LineSelector[T]],
        limit: int | None,
    ) -> tuple[list[T], int, str]:
        """Return the selected lines after a position, the position after them, and its tag."""
        opened = self._opened(start)
        if opened is None:
            return [], 0, START
        with closing(opened) as file:
            stat = file.stat()
            check_position(file, stat, start, tag)
            places = PositionTags(file, stat)
            items, position = scan(file, start, stat.size, wanted(places), limit)
            crash_point("journal.read.before_sync")
            if position > start:
                self._make_durable(file, stat)
            crash_point("journal.read.before_return")
            return items, position, places.tag(position)

    def _opened(self, position: int) -> OpenFile | None:
        """Open it for reading; None if it is missing and `position` is the start."""
        try:
            return self._files.open_read(self.path)
        except FileMissing:
            if position:
                message = f"cursor {position} is beyond the end: {self.path} does not exist"
                raise InvalidCursor(message, since=str(position), size=0) from None
            return None

    def _write(self, file: OpenFile, data: bytes) -> None:
        written = file.write(data)
        if written != len(data):
            message = (
                f"only {written} of {len(data)} bytes were written to {self.path}: "
                "its last record is incomplete, and those of this append before it are there"
            )
            fix = "free some space, then append again those records that a read does not return"
            raise OutcomeUnknown(message, fix=fix, path=str(self.path))

    def _make_durable(self, file: OpenFile, before: FileStat) -> None:
        """Return once the content and the name of this file are on disk.

        A file that was empty before may be a new one with a reused inode.
        """
        if not self._sync:
            return
        file.sync()
        crash_point("journal.durable.after_sync")
        if before.identity != self._named or before.size == 0:
            self._files.sync_directory(self.path.parent)
            self._named = before.identity


def _line(index: int, record: object) -> bytes:
    if not isinstance(record, Mapping):
        kind = type(record).__name__
        message = f"records[{index}]: must be a JSON object, not a {kind}; nothing was written"
        raise InvalidArgument(
            message, fix='append an object such as {"id": "fb_1"}', field="records"
        )
    return compact_json(dict(record), root="record") + b"\n"

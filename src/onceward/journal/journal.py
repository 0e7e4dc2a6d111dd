"""Journal: an append-only file of JSON records, one a line, that several processes share.

Owns appending, reading by byte cursor, waiting and verifying. One record is one line is one write
under an exclusive lock, then synced; a cursor is given out only for what is on disk. Knows nothing
of what the records mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Final, TypeVar

from onceward.crash import crash_point
from onceward.errors import (
    FileMissing,
    InvalidArgument,
    InvalidCursor,
    OutcomeUnknown,
    StorageError,
)
from onceward.journal.cursor import START, Places, check_position, parse_cursor, place_tag
from onceward.journal.lines import count_lines, last_line_end
from onceward.journal.locked import open_locked
from onceward.journal.models import Appended, Line, Page, Record, Verification
from onceward.journal.scan import (
    EveryLine,
    Filter,
    Wanted,
    check_limit,
    check_match,
    check_wait,
    scan,
)
from onceward.journal.verify import verify_file
from onceward.journal.watch import Watch
from onceward.keys import compact_json
from onceward.seams import Clock, Files, FileStat, OpenFile, SystemClock, SystemFiles

T = TypeVar("T")
#: One append is one write, and the kernel takes at most 2 GiB in one.
APPEND_BYTES_MAX: Final = 1024**3


class Journal:
    """A file of records; holds no descriptor, so that it survives fork and replacement."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        valid: Callable[[Record], bool] | None = None,
        sync: bool = True,
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Name the file; it need not exist.

        Args:
            path: The file.
            valid: What makes a JSON object a record here; lines that fail it are skipped.
            sync: Whether an append, and a cursor given out, waits for the disk.
            files: The file system; the machine's unless told otherwise.
            clock: The clock for waiting.

        """
        self.path: Final = Path(path)
        self._valid = valid
        self._sync = sync
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        #: Which file's name is known to be on disk.
        self._named: tuple[int, int] | None = None

    def append(self, record: Mapping[str, object], *more: Mapping[str, object]) -> Appended:
        """Add one or more records in one write, all of them on disk when this returns.

        Raises:
            NotCanonical: A value is not plain JSON; nothing was written.
            DiskFull, NotWritable: The system refused; nothing was written.
            OutcomeUnknown: Part of it was written, or it may not be on disk. Readers never see half
                a record; look for yours before you repeat it.

        """
        lines = b"".join(_line(index, each) for index, each in enumerate((record, *more)))
        if len(lines) > APPEND_BYTES_MAX:
            message = f"records: {len(lines)} bytes are more than one append takes"
            fix = f"append at most {APPEND_BYTES_MAX} bytes at once"
            raise InvalidArgument(message, fix=fix, field="records")
        file, before = open_locked(self.path, self._files)
        try:
            try:
                is_torn = before.size > 0 and file.read(before.size - 1, 1) != b"\n"
                start = before.size + is_torn
                crash_point("journal.append.before_write")
                # Ends a line whose writer died: it is skipped, ours stays whole.
                self._write(file, b"\n" + lines if is_torn else lines)
                crash_point("journal.append.after_write")
            finally:
                # Now: the kernel groups the syncs of those who wait for it, if the lock does not.
                # And always: to close is not enough when a forked child has a copy.
                file.unlock()
            crash_point("journal.append.after_unlock")
            try:
                self._make_durable(file, before)
            except StorageError as exc:
                message = f"the record is in {self.path} but may not be on disk: {exc.message}"
                raise OutcomeUnknown(message, fix=exc.fix, path=str(self.path)) from exc
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
    ) -> Page:
        """Return the records behind a cursor, and the cursor behind them.

        Args:
            since: Where to begin; lines before it are never returned again.
            limit: How many records at the most; at most 500.
            match: Top-level fields and the text each must hold; the cursor passes all lines alike.
            tag: The tag that came with `since`; a file that was replaced or rewritten is refused.

        Raises:
            InvalidCursor: `since` is no cursor, is beyond the end, is not the start of a line, or
                does not fit its tag.
            InvalidArgument: `limit` is not a positive whole number, or `match` is malformed.

        """
        start, entries = parse_cursor(since), check_limit(limit)
        wanted = Filter(match=check_match(match), valid=self._valid)
        items, end, place = self._scan(start, tag, lambda _: wanted, entries)
        return Page(items=items, next_cursor=str(end), tag=place)

    def lines(self, since: str = START, limit: int = 500, tag: str | None = None) -> list[Line]:
        """Return the lines behind a cursor as they stand: complete, not blank, records or not."""
        start, place = parse_cursor(since), tag
        assert limit > 0, limit
        while True:
            items, end, place = self._scan(start, place, EveryLine, limit)
            if items or end == start:
                return items
            start = end  # So much of nothing that one scan gave way.

    def count(
        self,
        since: str = START,
        until: str | None = None,
        *,
        tag: str | None = None,
        until_tag: str | None = None,
    ) -> int:
        """Return how many lines there are between two cursors, or up to the end."""
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
    ) -> Page:
        """Read like `read`, but wait up to `wait` seconds for the first record that matches."""
        deadline = self._clock.monotonic() + check_wait(wait)
        watch = Watch(self.path.parent, self._clock)
        while True:
            page = self.read(since, limit, match, tag)
            left = deadline - self._clock.monotonic()
            if page.items or left <= 0:
                return page
            if page.next_cursor == since:
                watch.wait(left)
            since, tag = page.next_cursor, page.tag

    def end(self) -> tuple[str, str]:
        """Return the cursor behind the last complete line, and its tag: new records begin there."""
        try:
            opened = self._files.open_read(self.path)
        except FileMissing:
            return START, START
        with closing(opened) as file:
            stat = file.stat()
            position = last_line_end(file, stat.size)
            self._make_durable(file, stat)
            return str(position), place_tag(file, stat, position)

    def verify(self) -> Verification:
        """Read every line and say which are not records; FileMissing when there is no file."""
        with closing(self._files.open_read(self.path)) as file:
            return verify_file(file, self._valid)

    def _scan(
        self,
        start: int,
        tag: str | None,
        wanted: Callable[[Places], Wanted[T]],
        limit: int | None,
    ) -> tuple[list[T], int, str]:
        """Return what is wanted behind a position, the position behind it, and its tag."""
        opened = self._opened(start)
        if opened is None:
            return [], 0, START
        with closing(opened) as file:
            stat = file.stat()
            check_position(file, stat, start, tag)
            places = Places(file, stat)
            items, position = scan(file, start, stat.size, wanted(places), limit)
            crash_point("journal.read.before_sync")
            if position > start:
                self._make_durable(file, stat)
            crash_point("journal.read.before_return")
            return items, position, places.tag(position)

    def _opened(self, position: int) -> OpenFile | None:
        """Open it for reading; None when it is missing, and nobody has read from it."""
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
            message = f"only {written} of {len(data)} bytes went into {self.path}"
            fix = "free some space, then look for the record before appending it again"
            raise OutcomeUnknown(message, fix=fix, path=str(self.path))

    def _make_durable(self, file: OpenFile, before: FileStat) -> None:
        """Return once the content and the name of this file are on disk.

        A file that was empty before may have been removed and made anew under the same number.
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
        message = f"records[{index}]: must be a JSON object"
        raise InvalidArgument(
            message, fix='append an object such as {"id": "fb_1"}', field="records"
        )
    return compact_json(dict(record), root="record") + b"\n"

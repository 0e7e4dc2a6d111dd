"""Journal source: reads every line of a journal file as a message.

A position is the byte offset after a line and the file fingerprint there. So a file that was
replaced or rewritten is rejected instead of being read from its middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from os import PathLike
from threading import Event
from typing import Final

import orjson

from onceward.errors import InvalidCursor, StorageError
from onceward.journal import Journal
from onceward.journal.directory_watch import (
    IDLE_STEP_MILLISECONDS,
    WATCHED_SECONDS_MAX,
    DirectoryWatch,
)
from onceward.system import Clock, Files, SystemClock, SystemFiles
from onceward.workers.background_thread import background_thread
from onceward.workers.source_protocol import Item, Lag, Wake
from onceward.workers.sources.json_messages import parse_time

#: `lag` scans at most this many bytes, and reports an unknown number of messages beyond.
LAG_BYTES_MAX: Final = 64 * 1024 * 1024
START: Final = "0"


class JournalSource:
    """A journal file as a source.

    Every complete line that is not blank is a message with the line's bytes: a line that cannot be
    decoded becomes a dead letter and is not skipped. An unterminated last line is not read yet.
    Only lines that are synced to disk are returned.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        time_field: str = "createdAt",
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set the file, which need not exist, and the top-level field with a line's creation time.

        The clock is for systems without file events.
        """
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._journal = Journal(path, files=self._files, clock=self._clock)
        self._time_field = time_field

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return the lines after a position; InvalidCursor if it does not belong to this file."""
        since, tag = _parse_position(after)
        with _with_seek_hint():
            found = self._journal.lines(since, limit, tag)
        return [Item(position=f"{line.end}-{line.tag}", raw=line.raw) for line in found]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return the number of lines after `after`, up to and including `up_to`; None is start."""
        since, tag = _parse_position(after)
        until, until_tag = _parse_position(up_to)
        with _with_seek_hint():
            return self._journal.count(since, until, tag=tag, until_tag=until_tag)

    def lag(self, after: str | None) -> Lag:
        """Return the number of lines after a position, and the creation time of the first."""
        since, tag = _parse_position(after)
        messages = None
        with _with_seek_hint():
            first = self._journal.lines(since, 1, tag)
            end, end_tag = self._journal.end()
            if int(end) - int(since) <= LAG_BYTES_MAX:
                messages = self._journal.count(since, end, tag=tag, until_tag=end_tag)
        return Lag(messages=messages, oldest_at=self._created_at(first[0].raw) if first else None)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when the file grows or is replaced, while the block runs."""
        seen = self._files.stat(self._journal.path)

        def loop(stop: Event) -> None:
            nonlocal seen
            directory = self._journal.path.parent
            watch = DirectoryWatch(directory, self._clock, step_milliseconds=IDLE_STEP_MILLISECONDS)
            while not stop.is_set():
                with suppress(StorageError):  # Reading the file raises and reports it, too.
                    found = self._files.stat(self._journal.path)
                    if found != seen:
                        seen = found
                        wake()
                watch.wait(WATCHED_SECONDS_MAX, stop)

        return background_thread("journal-watch", loop)

    def _created_at(self, line: bytes) -> datetime | None:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        return parse_time(record.get(self._time_field)) if isinstance(record, dict) else None


def _parse_position(position: str | None) -> tuple[str, str | None]:
    """Return byte cursor and fingerprint of a position; an operator may pass a bare offset."""
    if position is None:
        return START, None
    cursor, _, tag = position.partition("-")
    return cursor, tag or None


@contextmanager
def _with_seek_hint() -> Iterator[None]:
    """Replace the fix of InvalidCursor: here the position is a cursor's, not a client's."""
    try:
        yield
    except InvalidCursor as exc:
        fix = (
            "check whether the file was replaced, then move the cursor with `onceward cursors seek`"
        )
        raise InvalidCursor(exc.message, fix=fix) from exc

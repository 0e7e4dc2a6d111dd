"""JournalSource: the lines of a journal file, each one a message, whatever it holds.

A position is the byte offset behind a line and the journal's tag of that place, so that a file that
was replaced or rewritten is refused instead of being read from its middle.
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
from onceward.workers.sources.json_messages import moment

#: What `lag` looks through at the most: beyond that it says that only a full read could tell.
LAG_BYTES_MAX: Final = 64 * 1024 * 1024
START: Final = "0"


class JournalSource:
    """A journal file as a source.

    Every complete line that is not blank is a message, with its bytes as they stand: what cannot be
    decoded becomes a dead letter, and is not passed over in silence. A torn last line is not there
    yet. Only what is on disk is given out.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        time_field: str = "createdAt",
        files: Files | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Name the file, which need not exist, and the top-level field that says how old a line is.

        The clock is for a system without file events.
        """
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._journal = Journal(path, files=self._files, clock=self._clock)
        self._time_field = time_field

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return the lines after a position; InvalidCursor when it is not one of this file."""
        since, tag = _parse_position(after)
        with _with_seek_hint():
            found = self._journal.lines(since, limit, tag)
        return [Item(position=f"{line.end}-{line.tag}", raw=line.raw) for line in found]

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many lines lie behind `after`, up to and with `up_to`; None is the start."""
        since, tag = _parse_position(after)
        until, until_tag = _parse_position(up_to)
        with _with_seek_hint():
            return self._journal.count(since, until, tag=tag, until_tag=until_tag)

    def lag(self, after: str | None) -> Lag:
        """Return how many lines are left, and when the first of them was made."""
        since, tag = _parse_position(after)
        messages = None
        with _with_seek_hint():
            first = self._journal.lines(since, 1, tag)
            end, end_tag = self._journal.end()
            if int(end) - int(since) <= LAG_BYTES_MAX:
                messages = self._journal.count(since, end, tag=tag, until_tag=end_tag)
        return Lag(messages=messages, oldest_at=self._made_at(first[0].raw) if first else None)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when the file grows or is replaced, while the block runs."""
        seen = self._files.stat(self._journal.path)

        def loop(stop: Event) -> None:
            nonlocal seen
            directory = self._journal.path.parent
            watch = DirectoryWatch(directory, self._clock, step_milliseconds=IDLE_STEP_MILLISECONDS)
            while not stop.is_set():
                with suppress(StorageError):  # It is in the way of reading too, which says so.
                    found = self._files.stat(self._journal.path)
                    if found != seen:
                        seen = found
                        wake()
                watch.wait(WATCHED_SECONDS_MAX, stop)

        return background_thread("journal-watch", loop)

    def _made_at(self, line: bytes) -> datetime | None:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        return moment(record.get(self._time_field)) if isinstance(record, dict) else None


def _parse_position(position: str | None) -> tuple[str, str | None]:
    """Return the cursor and the tag in a position; a bare offset, given by a person, has no tag."""
    if position is None:
        return START, None
    cursor, _, tag = position.partition("-")
    return cursor, tag or None


@contextmanager
def _with_seek_hint() -> Iterator[None]:
    """Say what to do about a position that does not fit: here it is a cursor's, not a client's."""
    try:
        yield
    except InvalidCursor as exc:
        fix = "look whether the file was replaced, then `onceward cursors seek` to where to go on"
        raise InvalidCursor(exc.message, fix=fix) from exc

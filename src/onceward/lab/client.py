"""Feedback client: read feedback as an agent, with a durable cursor and without losing entries.

Owns the cursor file, its lock, and reading from a file or from a Lab server. An entry is done when
the agent asks for the next one, and only then the cursor advances (at-least-once): after a crash,
the entry in progress is delivered again. Does not interpret entries.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Protocol, Self

import orjson

from onceward.errors import Conflict, InvalidArgument, InvalidCursor, KeyInFlight
from onceward.journal import Journal, Record, RecordPage, atomic_file
from onceward.journal.byte_cursor import START, parse_cursor
from onceward.journal.page_scan import check_wait
from onceward.journal.process_lock import acquire_process_lock
from onceward.lab.client_http import ServerFeed, is_url
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import is_feedback
from onceward.system import Clock, Files, Randomness, SystemClock, SystemFiles
from onceward.system.crash_points import crash_point

SCHEMA_VERSION: Final = 1
_BYTES_MAX: Final = 64 * 1024


class Feed(Protocol):
    """A source of feedback entries."""

    def read(self, since: str, tag: str | None, session_id: str | None, wait: float) -> RecordPage:
        """Return a page of entries after a cursor; wait for the first one if there is none."""


class FileFeed:
    """Reads the feedback file directly, without a server."""

    def __init__(self, path: Path, *, clock: Clock | None, files: Files) -> None:
        """Read this file, which need not exist yet."""
        self._journal = Journal(path, valid=is_feedback, clock=clock, files=files)

    def read(self, since: str, tag: str | None, session_id: str | None, wait: float) -> RecordPage:
        """Return a page of the file."""
        match = None if session_id is None else {"sessionId": session_id}
        return self._journal.tail(since, None, match, tag, wait=wait)


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackPosition:
    """The position of an agent in the feedback, as stored in its cursor file."""

    #: Cursor at which the agent's current page begins, and its tag.
    since: str = START
    tag: str | None = None
    #: How many entries of that page are done, and the id of the last one.
    done: int = 0
    last_id: str | None = None

    def to_record(self, session_id: str | None) -> Record:
        """Return the content of the cursor file."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "since": self.since,
            "tag": self.tag,
            "done": self.done,
            "lastId": self.last_id,
            "sessionId": session_id,
        }


class FeedbackClient:
    """Delivers new feedback entries to an agent, one by one. Not thread-safe.

    `for entry in client:` never ends. Call `done()` before leaving the loop early; otherwise the
    current entry is delivered again. After an error, iterate again: the position is kept.
    """

    def __init__(  # noqa: PLR0913 - options of an agent, and three injectable dependencies
        self,
        source: str | PathLike[str] | None = None,
        *,
        cursor: str | PathLike[str],
        session_id: str | None = None,
        wait: float = 30.0,
        token: str | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        files: Files | None = None,
    ) -> None:
        """Lock the cursor file and read the position.

        Args:
            source: A feedback file, or the `http://` address of a Lab server; the file that
                `CM_FEEDBACK_STORE_PATH` names if left out.
            cursor: A small file that stores the agent's position; created if missing.
            session_id: Only entries of this session; always the same for one cursor file.
            wait: How many seconds one read waits for new entries.
            token: The server's token, if it requires one.
            clock: The clock for waiting.
            randomness: The source of jitter between retries.
            files: The file system. Default: the machine's.

        Raises:
            KeyInFlight: Another process, or another client in this one, has locked the cursor file.
            InvalidCursor: The file is not a cursor file, or belongs to another session.

        """
        named = LabPaths.from_environment().feedback if source is None else source
        self._files = files or SystemFiles()
        self._feed: Feed
        if isinstance(named, str) and is_url(named):
            self._feed = ServerFeed(named, token=token, clock=clock, randomness=randomness)
        else:
            self._feed = FileFeed(Path(named).absolute(), clock=clock, files=self._files)
        self._path, self._session_id = Path(cursor).absolute(), session_id
        self._wait = check_wait(wait)
        self._process = os.getpid()
        #: Releases the lock, also if `close` is never called.
        self._release = weakref.finalize(
            self, _lock_cursor(self._path, self._files, clock or SystemClock())
        )
        try:
            self._position = self._load()
        except BaseException:
            self.close()
            raise
        #: The agent's current page, once it was read.
        self._page: RecordPage | None = None
        #: How many entries of it were delivered; those after `done` are in progress.
        self._delivered = self._position.done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the cursor file; entries that are not done are delivered again later."""
        self._release()

    def __iter__(self) -> Iterator[Record]:
        """Yield every entry that is not done, then wait for more; never ends."""
        while True:
            yield from self._entries(self._wait)

    def available(self) -> Iterator[Record]:
        """Yield every entry that is not done, without waiting for more."""
        yield from self._entries(0.0)

    def poll(self) -> list[Record]:
        """Return up to a page of entries that are not done; `done()` marks all of them."""
        page = self._current(0.0)
        self._delivered = len(page.items)
        return page.items[self._position.done :]

    def done(self) -> None:
        """Mark all delivered entries as done; durable when this returns."""
        self._check_process()
        page = self._page
        if page is None or self._delivered == self._position.done:
            return
        if self._delivered == len(page.items):
            self._advance_past(page)
        else:
            last_id = page.items[self._delivered - 1]["id"]
            self._save(replace(self._position, done=self._delivered, last_id=last_id))

    def reset(self) -> None:
        """Start again from the first entry; all entries in the file are delivered again."""
        self._check_process()
        self._page, self._delivered = None, 0
        self._save(FeedbackPosition())

    def _entries(self, wait: float) -> Iterator[Record]:
        """Yield entries until none has arrived for `wait` seconds."""
        self._delivered = self._position.done
        while True:
            page = self._current(wait)
            if self._delivered == len(page.items):
                return
            self._delivered += 1
            yield page.items[self._delivered - 1]
            self.done()

    def _current(self, wait: float) -> RecordPage:
        """Return the agent's current page; its first `done` entries are done."""
        self._check_process()
        while self._page is None:
            position = self._position
            page = self._read(0.0 if position.done else wait)
            self._check_unchanged(page, position)
            self._page, self._delivered = page, position.done
            if len(page.items) == position.done and page.next_cursor != position.since:
                # All entries of this page are done or of other sessions; more may follow.
                self._advance_past(page)
        if not self._page.items:
            empty, self._page = self._page, None
            return empty
        return self._page

    def _read(self, wait: float) -> RecordPage:
        position = self._position
        try:
            return self._feed.read(position.since, position.tag, self._session_id, wait)
        except InvalidCursor as exc:
            raise self._position_lost(exc.message) from exc

    def _check_unchanged(self, page: RecordPage, position: FeedbackPosition) -> None:
        """Reject a page that does not begin with the entries that are done."""
        if not position.done:
            return
        is_there = len(page.items) >= position.done
        if not is_there or page.items[position.done - 1]["id"] != position.last_id:
            gone = f"{position.last_id} is no longer at its position"
            raise self._position_lost(gone)

    def _position_lost(self, why: str) -> InvalidCursor:
        message = f"the feedback was replaced, so the position in {self._path} is invalid: {why}"
        fix = "call reset() to start again from the first entry; existing entries are repeated"
        return InvalidCursor(message, fix=fix, path=str(self._path), since=self._position.since)

    def _advance_past(self, page: RecordPage) -> None:
        self._save(FeedbackPosition(since=page.next_cursor, tag=page.tag))
        self._page, self._delivered = None, 0

    def _save(self, position: FeedbackPosition) -> None:
        crash_point("lab.client.before_save")
        data = orjson.dumps(position.to_record(self._session_id)) + b"\n"
        atomic_file.write(self._path, data, files=self._files)
        self._position = position
        crash_point("lab.client.after_save")

    def _load(self) -> FeedbackPosition:
        text = atomic_file.read(self._path, _BYTES_MAX, files=self._files)
        if text is None:
            return FeedbackPosition()
        try:
            record = orjson.loads(text)
            version = record["schemaVersion"]
            is_other = type(version) is int and version != SCHEMA_VERSION
            position = None if is_other else _position(record)
        except (KeyError, TypeError, ValueError, InvalidCursor) as exc:  # ValueError: not JSON.
            message = f"{self._path} is not a cursor file; it was left unchanged"
            fix = "pass another file, or remove this one to start again from the first entry"
            raise InvalidCursor(message, fix=fix, path=str(self._path)) from exc
        if position is None:
            message = (
                f"{self._path} has the format of another version of Onceward: its schemaVersion is "
                f"{version!r:.60}, not {SCHEMA_VERSION}; it was left unchanged"
            )
            # Not removed: the position is good for that version.
            fix = "use that version, or pass another cursor file"
            raise InvalidCursor(message, fix=fix, path=str(self._path))
        if record.get("sessionId") != self._session_id:
            stored = record.get("sessionId")
            message = (
                f"{self._path} is the cursor of session {stored!r:.90}, "
                f"not of {self._session_id!r:.90}; it was left unchanged"
            )
            fix = "use one cursor file for each session, or pass the same session_id"
            raise InvalidCursor(message, fix=fix, path=str(self._path))
        return position

    def _check_process(self) -> None:
        if not self._release.alive:
            message = "this client is closed; entries that were not done are delivered again"
            raise InvalidArgument(message, fix="create a new client with the same cursor file")
        if os.getpid() != self._process:
            message = "this client was created in another process"
            fix = "create one client per process, each with its own cursor file"
            raise InvalidArgument(message, fix=fix)


def _position(record: Any) -> FeedbackPosition:  # noqa: ANN401 - whatever the file held
    """Return the position of a cursor file; raise ValueError or InvalidCursor if it is none."""
    since, tag, done, last_id = (record[name] for name in ("since", "tag", "done", "lastId"))
    parse_cursor(since)
    is_valid = type(record["schemaVersion"]) is int and (tag is None or isinstance(tag, str))
    is_valid = is_valid and type(done) is int and done >= 0
    if not is_valid or not (isinstance(last_id, str) if done else last_id is None):
        message = "a field has the wrong type"
        raise ValueError(message)
    return FeedbackPosition(since=since, tag=tag, done=done, last_id=last_id)


def _lock_cursor(path: Path, files: Files, clock: Clock) -> Callable[[], None]:
    """Lock a cursor by a file beside it; return the function that releases the lock.

    The cursor file itself is replaced on each advance, so it cannot carry the lock.
    """
    try:
        return acquire_process_lock(path.with_name(f"{path.name}.lock"), files, clock).release
    except Conflict as exc:
        holder = exc.context["holder"]
        message = f"{path} is in use by {holder}"
        fix = "close that client or stop its process, or pass a different cursor file"
        raise KeyInFlight(message, fix=fix, path=str(path), holder=holder) from None

"""Client: an agent's own place in the feedback, so that each entry reaches it once.

Owns the durable cursor, its lock, and reading from a file or from a Lab server. An entry is done
when the agent asks for the next one, and only then the cursor moves: a crash repeats the entry that
was being worked on and loses none. Knows nothing of what entries mean.
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

from onceward.crash import crash_point
from onceward.errors import Conflict, InvalidArgument, InvalidCursor, KeyInFlight
from onceward.journal import Journal, Page, Record, atomic
from onceward.journal.cursor import START, parse_cursor
from onceward.journal.held import hold
from onceward.journal.scan import check_wait
from onceward.lab.client_http import ServerFeed, is_url
from onceward.lab.models import is_feedback
from onceward.lab.paths import LabPaths
from onceward.seams import Clock, Files, Randomness, SystemClock, SystemFiles

SCHEMA_VERSION: Final = 1
_BYTES_MAX: Final = 64 * 1024


class Feed(Protocol):
    """Where entries come from."""

    def read(self, since: str, tag: str | None, session_id: str | None, wait: float) -> Page:
        """Return what lies behind a cursor, waiting for the first entry if there is none."""


class FileFeed:
    """The feedback file itself; no server is needed."""

    def __init__(self, path: Path, *, clock: Clock | None, files: Files) -> None:
        """Read this file, which need not exist yet."""
        self._journal = Journal(path, valid=is_feedback, clock=clock, files=files)

    def read(self, since: str, tag: str | None, session_id: str | None, wait: float) -> Page:
        """Return a page of the file."""
        match = None if session_id is None else {"sessionId": session_id}
        return self._journal.tail(since, None, match, tag, wait=wait)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """How far an agent has come, as its cursor file says it."""

    #: Where the page begins that the agent is at, and the tag of that cursor.
    since: str = START
    tag: str | None = None
    #: How many entries of that page are done, and which one was the last of them.
    done: int = 0
    last_id: str | None = None

    def to_record(self, session_id: str | None) -> Record:
        """Return what the cursor file holds."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "since": self.since,
            "tag": self.tag,
            "done": self.done,
            "lastId": self.last_id,
            "sessionId": session_id,
        }


class FeedbackClient:
    """The feedback that an agent has not seen yet, entry by entry; for one thread.

    `for entry in client:` waits for ever. Whoever leaves the loop early calls `done()` first, or
    gets the entry once more. After an error, iterate again: the place is kept.
    """

    def __init__(  # noqa: PLR0913 - what an agent may want to choose, and three seams
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
        """Take the cursor file, which nobody else may hold.

        Args:
            source: A feedback file, or the `http://` address of a Lab server; the file that
                `CM_FEEDBACK_STORE_PATH` names if left out.
            cursor: A small file of the agent's own, in which its place is kept; made when missing.
            session_id: Only entries of this session; always the same for one cursor file.
            wait: How many seconds one look waits for something new.
            token: What a server that other machines can reach asks for.
            clock: The clock for waiting.
            randomness: Chance, for the pauses between attempts.
            files: The file system; the machine's unless told otherwise.

        Raises:
            KeyInFlight: Another process, or another client of this one, has the cursor file.
            InvalidCursor: The cursor file is not one, or was made for another session.

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
        #: Gives the lock back, also when nobody calls `close`.
        self._release = weakref.finalize(
            self, _hold(self._path, self._files, clock or SystemClock())
        )
        try:
            self._place = self._load()
        except BaseException:
            self.close()
            raise
        #: The page that the agent is at, once it was read.
        self._page: Page | None = None
        #: How many entries of it were handed out; those beyond `done` are being worked on.
        self._handed = self._place.done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let somebody else have the cursor file; what is not done comes again."""
        self._release()

    def __iter__(self) -> Iterator[Record]:
        """Yield every entry that is not done, then wait for more, for ever."""
        while True:
            yield from self._entries(self._wait)

    def available(self) -> Iterator[Record]:
        """Yield every entry that is not done, and end when there is none left."""
        yield from self._entries(0.0)

    def poll(self) -> list[Record]:
        """Return what is there now and not done, at most a page; `done()` marks all of it."""
        page = self._current(0.0)
        self._handed = len(page.items)
        return page.items[self._place.done :]

    def done(self) -> None:
        """Mark everything that was handed out as done; on disk when this returns."""
        self._check_process()
        page = self._page
        if page is None or self._handed == self._place.done:
            return
        if self._handed == len(page.items):
            self._move_behind(page)
        else:
            last_id = page.items[self._handed - 1]["id"]
            self._save(replace(self._place, done=self._handed, last_id=last_id))

    def reset(self) -> None:
        """Start again from the first entry: everything that is still there comes once more."""
        self._check_process()
        self._page, self._handed = None, 0
        self._save(Place())

    def _entries(self, wait: float) -> Iterator[Record]:
        """Yield until there is nothing left for as long as `wait`."""
        self._handed = self._place.done
        while True:
            page = self._current(wait)
            if self._handed == len(page.items):
                return
            self._handed += 1
            yield page.items[self._handed - 1]
            self.done()

    def _current(self, wait: float) -> Page:
        """Return the page that the agent is at; its first `done` entries are over."""
        self._check_process()
        while self._page is None:
            place = self._place
            page = self._read(0.0 if place.done else wait)
            self._check_same(page, place)
            self._page, self._handed = page, place.done
            if len(page.items) == place.done and page.next_cursor != place.since:
                # Entries of others, or all that is left was done before; there may be more behind.
                self._move_behind(page)
        if not self._page.items:
            empty, self._page = self._page, None
            return empty
        return self._page

    def _read(self, wait: float) -> Page:
        place = self._place
        try:
            return self._feed.read(place.since, place.tag, self._session_id, wait)
        except InvalidCursor as exc:
            raise self._lost(exc.message) from exc

    def _check_same(self, page: Page, place: Place) -> None:
        """Refuse a page that does not begin with what was done of it."""
        if not place.done:
            return
        is_there = len(page.items) >= place.done
        if not is_there or page.items[place.done - 1]["id"] != place.last_id:
            gone = f"{place.last_id} is no longer where it was"
            raise self._lost(gone)

    def _lost(self, why: str) -> InvalidCursor:
        message = f"the feedback was replaced, so the place in {self._path} is lost: {why}"
        fix = "call reset() to start again from 0; entries that are still there come once more"
        return InvalidCursor(message, fix=fix, path=str(self._path), since=self._place.since)

    def _move_behind(self, page: Page) -> None:
        self._save(Place(since=page.next_cursor, tag=page.tag))
        self._page, self._handed = None, 0

    def _save(self, place: Place) -> None:
        crash_point("lab.client.before_save")
        data = orjson.dumps(place.to_record(self._session_id)) + b"\n"
        atomic.write(self._path, data, files=self._files)
        self._place = place
        crash_point("lab.client.after_save")

    def _load(self) -> Place:
        text = atomic.read(self._path, _BYTES_MAX, files=self._files)
        if text is None:
            return Place()
        try:
            record = orjson.loads(text)
            place = _place(record)
        except (orjson.JSONDecodeError, KeyError, TypeError, AssertionError, InvalidCursor) as exc:
            message = f"{self._path} does not hold the place of a client"
            fix = "name another file, or remove this one to start again from the first entry"
            raise InvalidCursor(message, fix=fix, path=str(self._path)) from exc
        if record.get("sessionId") != self._session_id:
            message = f"{self._path} was made for session {record.get('sessionId')!r:.90}"
            fix = "use one cursor file for each session, or pass the same session_id"
            raise InvalidCursor(message, fix=fix, path=str(self._path))
        return place

    def _check_process(self) -> None:
        if not self._release.alive:
            message = "this client is closed"
            raise InvalidArgument(message, fix="make a new one")
        if os.getpid() != self._process:
            message = "this client belongs to the process that made it"
            raise InvalidArgument(message, fix="make one in each process, with a cursor of its own")


def _place(record: Any) -> Place:  # noqa: ANN401 - whatever the file held
    assert record["schemaVersion"] == SCHEMA_VERSION, record
    since, tag, done, last_id = (record[name] for name in ("since", "tag", "done", "lastId"))
    parse_cursor(since)
    assert tag is None or isinstance(tag, str), record
    assert type(done) is int, record
    assert done >= 0, record
    assert isinstance(last_id, str) if done else last_id is None, record
    return Place(since=since, tag=tag, done=done, last_id=last_id)


def _hold(path: Path, files: Files, clock: Clock) -> Callable[[], None]:
    """Lock the file beside a cursor, or say who has it; return what gives it back.

    The cursor file itself is replaced at every move, so it cannot carry the lock.
    """
    try:
        return hold(path.with_name(f"{path.name}.lock"), files, clock).release
    except Conflict as exc:
        holder = exc.context["holder"]
        message = f"{path} is in use by {holder}"
        fix = "stop that one, or give this client a cursor file of its own"
        raise KeyInFlight(message, fix=fix, path=str(path), holder=holder) from None

"""Intent log: crash-safe, idempotent writes; log the intent, append, mark it done.

Under the root's lock: catch up, roll unfinished intents forward, then replay a recorded response or
write an intent, its entries and a done line. A synced intent decides: from then on the request has
happened, and a later process completes it if this one dies. Knows no rule about submissions.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from onceward.errors import (
    InvalidCursor,
    KeyReused,
    OncewardError,
    OutcomeUnknown,
    StorageError,
)
from onceward.journal import Journal, Record
from onceward.journal.byte_cursor import START
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.lab.lab_paths import LabPaths, check_session_id
from onceward.lab.request_ids import (
    EXPERIMENT_SUBMIT,
    FEEDBACK,
    Intent,
    RecordedResponse,
    RequestIdIndex,
)
from onceward.system import Clock, Files, FileStat, OpenFile, find_openers, timestamp
from onceward.system.crash_points import crash_point

#: Upper bound for one line of the lock file, which names the sessions that wrote.
SESSION_LINE_BYTES_MAX: Final = 256
#: How often an append is tried when another tool's write splits it.
APPEND_ATTEMPTS_MAX: Final = 5
#: How long a caller waits for the root's lock before it gets a StorageError.
LOCK_TIMEOUT_SECONDS: Final = 10.0
LOCK_POLL_SECONDS_MIN: Final = 0.0005
LOCK_POLL_SECONDS_MAX: Final = 0.02
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRequest:
    """The identity of a request: two attempts are the same if their fingerprints agree."""

    request_id: str
    #: What kind of request it is, such as feedback or experiment_submit.
    type: str
    #: Digest of the request body, without the request id.
    fingerprint: str
    #: The experiment that it decides; None when it creates something.
    about: str | None = None
    #: Returns whether a response of another program, with its entries, matches this request.
    matches_stored: Callable[[Record], bool] = field(default=lambda _: False, compare=False)

    def matches(self, known: RecordedResponse) -> bool:
        """Return whether a recorded response belongs to this request."""
        if known.type != self.type or self.about not in (None, known.entity_id):
            return False
        if known.fingerprint is None:
            return self.matches_stored(known.response)
        return known.fingerprint == self.fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class WritePlan:
    """The records that a new request appends, and its response."""

    entity_id: str
    entries: list[Record]
    experiment: Record | None
    response: Record


class FilePosition(NamedTuple):
    """Where a file ended when an intent was logged."""

    path: Path
    since: str | None
    tag: str | None


class IntentLog:
    """Idempotent writes of one session to a root that other processes share."""

    def __init__(self, paths: LabPaths, session_id: str, *, files: Files, clock: Clock) -> None:
        """Write request ids into this session; read those of all sessions."""
        self._paths, self._session_id = paths, check_session_id(session_id)
        self._files, self._clock = files, clock
        self._requests = RequestIdIndex(paths, files=files, clock=clock)
        #: Serializes the threads of this process, so that only one of them polls the lock file.
        self._threads = threading.Lock()
        self._is_stopping = False
        #: Requests of this session that an earlier process left unfinished and this one completed,
        #: until their clients retry; and their total.
        self.rolled_forward: set[str] = set()
        self.completed = 0
        #: Identity of the lock file that was read, and the offset up to which.
        self._read_up_to: tuple[tuple[int, int] | None, int] = (None, 0)

    def stop(self) -> None:
        """Make waiters for the lock fail at once: the process is about to end."""
        self._is_stopping = True

    @contextmanager
    def locked(self, timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> Iterator[LockedRoot]:
        """Hold the root's lock, caught up and with unfinished intents rolled forward.

        Raises StorageError when another process holds the lock for longer than the timeout.
        """
        deadline = self._clock.monotonic() + timeout_seconds
        self._acquire(lambda: self._threads.acquire(blocking=False), deadline)
        try:
            lock, stat = open_locked(
                self._paths.lock,
                self._files,
                take=lambda file: self._acquire(file.try_lock, deadline),
            )
            try:
                self._refresh(lock, stat)
                self._roll_forward(lock)
                yield LockedRoot(self, lock, self._requests)
            finally:
                unlock_and_close(lock)
        finally:
            self._threads.release()

    def _acquire(self, take: Callable[[], bool], deadline: float) -> None:
        """Poll a lock until it is taken or the deadline passes: its holder may be frozen."""
        pause = LOCK_POLL_SECONDS_MIN
        while not take():
            lock = self._paths.lock
            if self._is_stopping:
                message = "the server is stopping; nothing was changed"
                fix = "try again when it runs again"
                raise StorageError(message, fix=fix, path=str(lock))
            if self._clock.monotonic() >= deadline:
                message = (
                    f"{lock} is still locked by another request or process; nothing was changed"
                )
                shown = f"process PID, which `{find_openers(lock)}` prints as /proc/PID/fd"
                fix = f"try again; if it keeps failing, stop {shown}"
                raise StorageError(message, fix=fix, path=str(lock))
            self._clock.sleep(pause)
            pause = min(pause * 2, LOCK_POLL_SECONDS_MAX)

    def _roll_forward(self, lock: OpenFile) -> None:
        """Complete unfinished intents; one that cannot be completed now does not block others."""
        for session_id, intent in self._requests.unfinished():
            crash_point("lab.request.before_roll_forward")
            try:
                self._finish(lock, session_id, intent, is_new=False)
                self._requests.catch_up([session_id])
            except OncewardError as exc:
                _log.warning("an unfinished request cannot be completed yet: %s", exc.message)
                continue
            is_submission = intent.type in (FEEDBACK, EXPERIMENT_SUBMIT)
            if session_id == self._session_id and is_submission:
                self.rolled_forward.add(intent.request_id)
                self.completed += 1

    def execute(self, lock: OpenFile, request: LabRequest, plan: WritePlan) -> None:
        """Log the intent of a request, append its records, and mark it done."""
        feedback = self._paths.feedback
        redo: Record = {"entries": plan.entries, "feedbackPath": str(feedback)}
        redo |= self._end_position(feedback, "feedback")
        if plan.experiment is not None:
            end = self._end_position(self._paths.experiments, "experiments")
            redo |= {"experiment": plan.experiment, **end}
        intent = Intent(
            request_id=request.request_id,
            type=request.type,
            entity_id=plan.entity_id,
            created_at=timestamp(self._clock.now()),
            fingerprint=request.fingerprint,
            response=plan.response,
            redo=redo,
        )
        self._name_session(lock, self._session_id)
        crash_point("lab.request.before_intent")
        self._journal(self._paths.requests(self._session_id)).append(intent.to_record("intent"))
        crash_point("lab.request.after_intent")
        try:
            self._finish(lock, self._session_id, intent, is_new=True)
        except OncewardError as exc:
            # The intent is durable, so the request has happened; the next lock holder completes it.
            raise _outcome_unknown(intent.request_id, exc.message, exc.fix) from exc

    def record_response(
        self, lock: OpenFile, request: LabRequest, entity_id: str, response: Record
    ) -> None:
        """Record the response of a request whose effect is already on disk."""
        done = Intent(
            request_id=request.request_id,
            type=request.type,
            entity_id=entity_id,
            created_at=timestamp(self._clock.now()),
            fingerprint=request.fingerprint,
            response=response,
            redo={},
        )
        self._name_session(lock, self._session_id)
        self._journal(self._paths.requests(self._session_id)).append(done.to_record("done"))

    def _finish(self, lock: OpenFile, session_id: str, intent: Intent, *, is_new: bool) -> None:
        """Append the records of an intent that are missing; then mark it done."""
        redo = intent.redo
        # Another process on this root may keep its feedback elsewhere; the entry belongs there.
        feedback = Path(redo.get("feedbackPath") or self._paths.feedback)
        position = FilePosition(feedback, redo.get("feedbackSize"), redo.get("feedbackTag"))
        self._append_missing(position, redo["entries"], is_new=is_new)
        crash_point("lab.request.after_entries")
        if redo.get("experiment"):
            size, tag = redo.get("experimentsSize"), redo.get("experimentsTag")
            position = FilePosition(self._paths.experiments, size, tag)
            self._append_missing(position, [redo["experiment"]], is_new=is_new)
        crash_point("lab.request.after_experiment")
        self._name_session(lock, session_id)
        # Not synced: without this line, the next lock holder finds all records and adds it.
        ending = self._journal(self._paths.requests(session_id), sync=False)
        ending.append(intent.to_record("done"))
        crash_point("lab.request.after_done")

    def _append_missing(
        self, position: FilePosition, records: list[Record], *, is_new: bool
    ) -> None:
        """Append the records that are not yet after the position, and verify that they are.

        Other tools write without our lock: half a line of theirs can get between our check of the
        end and our write, and make our line unreadable. Then the line is appended again.
        """
        if not records:
            return
        if is_new:
            self._journal(position.path).append(*records)
        for _ in range(APPEND_ATTEMPTS_MAX):
            # The writer of an existing record may have died before its sync; reading syncs it.
            there = {_record_identity(each) for each in self._records_after(position)}
            missing = [each for each in records if _record_identity(each) not in there]
            if not missing:
                return
            self._journal(position.path).append(*missing)
        message = f"another program keeps breaking lines that are appended to {position.path}"
        check = f"onceward journal verify {shlex.quote(str(position.path))}"
        fix = f"stop the program that writes to this file, and check it with `{check}`"
        raise OutcomeUnknown(message, fix=fix, path=str(position.path))

    def _records_after(self, position: FilePosition) -> list[Record]:
        """Return the records after the position that an intent logged; they are synced."""
        journal = self._journal(position.path)
        try:
            return _read_all(journal, position.since or START, position.tag)
        except InvalidCursor:
            return _read_all(journal, START, None)  # Replaced or truncated since: read all of it.

    def _end_position(self, path: Path, name: str) -> Record:
        """Return where a file ends now, in the fields of an intent.

        Not synced: after a power loss, the fingerprint detects a position that does not fit.
        """
        since, tag = self._journal(path, sync=False).end()
        return {f"{name}Size": since, f"{name}Tag": tag}

    def _refresh(self, lock: OpenFile, stat: FileStat) -> None:
        """Read what all sessions have written; after a failure, start over next time."""
        seen, self._read_up_to = self._read_up_to, (None, 0)
        self._requests.catch_up(self._sessions_to_read(lock, stat, seen))
        self._read_up_to = stat.identity, stat.size

    def _sessions_to_read(
        self, lock: OpenFile, stat: FileStat, seen: tuple[tuple[int, int] | None, int]
    ) -> set[str] | None:
        """Return the sessions that may have written since the last refresh; None is all of them.

        The names are not synced: a power loss ends every process that relies on them.
        """
        identity, offset = seen
        if identity != stat.identity or stat.size < offset:
            return None
        # The session named last may have written again without adding its name again.
        named = _named_sessions(lock, offset, stat.size)
        return {self._session_id, *(each for each in named if self._paths.is_session(each))}

    def _name_session(self, lock: OpenFile, session_id: str) -> None:
        """Add the session's name to the lock file before it writes, unless it is the last one."""
        size = lock.stat().size
        if _named_sessions(lock, size, size)[-1:] != [session_id]:
            is_torn = size > 0 and lock.read(size - 1, 1) != b"\n"
            lock.write((b"\n" if is_torn else b"") + session_id.encode() + b"\n")

    def _journal(self, path: Path, *, sync: bool = True) -> Journal:
        return Journal(path, sync=sync, files=self._files, clock=self._clock)


class LockedRoot:
    """What a caller may do while it holds the root's lock."""

    def __init__(self, intent_log: IntentLog, lock: OpenFile, requests: RequestIdIndex) -> None:
        """Work on a root whose lock is held; unusable after that."""
        self._intent_log, self._lock, self._requests = intent_log, lock, requests

    def recorded_response(self, request: LabRequest) -> Record | None:
        """Return the recorded response of this request; KeyReused if its id has another request."""
        known = self._requests.responses_to(request.request_id)
        if not known:
            self._check_not_unfinished(request.request_id, request.about)
            return None
        found = next(filter(request.matches, known), None)
        if found is None:
            message = (
                f"requestId: {request.request_id!r} was used for another request; "
                "nothing was changed"
            )
            fix = "send the same request as before, or use a new request id"
            raise KeyReused(message, fix=fix, field="requestId", requestId=request.request_id)
        self._intent_log.rolled_forward.discard(request.request_id)
        return found.response

    def _check_not_unfinished(self, request_id: str, about: str | None) -> None:
        """Reject a request whose intent is logged but cannot be completed now."""
        for _, intent in self._requests.unfinished():
            if intent.request_id == request_id or about == intent.entity_id:
                raise _outcome_unknown(intent.request_id, "its files cannot be written now")

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return the response to the one submission of an experiment."""
        return self._requests.submission_of(experiment_id)

    def record_response(self, request: LabRequest, entity_id: str, response: Record) -> None:
        """Record the response of a request whose effect is idempotent and already on disk."""
        self._intent_log.record_response(self._lock, request, entity_id, response)

    def execute(self, request: LabRequest, plan: WritePlan) -> Record:
        """Carry out a new request once, and return its response."""
        self._intent_log.execute(self._lock, request, plan)
        return plan.response


def _outcome_unknown(request_id: str, why: str, advice: str = "") -> OutcomeUnknown:
    message = f"request {request_id!r} is recorded but not yet completed: {why}"
    first = f"{advice}; then " if advice else ""
    fix = f"{first}send it again with the same request id; it is carried out once"
    return OutcomeUnknown(message, fix=fix, requestId=request_id)


def _record_identity(record: Record) -> tuple[str, ...]:
    """Return what identifies a record: an entry's id, or an experiment's id and update time."""
    return tuple(str(record.get(key)) for key in ("id", "experimentId", "updatedAt"))


def _named_sessions(lock: OpenFile, offset: int, end: int) -> list[str]:
    """Return the sessions named after an offset, and at least the last one before it."""
    start = max(0, offset - SESSION_LINE_BYTES_MAX)
    lines = lock.read(start, end - start).split(b"\n")
    complete_lines = lines[1 if start else 0 : -1]
    return [each.decode("ascii", "replace") for each in complete_lines if each]


def _read_all(journal: Journal, since: str, tag: str | None) -> list[Record]:
    items: list[Record] = []
    while True:
        page = journal.read(since, tag=tag)
        items += page.items
        if page.next_cursor == since:
            return items
        since, tag = page.next_cursor, page.tag

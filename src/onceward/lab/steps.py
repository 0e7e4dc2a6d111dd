"""Steps: check, append and record as one step, whoever dies in the middle of it.

Under the root's lock: catch up, roll forward what somebody left unfinished, then either answer what
was answered before, or announce everything that will be written, write it, and say that it is done.
Only the announcement decides: once it is on disk the request has happened. Knows no rule about what
may be submitted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from onceward.crash import crash_point
from onceward.errors import (
    InvalidCursor,
    KeyReused,
    OncewardError,
    OutcomeUnknown,
    StorageError,
)
from onceward.journal import Journal, Record
from onceward.journal.cursor import START
from onceward.journal.locked import give_back, open_locked
from onceward.lab.paths import LabPaths, check_session_id
from onceward.lab.requests import EXPERIMENT_SUBMIT, FEEDBACK, Intent, Known, Requests
from onceward.seams import Clock, Files, FileStat, OpenFile, timestamp

#: The lock file names who wrote, a line each; so many bytes surely hold the last whole line.
NAME_BYTES_MAX: Final = 256
#: How often something is written again because another tool wrote into the middle of it.
WRITES_MAX: Final = 5
#: How long somebody waits for a turn before they are told to come again.
PATIENCE_SECONDS: Final = 10.0
LOOK_SECONDS_MIN: Final = 0.0005
LOOK_SECONDS_MAX: Final = 0.02
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What makes two attempts the same."""

    request_id: str
    #: What kind of request it is, such as feedback or experiment_submit.
    type: str
    #: Digest of all that was asked, without the id.
    fingerprint: str
    #: The experiment that it decides; None when it makes something new.
    about: str | None = None
    #: Says whether what another program stored, and answered so, is what is asked here.
    is_stored: Callable[[Record], bool] = field(default=lambda _: False, compare=False)

    def fits(self, known: Known) -> bool:
        """Say whether a request that was answered before is this one."""
        if known.type != self.type or self.about not in (None, known.entity_id):
            return False
        if known.fingerprint is None:
            return self.is_stored(known.response)
        return known.fingerprint == self.fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a new request will write, and be answered."""

    entity_id: str
    entries: list[Record]
    experiment: Record | None
    response: Record


class Place(NamedTuple):
    """Where a file ended when an intent was announced."""

    path: Path
    since: str | None
    tag: str | None


class Steps:
    """The steps of one session's process on a root that others share."""

    def __init__(self, paths: LabPaths, session_id: str, *, files: Files, clock: Clock) -> None:
        """Write request ids into this session; read those of all."""
        self._paths, self._session_id = paths, check_session_id(session_id)
        self._files, self._clock = files, clock
        self._requests = Requests(paths, files=files, clock=clock)
        #: Threads of this process take turns here, so that one of them at a time looks at the file.
        self._threads = threading.Lock()
        self._is_stopping = False
        #: Requests of this session that an earlier process announced and this one completed, as
        #: long as their clients have not asked again, and how many there were.
        self.rolled_forward: set[str] = set()
        self.completed = 0
        #: Which lock file was read, and how far.
        self._seen: tuple[tuple[int, int] | None, int] = (None, 0)

    def stop(self) -> None:
        """Let nobody wait for a turn any more: the process is about to end."""
        self._is_stopping = True

    @contextmanager
    def turn(self, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[Turn]:
        """Hold the root's lock, with everything known and all completed that can be.

        Raises StorageError when somebody else holds it for longer than the patience.
        """
        deadline = self._clock.monotonic() + patience_seconds
        self._wait(lambda: self._threads.acquire(blocking=False), deadline)
        try:
            lock, stat = open_locked(
                self._paths.lock,
                self._files,
                take=lambda file: self._wait(file.try_lock, deadline),
            )
            try:
                self._catch_up(lock, stat)
                self._roll_forward(lock)
                yield Turn(self, lock, self._requests)
            finally:
                give_back(lock)
        finally:
            self._threads.release()

    def _wait(self, take: Callable[[], bool], deadline: float) -> None:
        """Try to take a lock until it is ours, in short waits: its holder may be frozen."""
        pause = LOOK_SECONDS_MIN
        while not take():
            if self._is_stopping or self._clock.monotonic() >= deadline:
                message = f"another process holds {self._paths.lock}"
                fix = "try again; if that stays so, look for a stopped process: `fuser -v` names it"
                raise StorageError(message, fix=fix, path=str(self._paths.lock))
            self._clock.sleep(pause)
            pause = min(pause * 2, LOOK_SECONDS_MAX)

    def _roll_forward(self, lock: OpenFile) -> None:
        """Complete what others announced; what cannot be completed now stops nobody else."""
        for session_id, intent in self._requests.unfinished():
            crash_point("lab.step.before_roll_forward")
            try:
                self._finish(lock, session_id, intent, is_new=False)
                self._requests.catch_up([session_id])
            except OncewardError as exc:
                _log.warning("a request cannot be completed yet: %s", exc.message)
                continue
            is_submission = intent.type in (FEEDBACK, EXPERIMENT_SUBMIT)
            if session_id == self._session_id and is_submission:
                self.rolled_forward.add(intent.request_id)
                self.completed += 1

    def settle(self, lock: OpenFile, request: Request, plan: Plan) -> None:
        """Announce what a request writes, write it, and end it."""
        feedback = self._paths.feedback
        redo: Record = {"entries": plan.entries, "feedbackPath": str(feedback)}
        redo |= self._end(feedback, "feedback")
        if plan.experiment is not None:
            end = self._end(self._paths.experiments, "experiments")
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
        self._announce_writer(lock, self._session_id)
        crash_point("lab.step.before_intent")
        self._journal(self._paths.requests(self._session_id)).append(intent.to_record("intent"))
        crash_point("lab.step.after_intent")
        try:
            self._finish(lock, self._session_id, intent, is_new=True)
        except OncewardError as exc:
            # Whatever went wrong, it has happened: whoever comes next completes it.
            raise _in_doubt(intent.request_id, exc.message) from exc

    def note(self, lock: OpenFile, request: Request, entity_id: str, response: Record) -> None:
        """Write down what a request was answered whose effect is on disk already."""
        done = Intent(
            request_id=request.request_id,
            type=request.type,
            entity_id=entity_id,
            created_at=timestamp(self._clock.now()),
            fingerprint=request.fingerprint,
            response=response,
            redo={},
        )
        self._announce_writer(lock, self._session_id)
        self._journal(self._paths.requests(self._session_id)).append(done.to_record("done"))

    def _finish(self, lock: OpenFile, session_id: str, intent: Intent, *, is_new: bool) -> None:
        """Write what an intent announced and is not there yet; then say that it is done."""
        redo = intent.redo
        # Another process on this root may keep its feedback elsewhere; the entry belongs there.
        feedback = Path(redo.get("feedbackPath") or self._paths.feedback)
        place = Place(feedback, redo.get("feedbackSize"), redo.get("feedbackTag"))
        self._write(place, redo["entries"], is_new=is_new)
        crash_point("lab.step.after_entries")
        if redo.get("experiment"):
            size, tag = redo.get("experimentsSize"), redo.get("experimentsTag")
            place = Place(self._paths.experiments, size, tag)
            self._write(place, [redo["experiment"]], is_new=is_new)
        crash_point("lab.step.after_experiment")
        self._announce_writer(lock, session_id)
        # Not synced: without this line the next one who takes the lock finds everything there.
        ending = self._journal(self._paths.requests(session_id), sync=False)
        ending.append(intent.to_record("done"))
        crash_point("lab.step.after_done")

    def _write(self, place: Place, records: list[Record], *, is_new: bool) -> None:
        """Append those records that are not behind the place yet, and see that they are.

        Other tools write without our lock: half a line of theirs can come between our look at the
        end and our write, and make ours unreadable. Then it is written once more.
        """
        if not records:
            return
        if is_new:
            self._journal(place.path).append(*records)
        for _ in range(WRITES_MAX):
            # Whoever wrote what is there may have died before the sync; reading makes up for it.
            there = {_name(each) for each in self._since(place)}
            missing = [each for each in records if _name(each) not in there]
            if not missing:
                return
            self._journal(place.path).append(*missing)
        message = f"another program writes into {place.path} over and over"
        fix = "send the request again with the same request id; `onceward journal verify` looks"
        raise OutcomeUnknown(message, fix=fix, path=str(place.path))

    def _since(self, place: Place) -> list[Record]:
        """Return what a file holds behind the place that an intent noted, and have it on disk."""
        journal = self._journal(place.path)
        try:
            return _drain(journal, place.since or START, place.tag)
        except InvalidCursor:
            return _drain(journal, START, None)  # Replaced or cut since: look at all of it.

    def _end(self, path: Path, name: str) -> Record:
        """Return where a file ends now, as an intent notes it.

        It need not be on disk: after a power loss a place that does not fit is noticed by its tag.
        """
        since, tag = self._journal(path, sync=False).end()
        return {f"{name}Size": since, f"{name}Tag": tag}

    def _catch_up(self, lock: OpenFile, stat: FileStat) -> None:
        """Know what everybody has written; if that fails half-way, begin anew next time."""
        seen, self._seen = self._seen, (None, 0)
        self._requests.catch_up(self._writers(lock, stat, seen))
        self._seen = stat.identity, stat.size

    def _writers(
        self, lock: OpenFile, stat: FileStat, seen: tuple[tuple[int, int] | None, int]
    ) -> set[str] | None:
        """Return the sessions that may have written since we last looked; None is all of them.

        The names are not synced: after a power loss nobody is left who relies on them.
        """
        identity, offset = seen
        if identity != stat.identity or stat.size < offset:
            return None
        # The last one named may have written again without naming itself again.
        named = _names(lock, offset, stat.size)
        return {self._session_id, *(each for each in named if self._paths.is_session(each))}

    def _announce_writer(self, lock: OpenFile, session_id: str) -> None:
        """Name the session that is about to write, unless it is the last one named."""
        size = lock.stat().size
        if _names(lock, size, size)[-1:] != [session_id]:
            is_torn = size > 0 and lock.read(size - 1, 1) != b"\n"
            lock.write((b"\n" if is_torn else b"") + session_id.encode() + b"\n")

    def _journal(self, path: Path, *, sync: bool = True) -> Journal:
        return Journal(path, sync=sync, files=self._files, clock=self._clock)


class Turn:
    """The time in which nobody else changes this root."""

    def __init__(self, steps: Steps, lock: OpenFile, requests: Requests) -> None:
        """Act while the lock is held."""
        self._steps, self._lock, self._requests = steps, lock, requests

    def answered(self, request: Request) -> Record | None:
        """Return what this request was answered before; KeyReused when it was another one."""
        known = self._requests.known(request.request_id)
        if not known:
            self._check_settled(request.request_id, request.about)
            return None
        found = next(filter(request.fits, known), None)
        if found is None:
            message = f"requestId {request.request_id!r} was used for another request"
            raise KeyReused(message, fix="make a new request id", requestId=request.request_id)
        self._steps.rolled_forward.discard(request.request_id)
        return found.response

    def _check_settled(self, request_id: str, about: str | None) -> None:
        """Refuse what was announced and cannot be completed now: it is neither done nor new."""
        for _, intent in self._requests.unfinished():
            if intent.request_id == request_id or about == intent.entity_id:
                raise _in_doubt(intent.request_id, "its files cannot be written now")

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return what the one submission of an experiment was answered."""
        return self._requests.submission_of(experiment_id)

    def note(self, request: Request, entity_id: str, response: Record) -> None:
        """Write down what a request was answered whose effect is idempotent and on disk already."""
        self._steps.note(self._lock, request, entity_id, response)

    def settle(self, request: Request, plan: Plan) -> Record:
        """Do what a new request asks, once, and return its answer."""
        self._steps.settle(self._lock, request, plan)
        return plan.response


def _in_doubt(request_id: str, why: str) -> OutcomeUnknown:
    message = f"request {request_id!r} is announced and not yet completed: {why}"
    fix = "send it again with the same request id"
    return OutcomeUnknown(message, fix=fix, requestId=request_id)


def _name(record: Record) -> tuple[str, ...]:
    """Return what tells a line from all others: an entry's id, or an experiment and its moment."""
    return tuple(str(record.get(key)) for key in ("id", "experimentId", "updatedAt"))


def _names(lock: OpenFile, offset: int, end: int) -> list[str]:
    """Return the sessions named behind an offset, and at least the last one before it."""
    start = max(0, offset - NAME_BYTES_MAX)
    lines = lock.read(start, end - start).split(b"\n")
    whole = lines[1 if start else 0 : -1]
    return [each.decode("ascii", "replace") for each in whole if each]


def _drain(journal: Journal, since: str, tag: str | None) -> list[Record]:
    items: list[Record] = []
    while True:
        page = journal.read(since, tag=tag)
        items += page.items
        if page.next_cursor == since:
            return items
        since, tag = page.next_cursor, page.tag

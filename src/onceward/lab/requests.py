"""Requests: every request id of a root, whatever the session, and what it was answered.

Catches up from where it last read. The latest answers are in memory; of the others, only in which
session each stands. Reads only; the steps write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from onceward.errors import InvalidCursor, NotCanonical
from onceward.journal import Journal, Page, Record
from onceward.journal.cursor import START
from onceward.keys import compact_json
from onceward.lab.paths import LabPaths
from onceward.seams import Clock, Files

FEEDBACK: Final = "feedback"
EXPERIMENT_SUBMIT: Final = "experiment_submit"
EXPERIMENT_CREATE: Final = "experiment_create"
RUN_IMPORT: Final = "run_import"
EXPORT: Final = "export"
#: Request ids whose answers are held in memory; an older one is read again when it comes again.
ANSWERS_MAX: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """Everything that one request will write, known before any of it is written."""

    request_id: str
    #: What kind of request it is, such as feedback or experiment_submit.
    type: str
    #: The entry, the experiment, the run or the export that it made or decided.
    entity_id: str
    created_at: str
    #: What tells two requests with one id apart.
    fingerprint: str
    #: What the request is answered.
    response: Record
    #: What to write, and from where to look whether it is there already.
    redo: Record

    def to_record(self, state: str) -> Record:
        """Return the line that announces it, or the one that ends it."""
        record: Record = {
            "requestId": self.request_id,
            "type": self.type,
            "entityId": self.entity_id,
            "createdAt": self.created_at,
            "fingerprint": self.fingerprint,
            "state": state,
            "response": self.response,
        }
        return {**record, "redo": self.redo} if state == "intent" else record


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A request id that has an answer."""

    #: What kind of request it was, and what it made or decided.
    type: str
    entity_id: str
    #: None when another program wrote it down, without one.
    fingerprint: str | None
    response: Record


class Requests:
    """The request ids of one root; not safe for threads, the root's lock is held around it."""

    def __init__(self, paths: LabPaths, *, files: Files, clock: Clock) -> None:
        """Know nothing yet."""
        self._paths, self._files, self._clock = paths, files, clock
        #: The answers of the latest request ids, and the sessions in which those of all stand.
        self._known: OrderedDict[str, list[Known]] = OrderedDict()
        self._places: dict[str, tuple[str, ...]] = {}
        self._submissions: dict[str, Record] = {}
        self._unfinished: dict[str, tuple[str, Intent]] = {}
        #: Cursor and tag by session.
        self._read: dict[str, tuple[str, str]] = {}

    def known(self, request_id: str) -> list[Known]:
        """Return what a request id was answered; more than once only by programs other than ours.

        The original Lab knows request ids by session, and may have used one in several.
        """
        if request_id not in self._known and request_id in self._places:
            self._known[request_id] = []
            try:
                for session_id in self._places[request_id]:
                    self._take_again(session_id, request_id)
            except BaseException:
                # Half of the answers would let a retry look like a new request.
                self._known.pop(request_id, None)
                raise
        return self._known.get(request_id, [])

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return what the one submission of an experiment was answered."""
        return self._submissions.get(experiment_id)

    def unfinished(self) -> list[tuple[str, Intent]]:
        """Return what was announced and not ended, each with the session that announced it."""
        return list(self._unfinished.values())

    def catch_up(self, sessions: Iterable[str] | None) -> None:
        """Read what these sessions have written since; None is all of them."""
        try:
            for session_id in self._all_sessions() if sessions is None else sessions:
                self._catch_up(session_id)
        except InvalidCursor:
            # A file was replaced or cut: what it said before may be wrong, so begin again.
            self._known.clear()
            self._places.clear()
            self._submissions.clear()
            self._unfinished.clear()
            self._read.clear()
            for session_id in self._all_sessions():
                self._catch_up(session_id)

    def _all_sessions(self) -> list[str]:
        """Return every session that could have written; what only looks like one is left out."""
        names = self._files.names(self._paths.sessions)
        return [name for name in names if self._paths.is_session(name)]

    def _catch_up(self, session_id: str) -> None:
        for page in self._pages(session_id, *self._read.get(session_id, (START, START))):
            for record in page.items:
                self._take(session_id, record)
            self._read[session_id] = page.next_cursor, page.tag

    def _take_again(self, session_id: str, request_id: str) -> None:
        """Find the answer to a request id in its session."""
        for page in self._pages(session_id, START, START):
            for record in page.items:
                if record.get("requestId") == request_id and record.get("state") != "intent":
                    self._take(session_id, record)

    def _pages(self, session_id: str, since: str, tag: str) -> Iterator[Page]:
        # What is read is written down nowhere, so nothing has to be on disk first.
        journal = Journal(
            self._paths.requests(session_id), sync=False, files=self._files, clock=self._clock
        )
        while True:
            page = journal.read(since, tag=tag)
            yield page
            if page.next_cursor == since:
                return
            since, tag = page.next_cursor, page.tag

    def _take(self, session_id: str, record: Record) -> None:
        request_id, kind = record.get("requestId"), record.get("type")
        if not isinstance(request_id, str) or not isinstance(kind, str):
            return
        if record.get("state") == "intent":
            intent = _intent(record)
            if intent is not None and session_id not in self._places.get(request_id, ()):
                self._unfinished[intent.request_id] = session_id, intent
            return
        response, entity_id = record.get("response"), _entity(record)
        if entity_id is None:
            return
        if not isinstance(response, dict):
            response = _plain_response(kind, entity_id)
        fingerprint = record.get("fingerprint")
        known = Known(
            type=kind,
            entity_id=entity_id,
            fingerprint=fingerprint if isinstance(fingerprint, str) else None,
            response=response,
        )
        # The original Lab may use an id of ours in a session of its own: our intent stays.
        if self._unfinished.get(request_id, ("",))[0] == session_id:
            del self._unfinished[request_id]
        self._hold(session_id, request_id, known)
        if kind == EXPERIMENT_SUBMIT:
            self._submissions.setdefault(entity_id, response)

    def _hold(self, session_id: str, request_id: str, known: Known) -> None:
        """Note where an answer stands, and keep it in memory if it is among the latest."""
        places = self._places.get(request_id, ())
        if session_id not in places:
            self._places[request_id] = (*places, session_id)
        # An id whose answers were dropped from memory is read again as a whole when it comes again.
        if request_id in self._known or not places:
            held = self._known.setdefault(request_id, [])
            if known not in held:
                held.append(known)
        if len(self._known) > ANSWERS_MAX:
            self._known.popitem(last=False)


def _entity(record: Record) -> str | None:
    """Return what a request made or decided; the original Lab names it in the response only."""
    found = record.get("entityId")
    response = record.get("response")
    if found is None and isinstance(response, dict):
        is_decision = record["type"] == EXPERIMENT_SUBMIT
        found = response.get("experimentId" if is_decision else "feedbackId")
    return found if isinstance(found, str) else None


def _plain_response(kind: str, entity_id: str) -> Record:
    """Return the answer of a mapping in its smallest form, which holds only an id."""
    if kind == EXPERIMENT_SUBMIT:
        return {"experimentId": entity_id, "feedbackIds": []}
    return {"feedbackId": entity_id}


def _intent(record: Record) -> Intent | None:
    """Return what a line announces; None when it could not be carried out from this line."""
    redo: Any = record.get("redo")
    texts = [record.get(name) for name in ("entityId", "createdAt", "fingerprint")]
    if not isinstance(redo, dict) or not all(isinstance(each, str) for each in texts):
        return None
    entries, response = redo.get("entries"), record.get("response")
    if not isinstance(entries, list) or not isinstance(response, dict):
        return None
    if not all(isinstance(each, dict) and isinstance(each.get("id"), str) for each in entries):
        return None
    is_place = isinstance(redo.get("feedbackPath", ""), str)
    if not is_place or not isinstance(redo.get("experiment", {}), dict) or not _is_writable(redo):
        return None
    return Intent(
        request_id=record["requestId"],
        type=record["type"],
        entity_id=record["entityId"],
        created_at=record["createdAt"],
        fingerprint=record["fingerprint"],
        response=response,
        redo=redo,
    )


def _is_writable(redo: Record) -> bool:
    """Say whether what was read can be written again; damaged lines may hold what cannot."""
    try:
        compact_json(redo)
    except NotCanonical:
        return False
    return True

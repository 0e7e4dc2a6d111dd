"""Request ids: index the request ids of a Lab directory, over all sessions, with their responses.

Reads incrementally. The latest responses are in memory; of older ones, only their sessions. Writes
nothing; `intent_log` writes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from onceward.errors import InvalidCursor, NotCanonical
from onceward.journal import Journal, Record, RecordPage
from onceward.journal.byte_cursor import START
from onceward.keys import compact_json
from onceward.lab.lab_paths import LabPaths
from onceward.system import Clock, Files

FEEDBACK: Final = "feedback"
EXPERIMENT_SUBMIT: Final = "experiment_submit"
EXPERIMENT_CREATE: Final = "experiment_create"
RUN_IMPORT: Final = "run_import"
EXPORT: Final = "export"
#: Request ids whose responses are in memory; an older one is read again when it is requested.
ANSWERS_MAX: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Intent:
    """All records that one request will write, logged before the first of them is written."""

    request_id: str
    #: What kind of request it is, such as feedback or experiment_submit.
    type: str
    #: Id of the entry, experiment, run or export that it creates or decides.
    entity_id: str
    created_at: str
    #: Digest of the request body; detects a request id that is used for two requests.
    fingerprint: str
    #: The response to the request.
    response: Record
    #: The records to write, and the file positions after which to look for them.
    redo: Record

    def to_record(self, state: str) -> Record:
        """Return the line of the intent, or the done line."""
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
class RecordedResponse:
    """The recorded response of a request id."""

    #: Type of the request, and id of the entity that it created or decided.
    type: str
    entity_id: str
    #: None if another program recorded it, without a fingerprint.
    fingerprint: str | None
    response: Record


class RequestIdIndex:
    """The request ids of one root. Not thread-safe: the caller holds the root's lock."""

    def __init__(self, paths: LabPaths, *, files: Files, clock: Clock) -> None:
        """Start empty; `catch_up` fills it."""
        self._paths, self._files, self._clock = paths, files, clock
        #: Responses of the latest request ids, and the sessions of all request ids.
        self._responses: OrderedDict[str, list[RecordedResponse]] = OrderedDict()
        self._sessions_by_id: dict[str, tuple[str, ...]] = {}
        self._submissions: dict[str, Record] = {}
        self._unfinished: dict[str, tuple[str, Intent]] = {}
        #: Cursor and tag by session.
        self._positions: dict[str, tuple[str, str]] = {}

    def responses_to(self, request_id: str) -> list[RecordedResponse]:
        """Return the recorded responses of a request id; usually one.

        The original Lab scopes request ids by session, so one id may be used in several.
        """
        if request_id not in self._responses and request_id in self._sessions_by_id:
            self._responses[request_id] = []
            try:
                for session_id in self._sessions_by_id[request_id]:
                    self._reload(session_id, request_id)
            except BaseException:
                # With a part of the responses, a retry could look like a new request.
                self._responses.pop(request_id, None)
                raise
        return self._responses.get(request_id, [])

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return the response to the one submission of an experiment."""
        return self._submissions.get(experiment_id)

    def unfinished(self) -> list[tuple[str, Intent]]:
        """Return the intents without a done line, each with its session."""
        return list(self._unfinished.values())

    def catch_up(self, sessions: Iterable[str] | None) -> None:
        """Read new lines of these sessions; None is all sessions."""
        try:
            for session_id in self._all_sessions() if sessions is None else sessions:
                self._catch_up(session_id)
        except InvalidCursor:
            # A file was replaced or truncated, so earlier lines may be invalid: read all again.
            self._responses.clear()
            self._sessions_by_id.clear()
            self._submissions.clear()
            self._unfinished.clear()
            self._positions.clear()
            for session_id in self._all_sessions():
                self._catch_up(session_id)

    def _all_sessions(self) -> list[str]:
        """Return all sessions of the root; files and links of that name are skipped."""
        names = self._files.names(self._paths.sessions)
        return [name for name in names if self._paths.is_session(name)]

    def _catch_up(self, session_id: str) -> None:
        for page in self._pages(session_id, *self._positions.get(session_id, (START, START))):
            for record in page.items:
                self._index(session_id, record)
            self._positions[session_id] = page.next_cursor, page.tag

    def _reload(self, session_id: str, request_id: str) -> None:
        """Read the responses of a request id from its session again."""
        for page in self._pages(session_id, START, START):
            for record in page.items:
                if record.get("requestId") == request_id and record.get("state") != "intent":
                    self._index(session_id, record)

    def _pages(self, session_id: str, since: str, tag: str) -> Iterator[RecordPage]:
        # No durable record depends on these reads, so they need no sync.
        journal = Journal(
            self._paths.requests(session_id), sync=False, files=self._files, clock=self._clock
        )
        while True:
            page = journal.read(since, tag=tag)
            yield page
            if page.next_cursor == since:
                return
            since, tag = page.next_cursor, page.tag

    def _index(self, session_id: str, record: Record) -> None:
        request_id, kind = record.get("requestId"), record.get("type")
        if not isinstance(request_id, str) or not isinstance(kind, str):
            return
        if record.get("state") == "intent":
            intent = _parse_intent(record)
            if intent is not None and session_id not in self._sessions_by_id.get(request_id, ()):
                self._unfinished[intent.request_id] = session_id, intent
            return
        response, entity_id = record.get("response"), _entity_id(record)
        if entity_id is None:
            return
        if not isinstance(response, dict):
            response = _minimal_response(kind, entity_id)
        fingerprint = record.get("fingerprint")
        known = RecordedResponse(
            type=kind,
            entity_id=entity_id,
            fingerprint=fingerprint if isinstance(fingerprint, str) else None,
            response=response,
        )
        # The original Lab may use the same id in another session: our intent stays.
        if self._unfinished.get(request_id, ("",))[0] == session_id:
            del self._unfinished[request_id]
        self._remember(session_id, request_id, known)
        if kind == EXPERIMENT_SUBMIT:
            self._submissions.setdefault(entity_id, response)

    def _remember(self, session_id: str, request_id: str, known: RecordedResponse) -> None:
        """Index the session of a response, and cache the response if it is recent."""
        places = self._sessions_by_id.get(request_id, ())
        if session_id not in places:
            self._sessions_by_id[request_id] = (*places, session_id)
        # An evicted id is not cached partly: its responses are read again together.
        if request_id in self._responses or not places:
            held = self._responses.setdefault(request_id, [])
            if known not in held:
                held.append(known)
        if len(self._responses) > ANSWERS_MAX:
            self._responses.popitem(last=False)


def _entity_id(record: Record) -> str | None:
    """Return the entity id of a request; the original Lab stores it in the response only."""
    found = record.get("entityId")
    response = record.get("response")
    if found is None and isinstance(response, dict):
        is_decision = record["type"] == EXPERIMENT_SUBMIT
        found = response.get("experimentId" if is_decision else "feedbackId")
    return found if isinstance(found, str) else None


def _minimal_response(kind: str, entity_id: str) -> Record:
    """Return the response for a line that stores only an entity id."""
    if kind == EXPERIMENT_SUBMIT:
        return {"experimentId": entity_id, "feedbackIds": []}
    return {"feedbackId": entity_id}


def _parse_intent(record: Record) -> Intent | None:
    """Return the intent of a line, or None if it is incomplete or invalid."""
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
    """Return whether the records can be serialized; those of damaged lines may not."""
    try:
        compact_json(redo)
    except NotCanonical:
        return False
    return True

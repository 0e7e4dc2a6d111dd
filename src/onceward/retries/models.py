"""Retry models: messages, their failures and attempts, and dead letters. Knows no store."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NewType, Self

import orjson

from onceward.errors import InvalidArgument
from onceward.system import timestamp

#: The id of a dead letter; permanent for one message of one cursor.
LetterId = NewType("LetterId", int)
#: `key`: a parked message blocks later ones of its key. `none`: it blocks only itself.
Order = Literal["key", "none"]
#: `dead` waits for an operator, `redriven` was requeued, `dropped` was discarded.
LetterState = Literal["dead", "redriven", "dropped"]
#: What failed: a message of a worker's cursor, or messages of a chat group.
LetterSource = Literal["worker", "chat"]

MESSAGE_CHARACTERS_MAX: Final = 2_000
TRACE_CHARACTERS_MAX: Final = 8_192
#: Limit of the failed attempts that are stored per message; the latest are kept.
FAILURES_MAX: Final = 20
_SUMMARY_CHARACTERS_MAX: Final = 200
#: The dual cursor of all chat groups.
CHAT_CURSOR: Final = "dispatch"


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryMessage:
    """A message of a cursor, as the source returned it."""

    #: The cursor that read it.
    cursor: str
    #: Its position in the source; opaque and unique.
    position: str
    #: Its bytes, decodable or not.
    raw: bytes
    #: Messages with the same key keep their order; None: no ordering.
    key: str | None = None

    def __post_init__(self) -> None:
        """Reject names that not every engine can store."""
        for field, value in (("cursor", self.cursor), ("position", self.position)):
            check_text(field, value)
        if self.key is not None:
            check_text("key", self.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The error of one attempt, truncated."""

    #: The error's class, such as `ValueError`.
    type: str
    message: str
    #: The beginning of the traceback.
    trace: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Describe an exception."""
        trace = "".join(traceback.format_exception(error))
        try:
            said = str(error)
        except Exception:  # noqa: BLE001 - an error that cannot be printed is still a failure
            said = "its message cannot be printed"
        return cls(type=type(error).__qualname__, message=said, trace=trace)

    def __post_init__(self) -> None:
        """Truncate long fields, and escape characters that no database stores."""
        object.__setattr__(self, "type", _truncated(self.type, _SUMMARY_CHARACTERS_MAX))
        object.__setattr__(self, "message", _truncated(self.message, MESSAGE_CHARACTERS_MAX))
        object.__setattr__(self, "trace", _truncated(self.trace, TRACE_CHARACTERS_MAX))

    @property
    def summary(self) -> str:
        """Return class and message in one line."""
        line = f"{self.type}: {self.message}" if self.message else self.type
        return " ".join(line.split())[:_SUMMARY_CHARACTERS_MAX]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """One attempt that failed."""

    #: Number of the attempt, from 1.
    attempt: int
    at: datetime
    #: The error in one line.
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """The message will be tried again."""

    #: How many attempts have failed; 0 for one that is only blocked by its key.
    attempt: int
    #: Seconds until it is due; a message that is blocked by its key waits for that, too.
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Dead:
    """The message is a dead letter: it is not retried automatically."""

    #: Its dead letter.
    letter: LetterId


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """The failed attempts of a message that blocks its cursor."""

    #: How many attempts have failed.
    attempt: int
    #: Seconds until the next attempt; below 0 when it is due.
    wait_seconds: float
    due_at: datetime
    failures: tuple[FailedAttempt, ...]
    first_failed_at: datetime

    @property
    def is_due(self) -> bool:
        """Return whether its due time has passed."""
        return self.wait_seconds < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Parked:
    """A parked message that is due, in its state when it was read."""

    id: int
    message: RetryMessage
    #: The order of parking, cursor by cursor.
    sequence: int
    #: How many attempts have failed; also the fence: a later failure makes this handle stale.
    attempt: int
    order: Order
    #: None: due since it was parked, or since its key was unblocked.
    due_at: datetime | None
    failures: tuple[FailedAttempt, ...]
    first_failed_at: datetime | None
    parked_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ParkedSummary:
    """The numbers of parked messages and blocked keys of a cursor."""

    messages: int
    #: Keys that are blocked.
    keys: int
    #: Seconds until the next one is due, 0 or less when one is; None when nothing is parked.
    next_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRange:
    """The messages of a chat letter, and their last failed delivery."""

    group: str
    #: Arrival numbers, both inclusive.
    first_seq: int
    last_seq: int
    delivery: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetter:
    """A dead letter of a worker message or of several chat messages, without their content."""

    id: LetterId
    cursor: str
    position: str
    key: str | None
    state: LetterState
    error_type: str
    error_message: str
    #: Failed attempts since the message was last requeued.
    attempts: int
    first_failed_at: datetime
    dead_at: datetime
    redrive_count: int
    changed_at: datetime
    #: The operator who redrove or dropped it, and the reason.
    changed_by: str
    reason: str
    source: LetterSource
    #: Of chat letters, else None: the group, its messages' arrival numbers, the failed delivery.
    group: str | None
    first_seq: int | None
    last_seq: int | None
    delivery: int | None
    #: 0 for chat letters, whose messages stay in the conversation.
    raw_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterDetail(DeadLetter):
    """A dead letter with its message, trace and attempts."""

    raw: bytes
    error_trace: str
    failures: tuple[FailedAttempt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadFilter:
    """Selects dead letters; a field that is None matches all."""

    cursor: str | None = None
    key: str | None = None
    #: Selects the chat letters of this group.
    group: str | None = None
    #: Substring of the error type or message, ignoring case.
    error: str | None = None
    source: LetterSource | None = None
    #: Selects letters that died at this time or later.
    since: datetime | None = None
    #: Limit of the selection; the oldest come first.
    limit: int = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RequeueTarget:
    """Where a redrive would requeue some dead letters."""

    cursor: str
    #: None: each is requeued by itself.
    key: str | None
    #: The number of letters.
    letters: int
    #: How many messages with this key are parked now.
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Redriven:
    """The result of a redrive."""

    #: The letters whose messages were requeued.
    ids: tuple[LetterId, ...]
    #: Not changed: redriven or dropped before.
    skipped: tuple[LetterId, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """Which dead letters a drop changed."""

    ids: tuple[LetterId, ...]
    #: Not changed: redriven or dropped before.
    skipped: tuple[LetterId, ...]


def chat_cursor(group: str) -> str:
    """Return the cursor name of a chat group's dead letters."""
    return f"{CHAT_CURSOR}/{group}"


def check_text(field: str, value: str) -> None:
    """Raise InvalidArgument for text that is empty or that no database can store."""
    try:
        is_fine = bool(value.encode()) and "\x00" not in value
    except UnicodeEncodeError:
        is_fine = False
    if not is_fine:
        message = f"{field}: {value[:80]!r} is empty, or has a NUL or an unpaired surrogate"
        raise InvalidArgument(
            message, fix="pass a text that is not empty and has neither", field=field
        )


def to_utc(value: str | datetime) -> datetime:
    """Return a time, as either engine returns it, in UTC."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.astimezone(UTC)


def failed_attempts(text: str) -> tuple[FailedAttempt, ...]:
    """Parse the failed attempts of a row."""
    return tuple(
        FailedAttempt(attempt=each["attempt"], at=to_utc(each["at"]), error=each["error"])
        for each in orjson.loads(text)
    )


def failures_text(failures: tuple[FailedAttempt, ...]) -> str:
    """Encode failed attempts for a row."""
    rows = [
        {"attempt": each.attempt, "at": timestamp(each.at), "error": each.error}
        for each in failures
    ]
    return orjson.dumps(rows).decode()


def _truncated(text: str, characters_max: int) -> str:
    cut = text[:characters_max].replace("\x00", "\\x00")
    return cut.encode(errors="backslashreplace").decode()[:characters_max]

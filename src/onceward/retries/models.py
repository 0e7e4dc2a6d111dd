"""Models: messages, what went wrong with them, and where they wait. Knows no store."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NewType, Self

import orjson

from onceward.errors import InvalidArgument
from onceward.seams import timestamp

#: The number of a dead letter, the same for one message of one cursor for good.
LetterId = NewType("LetterId", int)
#: `key`: later messages of the same key line up behind it. `none`: it waits alone.
Order = Literal["key", "none"]
#: `dead` waits for a person, `redriven` was put back, `dropped` was given up with a reason.
LetterState = Literal["dead", "redriven", "dropped"]

MESSAGE_CHARACTERS_MAX: Final = 2_000
TRACE_CHARACTERS_MAX: Final = 8_192
#: How many failed attempts are kept in full, the latest ones.
FAILURES_MAX: Final = 20
_SUMMARY_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message of a cursor, as it came."""

    #: The cursor that read it.
    cursor: str
    #: Where it stands in the source; opaque, and another one for every message.
    position: str
    #: Its bytes, decodable or not.
    raw: bytes
    #: Messages with the same key keep their order; None is no such wish.
    key: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that not every engine can store."""
        for field, value in (("cursor", self.cursor), ("position", self.position)):
            check_text(field, value)
        if self.key is not None:
            check_text("key", self.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What went wrong in one attempt, cut to a size that can be kept."""

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
        """Cut what is too long and write what no database takes in another way."""
        object.__setattr__(self, "type", _kept(self.type, _SUMMARY_CHARACTERS_MAX))
        object.__setattr__(self, "message", _kept(self.message, MESSAGE_CHARACTERS_MAX))
        object.__setattr__(self, "trace", _kept(self.trace, TRACE_CHARACTERS_MAX))

    @property
    def summary(self) -> str:
        """Return one line about it."""
        line = f"{self.type}: {self.message}" if self.message else self.type
        return " ".join(line.split())[:_SUMMARY_CHARACTERS_MAX]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """One attempt that failed."""

    #: 1 for the first.
    attempt: int
    at: datetime
    #: One line.
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """The message will be tried again."""

    #: How many attempts have failed; 0 for one that only waits behind another.
    attempt: int
    #: How long it waits from now on; behind another it waits for that one too.
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Dead:
    """The message will not be tried again by itself."""

    #: The dead letter it is now.
    letter: LetterId


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A message that failed and holds its cursor."""

    #: How many attempts have failed.
    attempt: int
    #: Seconds until the next attempt; below 0 when it is due.
    wait_seconds: float
    due_at: datetime
    failures: tuple[FailedAttempt, ...]
    first_failed_at: datetime

    @property
    def is_due(self) -> bool:
        """Say whether its time has passed."""
        return self.wait_seconds < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Parked:
    """A parked message that is due, as it was when it was read."""

    id: int
    message: Message
    #: The order of parking, cursor by cursor.
    sequence: int
    #: How many attempts have failed; also the fence: a later failure makes this handle stale.
    attempt: int
    order: Order
    #: None: due since it was parked, or since the one before it went.
    due_at: datetime | None
    failures: tuple[FailedAttempt, ...]
    first_failed_at: datetime | None
    parked_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """What is parked for a cursor."""

    messages: int
    #: Keys whose messages line up.
    keys: int
    #: Seconds until the next one is due, 0 or less when one is; None when nothing is parked.
    next_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetter:
    """A message that was given up, without its bytes."""

    id: LetterId
    cursor: str
    position: str
    key: str | None
    state: LetterState
    error_type: str
    error_message: str
    #: Attempts that failed before it died, since it was last put back.
    attempts: int
    first_failed_at: datetime
    dead_at: datetime
    redrive_count: int
    changed_at: datetime
    #: Who redrove or dropped it, and why.
    changed_by: str
    reason: str
    raw_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterDetail(DeadLetter):
    """A dead letter with all that was kept."""

    raw: bytes
    error_trace: str
    failures: tuple[FailedAttempt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadFilter:
    """Which dead letters are meant; what is None does not matter."""

    cursor: str | None = None
    key: str | None = None
    #: Those that died at this time or later.
    since: datetime | None = None
    #: At most so many, the oldest first.
    limit: int = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Where some dead letters would line up if they were put back."""

    cursor: str
    #: None: each waits alone, behind nobody.
    key: str | None
    #: How many of them.
    letters: int
    #: How many messages stand in that line now.
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Redriven:
    """What a redrive did."""

    #: Put back, due now.
    ids: tuple[LetterId, ...]
    #: Left alone: redriven or dropped before.
    skipped: tuple[LetterId, ...]


def check_text(field: str, value: str) -> None:
    """Refuse a name that is empty or that a database cannot store."""
    try:
        is_fine = bool(value.encode()) and "\x00" not in value
    except UnicodeEncodeError:
        is_fine = False
    if not is_fine:
        message = f"{field}: {value[:80]!r} is empty or has characters that no database stores"
        raise InvalidArgument(message, fix="pass text without NUL and surrogates", field=field)


def moment(value: str | datetime) -> datetime:
    """Return a time as either engine gives it, in UTC."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.astimezone(UTC)


def failed_attempts(text: str) -> tuple[FailedAttempt, ...]:
    """Read the attempts that a row keeps."""
    return tuple(
        FailedAttempt(attempt=each["attempt"], at=moment(each["at"]), error=each["error"])
        for each in orjson.loads(text)
    )


def failures_text(failures: tuple[FailedAttempt, ...]) -> str:
    """Write attempts as a row keeps them."""
    rows = [
        {"attempt": each.attempt, "at": timestamp(each.at), "error": each.error}
        for each in failures
    ]
    return orjson.dumps(rows).decode()


def _kept(text: str, characters_max: int) -> str:
    cut = text[:characters_max].replace("\x00", "\\x00")
    return cut.encode(errors="backslashreplace").decode()[:characters_max]

"""Dead letter views: pages of dead letters, with their messages, and redrive plans for the API."""

from __future__ import annotations

import base64
import codecs
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceward.console.actions import check_seen
from onceward.console.conversation_views import MESSAGES_MAX, MessageExcerpt, excerpt_of
from onceward.console.responses import ActionResult, extended, moment
from onceward.dispatch.models import GroupMessage
from onceward.errors import DeadLetterMissing
from onceward.retries import DeadFilter, DeadLetter, DeadLetterDetail, DeadLetters, RequeueTarget
from onceward.retries.models import LetterSource, LetterState
from onceward.system import timestamp

#: How many letters one redrive requeues.
REDRIVE_MAX: Final = 1_000
#: Longer messages are cut to this size.
RAW_BYTES_MAX: Final = 256 * 1024
SAMPLE_MAX: Final = 5
LINES_MAX: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class LetterItem:
    """A dead letter in a list; see `DeadLetter`."""

    id: int
    cursor: str
    position: str
    key: str | None
    state: LetterState
    error_type: str
    error_message: str
    attempts: int
    first_failed_at: str
    dead_at: str
    redrive_count: int
    changed_at: str
    changed_by: str
    reason: str
    source: LetterSource
    group: str | None
    first_seq: int | None
    last_seq: int | None
    delivery: int | None
    raw_size: int
    #: Pass it as `seen` of an action.
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LetterAttempt:
    """One failed attempt at a message."""

    attempt: int
    at: str
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LetterDetail(LetterItem):
    """A dead letter with its message or chat messages, and where a redrive requeues it."""

    error_trace: str
    failures: list[LetterAttempt]
    #: None if it is not text.
    raw_text: str | None
    raw_base64: str
    #: Whether the message is longer than what is shown.
    raw_is_cut: bool
    line: RequeueTarget | None
    #: The first chat messages of the letter.
    messages: list[MessageExcerpt]
    messages_count: int
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LetterChange(ActionResult):
    """A letter that was dropped."""

    letter: LetterItem


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorShare:
    """How many letters of a redrive a cursor has."""

    cursor: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedriveLine:
    """How many letters of a redrive have a key, and what is parked with that key now."""

    cursor: str
    key: str | None
    count: int
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RedriveResult(ActionResult):
    """The plan of a redrive, or what it did."""

    count: int
    ids: list[int]
    #: Letters that were redriven or dropped before.
    skipped: list[int]
    sample: list[LetterItem]
    cursors: list[CursorShare]
    lines: list[RedriveLine]
    lines_total: int
    #: Whether the cursor has more letters than one call redrives; then call again.
    is_cut: bool


def version_of(letter: DeadLetter) -> str:
    """Return a letter's version; an action that saw another version is rejected."""
    return f"{letter.state}.{letter.redrive_count}"


def item_of(letter: DeadLetter) -> LetterItem:
    """Return a letter for a list."""
    return extended(
        LetterItem,
        letter,
        first_failed_at=timestamp(letter.first_failed_at),
        dead_at=timestamp(letter.dead_at),
        changed_at=timestamp(letter.changed_at),
        version=version_of(letter),
    )


def detail_of(
    letter: DeadLetterDetail, lines: Sequence[RequeueTarget], messages: Sequence[GroupMessage]
) -> LetterDetail:
    """Return a letter with its message or chat messages, and where a redrive requeues it."""
    raw, is_cut = letter.raw[:RAW_BYTES_MAX], letter.raw_size > RAW_BYTES_MAX
    return extended(
        LetterDetail,
        item_of(letter),
        error_trace=letter.error_trace,
        failures=[extended(LetterAttempt, each, at=timestamp(each.at)) for each in letter.failures],
        raw_text=_text(raw, is_cut=is_cut),
        raw_base64=base64.b64encode(raw).decode(),
        raw_is_cut=is_cut,
        line=lines[0] if lines else None,
        messages=[excerpt_of(each) for each in messages[:MESSAGES_MAX]],
        messages_count=len(messages),
        as_of=moment(),
    )


def _text(raw: bytes, *, is_cut: bool) -> str | None:
    """Return a message as text, without a character that the cut has split; None if binary."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(raw, final=not is_cut)
    except UnicodeDecodeError:
        return None


def chosen(
    dead: DeadLetters,
    ids: Sequence[int] | None,
    wanted: DeadFilter | None = None,
    *,
    read: Callable[[Sequence[int]], list[DeadLetter]] | None = None,
) -> tuple[list[DeadLetter], bool]:
    """Return the selected dead letters, and whether there are more than one call takes.

    Locks them if the caller will change them.
    """
    is_cut = False
    if ids is None:
        found = dead.matching(replace(wanted or DeadFilter(), limit=REDRIVE_MAX + 1))
        ids, is_cut = found[:REDRIVE_MAX], len(found) > REDRIVE_MAX
    letters = (read or dead.get_many)(ids)
    missing = sorted(set(ids) - {letter.id for letter in letters})
    if missing:
        message = f"there is no dead letter {missing[0]}"
        raise DeadLetterMissing(message, id=missing[0])
    return letters, is_cut


def check_versions(letters: Sequence[DeadLetter], seen: Mapping[str, str] | None) -> None:
    """Raise Conflict if a letter changed since the operator saw it."""
    for letter in letters:
        check_seen(f"dead letter {letter.id}", (seen or {}).get(str(letter.id)), version_of(letter))


def plan_of(
    letters: Sequence[DeadLetter], lines: Sequence[RequeueTarget], *, is_cut: bool
) -> RedriveResult:
    """Return the plan of a redrive of these letters."""
    dead = [letter for letter in letters if letter.state == "dead"]
    by_cursor = Counter(letter.cursor for letter in dead)
    return RedriveResult(
        count=len(dead),
        ids=[letter.id for letter in dead],
        skipped=[letter.id for letter in letters if letter.state != "dead"],
        sample=[item_of(letter) for letter in dead[:SAMPLE_MAX]],
        cursors=[CursorShare(cursor=name, count=count) for name, count in by_cursor.most_common()],
        lines=[extended(RedriveLine, each, count=each.letters) for each in lines[:LINES_MAX]],
        lines_total=len(lines),
        is_cut=is_cut,
    )

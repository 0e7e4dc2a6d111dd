"""Dead letter views: pages of dead letters, with their messages, and redrive plans for the API."""

from __future__ import annotations

import base64
import codecs
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from onceward.console.actions import check_seen
from onceward.console.conversation_views import MESSAGES_MAX, plain_message
from onceward.dispatch.models import GroupMessage
from onceward.errors import DeadLetterMissing
from onceward.retries import DeadFilter, DeadLetter, DeadLetterDetail, DeadLetters, RequeueTarget
from onceward.retries.views import plain

#: How many letters one redrive requeues.
REDRIVE_MAX: Final = 1_000
#: Longer messages are cut to this size.
RAW_BYTES_MAX: Final = 256 * 1024
SAMPLE_MAX: Final = 5
LINES_MAX: Final = 50


def version_of(letter: DeadLetter) -> str:
    """Return a letter's version; an action that saw another version is rejected."""
    return f"{letter.state}.{letter.redrive_count}"


def item_of(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as JSON for a list."""
    return {**plain(letter), "version": version_of(letter)}


def detail_of(
    letter: DeadLetterDetail, lines: Sequence[RequeueTarget], messages: Sequence[GroupMessage]
) -> dict[str, Any]:
    """Return a letter with its message or chat messages, and where a redrive requeues it."""
    raw, is_cut = letter.raw[:RAW_BYTES_MAX], letter.raw_size > RAW_BYTES_MAX
    return {
        **plain(letter),
        "version": version_of(letter),
        "raw_text": _text(raw, is_cut=is_cut),
        "raw_base64": base64.b64encode(raw).decode(),
        "raw_is_cut": is_cut,
        "line": asdict(lines[0]) if lines else None,
        "messages": [plain_message(each) for each in messages[:MESSAGES_MAX]],
        "messages_count": len(messages),
    }


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
) -> dict[str, Any]:
    """Return the plan of a redrive of these letters."""
    dead = [letter for letter in letters if letter.state == "dead"]
    by_cursor = Counter(letter.cursor for letter in dead)
    return {
        "count": len(dead),
        "ids": [letter.id for letter in dead],
        "skipped": [letter.id for letter in letters if letter.state != "dead"],
        "sample": [item_of(letter) for letter in dead[:SAMPLE_MAX]],
        "cursors": [{"cursor": name, "count": count} for name, count in by_cursor.most_common()],
        "lines": [
            {"cursor": each.cursor, "key": each.key, "count": each.letters, "waiting": each.waiting}
            for each in lines[:LINES_MAX]
        ],
        "lines_total": len(lines),
        #: Whether the cursor has more letters than one call redrives; then call again.
        "is_cut": is_cut,
    }

"""Dead letter views: letters as the console shows them, and what a redrive of some would do."""

from __future__ import annotations

import base64
import codecs
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from onceward.console.acting import check_seen
from onceward.errors import DeadLetterMissing
from onceward.retries import DeadFilter, DeadLetter, DeadLetterDetail, DeadLetters, Line
from onceward.retries.views import plain

#: Letters that one redrive puts back.
REDRIVE_MAX: Final = 1_000
#: More of a message is not sent to a page.
RAW_BYTES_MAX: Final = 256 * 1024
SAMPLE_MAX: Final = 5
LINES_MAX: Final = 50


def version_of(letter: DeadLetter) -> str:
    """Return what names a state of a letter: an action that saw another is refused."""
    return f"{letter.state}.{letter.redrive_count}"


def item_of(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as lists show it."""
    return {**plain(letter), "version": version_of(letter)}


def detail_of(letter: DeadLetterDetail, lines: Sequence[Line]) -> dict[str, Any]:
    """Return all that was kept of a letter, and where its message would line up again."""
    raw, is_cut = letter.raw[:RAW_BYTES_MAX], letter.raw_size > RAW_BYTES_MAX
    return {
        **plain(letter),
        "version": version_of(letter),
        "raw_text": _text(raw, is_cut=is_cut),
        "raw_base64": base64.b64encode(raw).decode(),
        "raw_is_cut": is_cut,
        "line": asdict(lines[0]) if lines else None,
    }


def _text(raw: bytes, *, is_cut: bool) -> str | None:
    """Return a message that is text; a character in the middle of which it was cut is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(raw, final=not is_cut)
    except UnicodeDecodeError:
        return None


def chosen(
    dead: DeadLetters,
    ids: Sequence[int] | None,
    cursor: str | None = None,
    *,
    read: Callable[[Sequence[int]], list[DeadLetter]] | None = None,
) -> tuple[list[DeadLetter], bool]:
    """Return the letters that somebody means, and whether there are more than one call takes.

    Whoever is going to change them reads them so that nobody else does.
    """
    is_cut = False
    if ids is None:
        found = dead.matching(DeadFilter(cursor=cursor, limit=REDRIVE_MAX + 1))
        ids, is_cut = found[:REDRIVE_MAX], len(found) > REDRIVE_MAX
    letters = (read or dead.some)(ids)
    missing = sorted(set(ids) - {letter.id for letter in letters})
    if missing:
        message = f"there is no dead letter {missing[0]}"
        raise DeadLetterMissing(message, id=missing[0])
    return letters, is_cut


def check_versions(letters: Sequence[DeadLetter], seen: Mapping[str, str] | None) -> None:
    """Refuse to act upon letters that are not as they were seen."""
    for letter in letters:
        check_seen(f"dead letter {letter.id}", (seen or {}).get(str(letter.id)), version_of(letter))


def plan_of(
    letters: Sequence[DeadLetter], lines: Sequence[Line], *, is_cut: bool
) -> dict[str, Any]:
    """Return what a redrive of these letters does, before it is done."""
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
        #: Whether there are more of the cursor than one call takes: then do it again.
        "is_cut": is_cut,
    }

"""Facts: what each kind of envelope holds, field by field, in words and in code.

Owns the rules for the data of a fact. Knows neither the envelope around it nor who sends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, TypeGuard

from onceward.keys.stable import HEAD_BYTES_MAX

EXCERPT_CHARACTERS_MAX: Final = 500
#: What the result of a fix, and the status of its outcome, may be.
RESULTS: Final = ("proposed", "applied")
STATUSES: Final = ("verified_successful", "failed", "partially_effective")

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


class Rule(NamedTuple):
    """What a value must be, in words and in code."""

    wanted: str
    is_met: Callable[[object], bool]
    is_required: bool = True

    def maybe(self) -> Rule:
        """Return the rule for a field that may be left out."""
        return self._replace(is_required=False)


def is_text(value: object) -> TypeGuard[str]:
    """Say whether this is text."""
    return isinstance(value, str)


def is_moment(value: object) -> TypeGuard[str]:
    """Say whether this is an ISO 8601 date with a time of day."""
    return is_text(value) and "T" in value and _is_date(value)


def is_url(value: object) -> TypeGuard[str]:
    """Say whether this is an absolute URL, at least in form."""
    return is_text(value) and _URL.fullmatch(value) is not None


def _is_date(value: object) -> bool:
    try:
        return is_text(value) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str | dict) for each in value)


def _one_of(*allowed: str) -> Rule:
    return Rule(f"one of {', '.join(allowed)}", lambda value: is_text(value) and value in allowed)


_TEXT: Final = Rule("text", is_text)
_FILLED: Final = Rule("text that is not empty", lambda value: is_text(value) and value != "")
_HEAD: Final = Rule(
    f"text of at most {HEAD_BYTES_MAX} bytes",
    lambda value: is_text(value) and len(value.encode(errors="replace")) <= HEAD_BYTES_MAX,
)
_EXCERPT: Final = Rule(
    f"text of at most {EXCERPT_CHARACTERS_MAX} characters",
    lambda value: is_text(value) and len(value) <= EXCERPT_CHARACTERS_MAX,
)
_ADDRESS: Final = Rule("an absolute URL", is_url)
_DATE: Final = Rule("an ISO 8601 date or time", _is_date)
_WHOLE: Final = Rule("a whole number", _is_whole)
#: The first time needs no number; any other time is another fact.
_AGAIN: Final = Rule(
    "a whole number, 2 or more", lambda value: isinstance(value, int) and value >= 2
)
_MILLISECONDS: Final = Rule("a number of milliseconds, not below 0", _is_count)
_BOOLEAN: Final = Rule("true or false", lambda value: isinstance(value, bool))
_LIST: Final = Rule("a list of texts or objects", _is_list)
_CONTEXT: Final = Rule("text or an object", lambda value: isinstance(value, str | dict))

_ISSUE: Final = {
    "normalizedKey": _FILLED,
    "kind": _FILLED,
    "message": _FILLED,
    "detector": _FILLED,
    "context": _CONTEXT.maybe(),
}
#: The fields of each kind, in their order.
FIELDS: Final[dict[str, dict[str, Rule]]] = {
    "command.exec": {
        "cmd": _FILLED,
        "cwd": _TEXT.maybe(),
        "exitCode": _WHOLE,
        "durationMs": _MILLISECONDS.maybe(),
        "stdoutHead": _HEAD.maybe(),
        "stderrHead": _HEAD.maybe(),
    },
    "error.capture": _ISSUE,
    "warning.capture": _ISSUE,
    "fix.apply": {
        "strategy": _FILLED,
        "changes": _LIST,
        "result": _one_of(*RESULTS),
        "attempt": _AGAIN.maybe(),
    },
    "fix.outcome": {
        "fixId": _FILLED,
        "status": _one_of(*STATUSES),
        "verificationMethod": _FILLED,
        "durationToVerify": _MILLISECONDS,
        "sideEffects": _LIST,
    },
    "doc.note": {
        "url": _ADDRESS,
        "title": _TEXT.maybe(),
        "site": _TEXT.maybe(),
        "author": _TEXT.maybe(),
        "published_at": _TEXT.maybe(),
        "accessed_at": _DATE,
        "archive_url": _ADDRESS.maybe(),
        "excerpt": _EXCERPT.maybe(),
    },
    "run.summary": {
        "summary": _TEXT,
        "keyEvents": _LIST,
        "success": _BOOLEAN,
        "durationMs": _MILLISECONDS,
    },
}

"""Fact schema: the required and optional fields of each kind of fact.

Defines and validates the data of a fact, without its envelope and its origin.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, TypeGuard

from onceward.keys.stable import HEAD_BYTES_MAX

EXCERPT_CHARACTERS_MAX: Final = 500
#: Allowed results of a fix, and allowed statuses of its outcome.
RESULTS: Final = ("proposed", "applied")
STATUSES: Final = ("verified_successful", "failed", "partially_effective")

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


class FieldRule(NamedTuple):
    """A validation rule for one field: a description and a predicate."""

    description: str
    accepts: Callable[[object], bool]
    is_required: bool = True

    def optional(self) -> FieldRule:
        """Return the rule for an optional field."""
        return self._replace(is_required=False)


def is_text(value: object) -> TypeGuard[str]:
    """Return whether the value is a string."""
    return isinstance(value, str)


def is_timestamp(value: object) -> TypeGuard[str]:
    """Return whether the value is an ISO 8601 date with a time of day."""
    return is_text(value) and "T" in value and _is_date(value)


def is_url(value: object) -> TypeGuard[str]:
    """Return whether the value has the form of an absolute URL."""
    return is_text(value) and _URL.fullmatch(value) is not None


def _is_date(value: object) -> bool:
    try:
        return is_text(value) and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str | dict) for each in value)


def _one_of(*allowed: str) -> FieldRule:
    return FieldRule(
        f"one of {', '.join(allowed)}", lambda value: is_text(value) and value in allowed
    )


_TEXT: Final = FieldRule("text", is_text)
_NON_EMPTY_TEXT: Final = FieldRule(
    "text that is not empty", lambda value: is_text(value) and value != ""
)
_HEAD: Final = FieldRule(
    f"text of at most {HEAD_BYTES_MAX} bytes",
    lambda value: is_text(value) and len(value.encode(errors="replace")) <= HEAD_BYTES_MAX,
)
_EXCERPT: Final = FieldRule(
    f"text of at most {EXCERPT_CHARACTERS_MAX} characters",
    lambda value: is_text(value) and len(value) <= EXCERPT_CHARACTERS_MAX,
)
_ADDRESS: Final = FieldRule("an absolute URL", is_url)
_DATE: Final = FieldRule("an ISO 8601 date or time", _is_date)
_INTEGER: Final = FieldRule("an integer", _is_integer)
#: The first attempt has no number; each later attempt is a distinct fact.
_REPEATED_ATTEMPT: Final = FieldRule(
    "an integer, 2 or more", lambda value: isinstance(value, int) and value >= 2
)
_MILLISECONDS: Final = FieldRule("a number of milliseconds, not below 0", _is_count)
_BOOLEAN: Final = FieldRule("true or false", lambda value: isinstance(value, bool))
_LIST: Final = FieldRule("a list of strings or objects", _is_list)
_CONTEXT: Final = FieldRule("text or an object", lambda value: isinstance(value, str | dict))

_ISSUE: Final = {
    "normalizedKey": _NON_EMPTY_TEXT,
    "kind": _NON_EMPTY_TEXT,
    "message": _NON_EMPTY_TEXT,
    "detector": _NON_EMPTY_TEXT,
    "context": _CONTEXT.optional(),
}
#: The fields of each kind, in canonical order.
FIELDS: Final[dict[str, dict[str, FieldRule]]] = {
    "command.exec": {
        "cmd": _NON_EMPTY_TEXT,
        "cwd": _TEXT.optional(),
        "exitCode": _INTEGER,
        "durationMs": _MILLISECONDS.optional(),
        "stdoutHead": _HEAD.optional(),
        "stderrHead": _HEAD.optional(),
    },
    "error.capture": _ISSUE,
    "warning.capture": _ISSUE,
    "fix.apply": {
        "strategy": _NON_EMPTY_TEXT,
        "changes": _LIST,
        "result": _one_of(*RESULTS),
        "attempt": _REPEATED_ATTEMPT.optional(),
    },
    "fix.outcome": {
        "fixId": _NON_EMPTY_TEXT,
        "status": _one_of(*STATUSES),
        "verificationMethod": _NON_EMPTY_TEXT,
        "durationToVerify": _MILLISECONDS,
        "sideEffects": _LIST,
    },
    "doc.note": {
        "url": _ADDRESS,
        "title": _TEXT.optional(),
        "site": _TEXT.optional(),
        "author": _TEXT.optional(),
        "published_at": _TEXT.optional(),
        "accessed_at": _DATE,
        "archive_url": _ADDRESS.optional(),
        "excerpt": _EXCERPT.optional(),
    },
    "run.summary": {
        "summary": _TEXT,
        "keyEvents": _LIST,
        "success": _BOOLEAN,
        "durationMs": _MILLISECONDS,
    },
}

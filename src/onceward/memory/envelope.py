"""Envelopes: the JSON form of an observation that is a fact of a known kind.

Defines the fields of each kind; parses, validates and fingerprints the JSON text. Independent of
storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NamedTuple, TypeGuard

from onceward.errors import InvalidArgument, InvalidJson, NotCanonical
from onceward.errors.arguments import reject_field
from onceward.keys.canonical import INTEGER_MAX, compact_json, join_path, loads
from onceward.keys.stable import HEAD_BYTES_MAX, envelope_fingerprint
from onceward.memory.entity_names import is_date, is_timestamp, truncate
from onceward.system.redaction import Redactor

EXCERPT_CHARACTERS_MAX: Final = 500
#: Allowed results of a fix, and allowed statuses of its outcome.
RESULTS: Final = ("proposed", "applied")
STATUSES: Final = ("verified_successful", "failed", "partially_effective")

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
#: Maximum nesting of lists and objects in the data.
DEPTH_MAX: Final = 100

_KEYS: Final = ("type", "ts", "mode", "repo", "branch", "fingerprint", "data")
_CONTEXT_FIELDS: Final = ("mode", "repo", "branch")
_HEADS: Final = ("stdoutHead", "stderrHead")
_WHITE: Final = " \t\r\n"
_SHOWN_CHARACTERS: Final = 60


# --- the fields of each kind ---------------------------------------------------------------------


class FieldRule(NamedTuple):
    """A validation rule for one field: a description and a predicate."""

    description: str
    accepts: Callable[[object], bool]
    is_required: bool = True

    def optional(self) -> FieldRule:
        """Return the rule for an optional field."""
        return self._replace(is_required=False)


def is_url(value: object) -> TypeGuard[str]:
    """Return whether the value has the form of an absolute URL."""
    return is_text(value) and _URL.fullmatch(value) is not None


def is_text(value: object) -> TypeGuard[str]:
    """Return whether the value is a string."""
    return isinstance(value, str)


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
_DATE: Final = FieldRule("an ISO 8601 date or time", is_date)
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
KINDS: Final = frozenset(FIELDS)


# --- envelopes -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """One fact: its kind, when and where it was observed, and its data."""

    #: One of KINDS; the field `type` of the JSON text.
    kind: str
    #: When it was observed; None if not given.
    ts: str | None
    mode: str | None
    repo: str | None
    branch: str | None
    #: Equal for equal facts, whatever their time; always computed, never taken from the input.
    fingerprint: str
    data: dict[str, Any]


def parse(content: str) -> Envelope | None:
    """Return the envelope in a text, or None for any other text; never raises.

    Does not validate the data; `check` does. A text with unknown fields is not an envelope, so
    distinct texts are never treated as the same fact.
    """
    if not _may_be_object(content):
        return None
    try:
        found = _read(content, "content")
        kind, data = found.get("type"), found.get("data")
        if not (is_text(kind) and kind in KINDS and isinstance(data, dict)):
            return None
        texts = (found.get(name, "") for name in ("ts", *_CONTEXT_FIELDS))
        if not found.keys() <= set(_KEYS) or not all(map(_is_storable, texts)):
            return None
        return _envelope(found, "content")
    except InvalidArgument:
        return None


def looks_like_envelope(content: str) -> bool:
    """Return whether a text is a JSON object whose `type` is one of KINDS."""
    if not _may_be_object(content):
        return False
    try:
        kind = _read(content, "content").get("type")
    except InvalidArgument:
        return False
    return is_text(kind) and kind in KINDS


def check(content: str, field: str) -> Envelope:
    """Return the envelope in a text; raise InvalidArgument naming the invalid field.

    The fingerprint is optional, but must match if given.
    """
    found = _read(content, field)
    unknown = next((name for name in found if name not in _KEYS), None)
    if unknown is not None:
        fix = f"use only {', '.join(_KEYS)}"
        reject_field(field, f"has the unknown key {_quoted(unknown)}", fix)
    kind = found.get("type")
    if not is_text(kind) or kind not in KINDS:
        fix = f"set it to one of {', '.join(FIELDS)}"
        reject_field(f"{field}.type", "is missing or not an envelope type", fix)
    if not is_timestamp(found.get("ts")):
        fix = "set it to a time such as 2026-02-06T12:00:00Z"
        reject_field(f"{field}.ts", "is missing or not an ISO 8601 time", fix)
    for name in _CONTEXT_FIELDS:
        if not _is_storable(found.get(name)):
            reject_field(
                f"{field}.{name}", "is missing or not plain text", 'set it to a string, or to ""'
            )
    _check_data(kind, found.get("data"), f"{field}.data")
    envelope = _envelope(found, field)
    if "fingerprint" in found and found["fingerprint"] != envelope.fingerprint:
        fix = f"leave it out, or set it to {envelope.fingerprint}"
        reject_field(f"{field}.fingerprint", "does not match the rest of the envelope", fix)
    return envelope


def compose(  # noqa: PLR0913 - an envelope has these parts
    kind: str, *, ts: str, mode: str, repo: str, branch: str, data: Mapping[str, object]
) -> str:
    """Return the text of a validated envelope with its fingerprint; long heads are truncated.

    Omits data that is None. Raises InvalidArgument naming the field.
    """
    if kind not in KINDS:
        reject_field("type", f"{_quoted(kind)} is not an envelope type", f"use {', '.join(FIELDS)}")
    # Known fields in schema order; unknown ones are kept here and rejected below.
    names = dict.fromkeys([*FIELDS[kind], *data])
    kept = {name: data[name] for name in names if data.get(name) is not None}
    for name in _HEADS:
        if is_text(text := kept.get(name)):
            kept[name] = head(text)
    found = {"type": kind, "ts": ts, "mode": mode, "repo": repo, "branch": branch, "data": kept}
    return _to_json({**found, "fingerprint": check(_to_json(found), "envelope").fingerprint})


def redact(content: str, redactor: Redactor) -> str:
    """Return the text with secrets redacted; an envelope stays valid, with a new fingerprint.

    Redacts field by field: redacting the JSON text could remove quotes and leave invalid JSON.
    """
    envelope = parse(content)
    if envelope is None:
        return redactor.text(content)
    found = _read(content, "content")
    # At the top level no field name marks its value as a secret.
    clean: dict[str, Any] = {name: redactor.value(value) for name, value in found.items()}
    if clean == found:
        return content
    if "fingerprint" in clean:
        clean["fingerprint"] = _fingerprint(clean, "content")
    return _to_json(clean)


def head(text: str) -> str:
    """Return the first 8 KiB of an output, cut between characters, as valid Unicode."""
    return truncate(text, HEAD_BYTES_MAX)


def _check_data(kind: str, data: object, field: str) -> None:
    schema = FIELDS[kind]
    if not isinstance(data, dict):
        reject_field(field, "is missing or not an object", f"set it to {{{', '.join(schema)}}}")
    for name in data:
        if name not in schema:
            fix = f"remove it; the fields of {kind} are {', '.join(schema)}"
            reject_field(
                join_path(field, name[:_SHOWN_CHARACTERS]), f"is not a field of {kind}", fix
            )
    for name, rule in schema.items():
        if name not in data:
            if rule.is_required:
                reject_field(f"{field}.{name}", "is missing", f"set it to {rule.description}")
        elif not rule.accepts(data[name]):
            wanted = rule.description
            reject_field(f"{field}.{name}", f"must be {wanted}", f"set it to {wanted}")


# --- reading and writing -------------------------------------------------------------------------


def _may_be_object(content: str) -> bool:
    first = content[:1]
    return first == "{" or (first in _WHITE and content.lstrip(_WHITE)[:1] == "{")


def _is_storable(value: object) -> bool:
    """Return whether a database column stores this text unchanged."""
    return is_text(value) and "\0" not in value and value == value.encode(errors="replace").decode()


def _read(content: str, field: str) -> dict[str, Any]:
    """Return the JSON object in a text; raise InvalidArgument for any other text."""
    fix = f"send a JSON object {{{', '.join(_KEYS)}}} as text"
    if not is_text(content) or not _may_be_object(content):
        reject_field(field, "is not an envelope, a JSON object with a type", fix)
    try:
        found = loads(content)
    except InvalidJson as exc:
        reject_field(field, f"is {exc.message}", exc.fix)
    assert isinstance(found, dict), type(found)
    return found


def _envelope(found: Mapping[str, Any], field: str) -> Envelope:
    fingerprint = _fingerprint(found, field)
    _check_numbers(found["data"], join_path(field, "data"))
    texts = {name: found.get(name) for name in ("ts", *_CONTEXT_FIELDS)}
    return Envelope(kind=found["type"], fingerprint=fingerprint, data=found["data"], **texts)


def _fingerprint(found: Mapping[str, Any], field: str) -> str:
    mode, repo, branch = (found.get(name) for name in _CONTEXT_FIELDS)
    try:
        return envelope_fingerprint(
            type=found["type"], mode=mode, repo=repo, branch=branch, data=found["data"]
        )
    except NotCanonical as exc:
        reject_field(f"{field}.{exc.path}", exc.message.removeprefix(f"{exc.path}: "), exc.fix)


def _check_numbers(data: object, field: str) -> None:
    """Reject numbers that may have lost digits, and data nested too deeply; no recursion.

    Long integers are parsed as the nearest float, so two distinct facts could look equal.
    """
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(data, ())]
    while waiting:
        value, way = waiting.pop()
        if len(way) > DEPTH_MAX:
            reject_field(field, f"is nested deeper than {DEPTH_MAX} levels", "flatten it")
        if isinstance(value, dict):
            waiting += [(each, (*way, name)) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, (*way, index)) for index, each in enumerate(value)]
        elif isinstance(value, float) and abs(value) >= INTEGER_MAX:
            reject_field(
                reduce(join_path, way, field), "is a number beyond ±2^53", "send it as text"
            )


def _to_json(found: Mapping[str, object]) -> str:
    ordered = {name: found[name] for name in _KEYS if name in found}
    return compact_json(ordered, root="envelope").decode()


def _quoted(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])

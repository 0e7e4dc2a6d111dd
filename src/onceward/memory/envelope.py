"""Envelopes: the form of an observation that is a fact of a known kind.

Owns the JSON text, its checks and its fingerprint. Knows neither names nor where it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NoReturn

from onceward.errors import InvalidArgument, InvalidJson, NotCanonical
from onceward.keys.canonical import INTEGER_MAX, compact_json, join_path, loads
from onceward.keys.stable import HEAD_BYTES_MAX, envelope_fingerprint
from onceward.memory.facts import FIELDS, is_moment, is_text
from onceward.memory.naming import cut
from onceward.secrets import Redactor

KINDS: Final = frozenset(FIELDS)
#: How deep lists and objects in the data may be nested.
DEPTH_MAX: Final = 100

_KEYS: Final = ("type", "ts", "mode", "repo", "branch", "fingerprint", "data")
_PLACES: Final = ("mode", "repo", "branch")
_HEADS: Final = ("stdoutHead", "stderrHead")
_WHITE: Final = " \t\r\n"
_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Envelope:
    """One fact: what kind, when and where it was seen, and what was seen."""

    #: One of KINDS; the envelope's own word for it is `type`.
    kind: str
    #: When it was observed; None if the envelope does not say.
    ts: str | None
    mode: str | None
    repo: str | None
    branch: str | None
    #: The same for the same fact, whenever it is seen; always computed, never taken on trust.
    fingerprint: str
    data: dict[str, Any]


def parse(content: str) -> Envelope | None:
    """Return the envelope that a text is, or None for any other text; never raises.

    Its data may be of any shape: who wants more calls `check`. A text with more in it than an
    envelope has is none, so that nothing in it is ever mistaken for the same fact.
    """
    if not _may_be_object(content):
        return None
    try:
        found = _read(content, "content")
        kind, data = found.get("type"), found.get("data")
        if not (is_text(kind) and kind in KINDS and isinstance(data, dict)):
            return None
        texts = (found.get(name, "") for name in ("ts", *_PLACES))
        if not found.keys() <= set(_KEYS) or not all(map(_is_kept, texts)):
            return None
        return _envelope(found, "content")
    except InvalidArgument:
        return None


def is_meant(content: str) -> bool:
    """Say whether a text is meant as an envelope: a JSON object whose `type` is one of KINDS."""
    if not _may_be_object(content):
        return False
    try:
        kind = _read(content, "content").get("type")
    except InvalidArgument:
        return False
    return is_text(kind) and kind in KINDS


def check(content: str, field: str) -> Envelope:
    """Return the envelope that a text is; raise InvalidArgument naming what is wrong below `field`.

    A fingerprint need not be there; one that is there must be right.
    """
    found = _read(content, field)
    unknown = next((name for name in found if name not in _KEYS), None)
    if unknown is not None:
        fix = f"use only {', '.join(_KEYS)}"
        _refuse(field, f"has the unknown key {_shown(unknown)}", fix)
    kind = found.get("type")
    if not is_text(kind) or kind not in KINDS:
        fix = f"set it to one of {', '.join(FIELDS)}"
        _refuse(f"{field}.type", "is missing or not a type of envelope", fix)
    if not is_moment(found.get("ts")):
        fix = "set it to a time such as 2026-02-06T12:00:00Z"
        _refuse(f"{field}.ts", "is missing or not an ISO 8601 time", fix)
    for name in _PLACES:
        if not _is_kept(found.get(name)):
            _refuse(f"{field}.{name}", "is missing or no plain text", 'set it to text, or to ""')
    _check_data(kind, found.get("data"), f"{field}.data")
    envelope = _envelope(found, field)
    if "fingerprint" in found and found["fingerprint"] != envelope.fingerprint:
        fix = f"leave it out, or set it to {envelope.fingerprint}"
        _refuse(f"{field}.fingerprint", "does not fit the rest of the envelope", fix)
    return envelope


def compose(  # noqa: PLR0913 - an envelope has these parts
    kind: str, *, ts: str, mode: str, repo: str, branch: str, data: Mapping[str, object]
) -> str:
    """Return the text of an envelope, checked, with its fingerprint; long heads are cut.

    Data that is None is left out. Raises InvalidArgument naming the field.
    """
    if kind not in KINDS:
        _refuse("type", f"{_shown(kind)} is no type of envelope", f"use {', '.join(FIELDS)}")
    # Known fields in the order of their schema; the unknown ones stay, and are refused below.
    names = dict.fromkeys([*FIELDS[kind], *data])
    kept = {name: data[name] for name in names if data.get(name) is not None}
    for name in _HEADS:
        if is_text(text := kept.get(name)):
            kept[name] = head(text)
    found = {"type": kind, "ts": ts, "mode": mode, "repo": repo, "branch": branch, "data": kept}
    return _written({**found, "fingerprint": check(_written(found), "envelope").fingerprint})


def redact(content: str, redactor: Redactor) -> str:
    """Return the text without its secrets; an envelope stays one, with a fingerprint that fits.

    To blot them out of the bare text would take the quotes along and leave no JSON behind.
    """
    envelope = parse(content)
    if envelope is None:
        return redactor.text(content)
    found = _read(content, "content")
    # Field by field: at the top no name of a field says that its value is a secret.
    clean: dict[str, Any] = {name: redactor.value(value) for name, value in found.items()}
    if clean == found:
        return content
    if "fingerprint" in clean:
        clean["fingerprint"] = _fingerprint(clean, "content")
    return _written(clean)


def head(text: str) -> str:
    """Return the first 8 KiB of an output, cut between characters, as text that can be written."""
    return cut(text, HEAD_BYTES_MAX)


def _check_data(kind: str, data: object, field: str) -> None:
    schema = FIELDS[kind]
    if not isinstance(data, dict):
        _refuse(field, "is missing or not an object", f"set it to {{{', '.join(schema)}}}")
    for name in data:
        if name not in schema:
            fix = f"{kind} has only {', '.join(schema)}"
            _refuse(join_path(field, name[:_SHOWN_CHARACTERS]), "is not known", fix)
    for name, rule in schema.items():
        if name not in data:
            if rule.is_required:
                _refuse(f"{field}.{name}", "is missing", f"set it to {rule.wanted}")
        elif not rule.is_met(data[name]):
            _refuse(f"{field}.{name}", f"must be {rule.wanted}", f"set it to {rule.wanted}")


# --- reading and writing -------------------------------------------------------------------------


def _may_be_object(content: str) -> bool:
    first = content[:1]
    return first == "{" or (first in _WHITE and content.lstrip(_WHITE)[:1] == "{")


def _is_kept(value: object) -> bool:
    """Say whether a database keeps this text as it is; these stand in columns of their own."""
    return is_text(value) and "\0" not in value and value == value.encode(errors="replace").decode()


def _read(content: str, field: str) -> dict[str, Any]:
    """Return the JSON object that a text holds; raise InvalidArgument for any other text."""
    fix = f"send a JSON object {{{', '.join(_KEYS)}}} as text"
    if not is_text(content) or not _may_be_object(content):
        _refuse(field, "is not an envelope", fix)
    try:
        found = loads(content)
    except InvalidJson as exc:
        _refuse(field, f"is {exc.message}", exc.fix)
    assert isinstance(found, dict), type(found)
    return found


def _envelope(found: Mapping[str, Any], field: str) -> Envelope:
    fingerprint = _fingerprint(found, field)
    _check_numbers(found["data"], join_path(field, "data"))
    texts = {name: found.get(name) for name in ("ts", *_PLACES)}
    return Envelope(kind=found["type"], fingerprint=fingerprint, data=found["data"], **texts)


def _fingerprint(found: Mapping[str, Any], field: str) -> str:
    mode, repo, branch = (found.get(name) for name in _PLACES)
    try:
        return envelope_fingerprint(
            type=found["type"], mode=mode, repo=repo, branch=branch, data=found["data"]
        )
    except NotCanonical as exc:
        _refuse(f"{field}.{exc.path}", exc.message.removeprefix(f"{exc.path}: "), exc.fix)


def _check_numbers(data: object, field: str) -> None:
    """Refuse numbers that may have lost digits, and depths that cannot be walked; no recursion.

    A long integer was read as the nearest float, which others share: two facts would look the same.
    """
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(data, ())]
    while waiting:
        value, way = waiting.pop()
        if len(way) > DEPTH_MAX:
            _refuse(field, f"is nested deeper than {DEPTH_MAX} levels", "keep it flat")
        if isinstance(value, dict):
            waiting += [(each, (*way, name)) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, (*way, index)) for index, each in enumerate(value)]
        elif isinstance(value, float) and abs(value) >= INTEGER_MAX:
            _refuse(reduce(join_path, way, field), "is a number beyond ±2^53", "send it as text")


def _written(found: Mapping[str, object]) -> str:
    ordered = {name: found[name] for name in _KEYS if name in found}
    return compact_json(ordered, root="envelope").decode()


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])


def _refuse(field: str, problem: str, fix: str) -> NoReturn:
    message = f"{field}: {problem}"
    raise InvalidArgument(message, fix=fix, field=field)

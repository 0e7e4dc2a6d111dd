"""Key inspection: show a command's canonical form and key, and explain why two keys differ.

Every error names the invalid field, also one inside the other command. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from onceward.errors import InvalidArgument, InvalidJson, NotCanonical
from onceward.keys import CommandContent, canonical_json, explain, lint, loads

#: Limits for findings, and for the text of a difference.
FINDINGS_MAX: Final = 200
SIDE_CHARACTERS_MAX: Final = 2_000
_OTHER: Final = "other"
_PARTS: Final = ("inputs", "expected_outputs")


def inspect_command(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's key, canonical parts and lint findings, and the difference to another."""
    command = _command(fields, "")
    written = {name: _canonical(getattr(command, name), name) for name in _PARTS}
    given = fields.get(_OTHER)
    other = None if given is None else _command(given, f"{_OTHER}.")
    return {
        "kind": "command",
        "key": command.key,
        "canonical": written,
        "sha256": None,
        "lint": _lint({name: getattr(command, name) for name in _PARTS}),
        "other_key": None if other is None else other.key,
        "explain": None if other is None else _explained(command, other),
    }


def inspect_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value's canonical form, digest and lint findings."""
    value = _value(fields, "value", "")
    written = _canonical(value, "value")
    return {
        "kind": "json",
        "key": None,
        "canonical": {"value": written},
        "sha256": hashlib.sha256(written.encode()).hexdigest(),
        "lint": _lint({"value": value}),
        "other_key": None,
        "explain": None,
    }


def _command(fields: Mapping[str, Any], where: str) -> CommandContent:
    """Return the command; its parts may be sent as values or as text."""
    content = {name: fields[name] for name in ("action", "task_id", "snapshot_id")}
    for name in _PARTS:
        is_given = fields.get(f"{name}_text") is not None or fields.get(name) is not None
        if is_given or name == "inputs":
            content[name] = _value(fields, name, where)
    try:
        command = CommandContent.from_mapping(content)
        for name in _PARTS:
            canonical_json(getattr(command, name), root=name)
    except InvalidArgument as exc:
        place = exc.path if isinstance(exc, NotCanonical) else str(exc.context.get("field", ""))
        message = f"{where}{exc.message}"
        raise InvalidArgument(message, fix=exc.fix, field=f"{where}{place}") from exc
    return command


def _value(fields: Mapping[str, Any], name: str, where: str) -> object:
    """Return a value that was sent as JSON or as pasted text."""
    text = fields.get(f"{name}_text")
    if text is None:
        if name in fields and (fields[name] is not None or name == "value"):
            value: object = fields[name]
            return value
        message = f"{where}{name}: is missing"
        fix = f"send {name} as JSON, or {name}_text as a string that contains the JSON"
        raise InvalidArgument(message, fix=fix, field=f"{where}{name}")
    if name in fields and fields[name] is not None:
        message = f"{where}{name}: both {name} and {name}_text were sent"
        fix = f"send {name} or {name}_text, not both"
        raise InvalidArgument(message, fix=fix, field=f"{where}{name}")
    try:
        return loads(str(text))
    except InvalidJson as exc:
        message, place = f"{where}{name}_text: {exc.message}", f"{where}{name}_text"
        raise InvalidJson(message, fix=exc.fix, field=place) from exc


def _canonical(value: object, name: str) -> str:
    try:
        return canonical_json(value, root=name).decode()
    except NotCanonical as exc:
        raise InvalidArgument(exc.message, fix=exc.fix, field=exc.path) from exc


def _lint(parts: Mapping[str, object]) -> list[dict[str, str]]:
    found = [finding for name, part in parts.items() for finding in lint(part, root=name)]
    return [{"path": each.path, "why": each.reason} for each in found[:FINDINGS_MAX]]


def _explained(command: CommandContent, other: CommandContent) -> dict[str, Any]:
    found = explain(command, other)
    return {
        "same": found.same,
        "differences": [
            {
                "part": each.component,
                "path": each.path,
                "a": _side(each.left),
                "b": _side(each.right),
            }
            for each in found.differences
        ],
        "is_cut": found.truncated,
    }


def _side(text: str | None) -> str | None:
    if text is None or len(text) <= SIDE_CHARACTERS_MAX:
        return text
    return f"{text[:SIDE_CHARACTERS_MAX]}…"

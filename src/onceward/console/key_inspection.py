"""Key inspection: show a command's canonical form and key, and explain why two keys differ.

Every error names the invalid field, also one inside the other command. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from onceward.console.responses import moment
from onceward.errors import InvalidArgument, InvalidJson, NotCanonical
from onceward.keys import CommandContent, canonical_json, explain, lint, loads

#: Limits for findings, and for the text of a difference.
FINDINGS_MAX: Final = 200
SIDE_CHARACTERS_MAX: Final = 2_000
_OTHER: Final = "other"
_PARTS: Final = ("inputs", "expected_outputs")


@dataclass(frozen=True, kw_only=True, slots=True)
class LintWarning:
    """A value that a retry may send differently."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandDifference:
    """One place in which two commands differ."""

    part: str
    path: str
    a: str | None
    b: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyComparison:
    """The comparison of two commands."""

    same: bool
    differences: list[CommandDifference]
    is_cut: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectionResult:
    """The result; `key` for commands, `sha256` for values."""

    kind: Literal["command", "json"]
    key: str | None = None
    #: The canonical parts as text, by name.
    canonical: dict[str, str]
    sha256: str | None = None
    lint: list[LintWarning]
    other_key: str | None = None
    explain: KeyComparison | None = None
    as_of: str


def inspect_command(fields: Mapping[str, Any]) -> InspectionResult:
    """Return a command's key, canonical parts and lint findings, and the difference to another."""
    command = _command(fields, "")
    written = {name: _canonical(getattr(command, name), name) for name in _PARTS}
    given = fields.get(_OTHER)
    other = None if given is None else _command(given, f"{_OTHER}.")
    return InspectionResult(
        kind="command",
        key=command.key,
        canonical=written,
        lint=_lint({name: getattr(command, name) for name in _PARTS}),
        other_key=None if other is None else other.key,
        explain=None if other is None else _explained(command, other),
        as_of=moment(),
    )


def inspect_json(fields: Mapping[str, Any]) -> InspectionResult:
    """Return a value's canonical form, digest and lint findings."""
    value = _value(fields, "value", "")
    written = _canonical(value, "value")
    return InspectionResult(
        kind="json",
        canonical={"value": written},
        sha256=hashlib.sha256(written.encode()).hexdigest(),
        lint=_lint({"value": value}),
        as_of=moment(),
    )


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


def _lint(parts: Mapping[str, object]) -> list[LintWarning]:
    found = [finding for name, part in parts.items() for finding in lint(part, root=name)]
    return [LintWarning(path=each.path, why=each.reason) for each in found[:FINDINGS_MAX]]


def _explained(command: CommandContent, other: CommandContent) -> KeyComparison:
    found = explain(command, other)
    differences = [
        CommandDifference(
            part=each.component, path=each.path, a=_side(each.left), b=_side(each.right)
        )
        for each in found.differences
    ]
    return KeyComparison(same=found.same, differences=differences, is_cut=found.truncated)


def _side(text: str | None) -> str | None:
    if text is None or len(text) <= SIDE_CHARACTERS_MAX:
        return text
    return f"{text[:SIDE_CHARACTERS_MAX]}…"

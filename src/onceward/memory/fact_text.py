"""Fact text: observations as one line of text for people, without control characters."""

from __future__ import annotations

from typing import Any, Final

from onceward.memory.envelope import parse

#: Limits for one fact in a list, and shown alone.
LIST_CHARACTERS_MAX: Final = 160
DETAIL_CHARACTERS_MAX: Final = 2_000


def printable_line(text: str, characters: int = LIST_CHARACTERS_MAX) -> str:
    """Return the text on one line, truncated, with control characters replaced."""
    line = " ".join(text.split())
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def fact_text(content: str, characters: int = LIST_CHARACTERS_MAX) -> str:
    """Return an observation in words."""
    envelope = parse(content)
    if envelope is None:
        return printable_line(content, characters)
    text = _FORMATTERS[envelope.kind](envelope.data)
    return printable_line(text, characters)


def _issue(data: dict[str, Any]) -> str:
    where = f" in {data['context']}" if isinstance(data.get("context"), str) else ""
    return f"{data.get('message')} ({data.get('kind')}, found by {data.get('detector')}{where})"


def _command(data: dict[str, Any]) -> str:
    where = f" in {data['cwd']}" if data.get("cwd") else ""
    return f"exit code {data.get('exitCode')}{where}: {data.get('cmd')}"


def _fix(data: dict[str, Any]) -> str:
    changes = data.get("changes") or []
    text = "".join(f"; {each}" for each in changes) if isinstance(changes, list) else ""
    return f"{data.get('result')}: {data.get('strategy')}{text}"


def _outcome(data: dict[str, Any]) -> str:
    status = str(data.get("status")).replace("_", " ")
    return f"{status} by {data.get('verificationMethod')}"


def _doc(data: dict[str, Any]) -> str:
    parts = (data.get("title"), data.get("url"), data.get("excerpt"))
    return " · ".join(str(part) for part in parts if part)


def _run(data: dict[str, Any]) -> str:
    took = data.get("durationMs")
    seconds = f", {took / 1000:.1f} s" if isinstance(took, int | float) else ""
    return f"{data.get('summary')}{seconds}"


_FORMATTERS: Final = {
    "command.exec": _command,
    "error.capture": _issue,
    "warning.capture": _issue,
    "fix.apply": _fix,
    "fix.outcome": _outcome,
    "doc.note": _doc,
    "run.summary": _run,
}

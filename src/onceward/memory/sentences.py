"""Sentences: what was observed, in words for people, on one line that can steer nothing."""

from __future__ import annotations

from typing import Any, Final

from onceward.memory.envelope import parse

#: How much of one fact is shown in a list, and where it is shown alone.
SHORT_CHARACTERS: Final = 160
LONG_CHARACTERS: Final = 2_000


def visible(text: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return one line of text, not too long, that shows everything and does nothing."""
    line = " ".join(text.split())
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def fact(content: str, characters: int = SHORT_CHARACTERS) -> str:
    """Return what was observed, in words."""
    envelope = parse(content)
    if envelope is None:
        return visible(content, characters)
    told = _TOLD[envelope.kind](envelope.data)
    return visible(told, characters)


def _issue(data: dict[str, Any]) -> str:
    where = f" in {data['context']}" if isinstance(data.get("context"), str) else ""
    return f"{data.get('message')} ({data.get('kind')}, found by {data.get('detector')}{where})"


def _command(data: dict[str, Any]) -> str:
    where = f" in {data['cwd']}" if data.get("cwd") else ""
    return f"exit code {data.get('exitCode')}{where}: {data.get('cmd')}"


def _fix(data: dict[str, Any]) -> str:
    changes = data.get("changes") or []
    told = "".join(f"; {each}" for each in changes) if isinstance(changes, list) else ""
    return f"{data.get('result')}: {data.get('strategy')}{told}"


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


_TOLD: Final = {
    "command.exec": _command,
    "error.capture": _issue,
    "warning.capture": _issue,
    "fix.apply": _fix,
    "fix.outcome": _outcome,
    "doc.note": _doc,
    "run.summary": _run,
}

"""Fact text: observations as one line for people, and short texts for models.

A text for a model stays within a token limit, and quotes records as data.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
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


# --- texts for models, within a token budget ------------------------------------------------------

#: Limit for a text for a model.
TOKENS_MAX: Final = 200
_PIECE: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")
_INVISIBLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]+"
)


def tokens(text: str) -> int:
    """Return an upper estimate of the tokens in a text; models count differently."""
    pieces = sum(
        1 + len(piece) // 8 if piece.isalpha() and piece.isascii() else math.ceil(len(piece) / 3)
        for piece in _PIECE.findall(text)
    )
    return max(math.ceil(len(text) / 4), math.ceil(len(text.split()) * 1.4), pieces)


def quoted(text: str, characters_max: int) -> str:
    """Return the text as a quotation on one line, truncated; its content cannot end it.

    The quoted text is untrusted, so the reader must see where it begins and ends.
    """
    line = " ".join(_INVISIBLE.sub(" ", text).split()).replace('"', "'")
    if len(line) > characters_max:
        line = line[: characters_max - 1].rstrip() + "…"
    return f'"{line}"'


def relative_time(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, such as `5min ago`."""
    minutes = int((now - then).total_seconds() // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}min ago"
    return f"{minutes // 60}h ago" if minutes < 48 * 60 else f"{minutes // (24 * 60)}d ago"


class BudgetedText:
    """Lines of text within a token budget."""

    def __init__(self, tokens_max: int = TOKENS_MAX) -> None:
        """Start empty."""
        self._tokens_max = tokens_max
        self._lines: list[str] = []

    def add(self, *variants: str) -> bool:
        """Add the first variant that fits, given longest first; return whether one did."""
        for line in variants:
            if tokens("\n".join([*self._lines, line])) <= self._tokens_max:
                self._lines.append(line)
                return True
        return False

    @property
    def text(self) -> str:
        """Return the lines."""
        return "\n".join(self._lines)

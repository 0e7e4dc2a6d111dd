"""Logs: what workers say, as JSON lines for machines or as plain lines for a terminal.

Long values are cut, and what looks like a secret is never written.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import orjson

from onceward.seams import timestamp

VALUE_CHARACTERS_MAX: Final = 500
#: Facts with such a name are never written out.
_SECRET: Final = re.compile(r"token|secret|password|passwd|authorization|api_?key", re.IGNORECASE)
#: Secrets that stand inside a text, such as a URL with a password.
_INSIDE: Final = re.compile(
    r"(?P<scheme>\w+://[^\s:/@]*):[^\s@/]+@"
    r"|(?P<name>\b(?:token|secret|password|api_?key|bearer)\b\s*[=: ]\s*)[^\s,;&]+",
    re.IGNORECASE,
)
_PLAIN: Final = ("position", "epoch", "retries", "retrySeconds", "messages", "letter", "pid")


class JsonLines(logging.Formatter):
    """One JSON object a line: `level`, `event`, `at`, and the facts by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or redacted(record.getMessage()),
            "at": _at(record),
            "logger": record.name,
            **{name: _shown(name, value) for name, value in _facts(record).items()},
        }
        if record.exc_info:
            line["trace"] = redacted(self.formatException(record.exc_info))[-8192:]
        return orjson.dumps(line, default=str).decode()


class PlainLines(logging.Formatter):
    """A line for people: when, how bad, what, and the facts that help."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = _facts(record)
        told = " ".join(f"{name}={facts[name]}" for name in _PLAIN if facts.get(name) is not None)
        when = _at(record)[11:19]
        text = redacted(record.getMessage())
        line = f"{when} {record.levelname.lower():<7} {text}{'  ' if told else ''}{told}"
        return line + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def set_up(*, as_json: bool, is_verbose: bool = False, stream: TextIO | None = None) -> None:
    """Write what Onceward says to standard error, in one form or the other."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    log = logging.getLogger("onceward")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if is_verbose else logging.INFO)
    log.propagate = False


def redacted(text: str) -> str:
    """Return a text without what looks like a secret, cut to a length that can be read."""

    def hidden(found: re.Match[str]) -> str:
        scheme, name = found["scheme"], found["name"]
        return f"{scheme}:…@" if scheme is not None else f"{name}…"

    return _INSIDE.sub(hidden, text)[:VALUE_CHARACTERS_MAX]


def _facts(record: logging.LogRecord) -> Mapping[str, object]:
    facts = getattr(record, "facts", None)
    if isinstance(facts, Mapping):
        return facts
    names = ("action", "cursor", "error", "epoch")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


def _shown(name: str, value: object) -> object:
    if _SECRET.search(name):
        return "…"
    return redacted(value) if isinstance(value, str) else value


def _at(record: logging.LogRecord) -> str:
    return timestamp(datetime.fromtimestamp(record.created, UTC))

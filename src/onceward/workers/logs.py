"""Logs: what workers say, as JSON lines for machines or as plain lines for a terminal.

Long values are cut, and what looks like a secret is never written.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import orjson

from onceward.seams import timestamp

VALUE_CHARACTERS_MAX: Final = 500
#: What is kept of a trace is its end, where the error stands.
TRACE_CHARACTERS_MAX: Final = 8_192
_WORDS: Final = (
    r"token|secret|passw(?:or)?d|passphrase|pwd|authorization|credential|cookie"
    r"|(?:api|access|private)[_-]?key"
)
#: Facts with such a name are never written out.
_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
#: Secrets that stand inside a text: a URL with a password, a value with a name that says it.
_INSIDE: Final = re.compile(
    r"(?P<scheme>\b\w+://[^\s:/@]{0,200}):[^\s\"'<>]{1,400}@"
    # A name in any spelling, quoted or not, and its value up to where a value ends.
    rf"|(?P<name>(?:{_WORDS})[\w-]{{0,40}}\\*[\"']?\s{{0,4}}[=:]\s{{0,4}})"
    r"(?:\\+[\"'][^\"'\\]*|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
    r"|(?:basic|bearer|digest|negotiate|token)\s+[^\s,;&\"']+|[^\s,;&\"'}\])]+)"
    r"|(?P<word>\b(?:token|secret|password|api_?key|bearer|basic(?=\s+\S*[\d=]))\s+(?:is\s+)?)[^\s,;&\"']+"
    r"|(?P<key>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?:-----END|\Z)",
    re.IGNORECASE | re.DOTALL,
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
            line["trace"] = _trace(self.formatException(record.exc_info))
        return _dumped(line)


class PlainLines(logging.Formatter):
    """A line for people: when, how bad, what, and the facts that help."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = _facts(record)
        told = " ".join(
            f"{name}={_shown(name, facts[name])}" for name in _PLAIN if facts.get(name) is not None
        )
        when = _at(record)[11:19]
        text = redacted(record.getMessage())
        line = f"{when} {record.levelname.lower():<7} {text}{'  ' if told else ''}{told}"
        if record.exc_info:
            line += f"\n{_trace(self.formatException(record.exc_info))}"
        return line.encode(errors="replace").decode()


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
    return _INSIDE.sub(_hidden, text)[:VALUE_CHARACTERS_MAX]


def _hidden(found: re.Match[str]) -> str:
    if found["scheme"] is not None:
        return f"{found['scheme']}:…@"
    return f"{found['name'] or found['word'] or found['key']}…"


def _trace(text: str) -> str:
    return _INSIDE.sub(_hidden, text)[-TRACE_CHARACTERS_MAX:]


def _dumped(line: Mapping[str, object]) -> str:
    """Return a line as JSON, whatever is in it: no value is worth a lost line."""
    try:
        return orjson.dumps(line, default=str).decode()
    except TypeError:  # Half a surrogate pair, or a number of more than 64 bits.
        text = json.dumps(line, default=str, ensure_ascii=False, skipkeys=True)
        return text.encode(errors="replace").decode()


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

"""Logs: what Onceward says, as JSON lines for machines or as plain lines for a terminal.

Long values are cut, and what looks like a secret is never written: what the redactor knows, and
besides it every value whose name or sentence says so. A log may hide more than a record may.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import orjson

from onceward.seams import timestamp
from onceward.secrets import REDACTED, Redactor

VALUE_CHARACTERS_MAX: Final = 500
#: What is kept of a trace is its end, where the error stands.
TRACE_CHARACTERS_MAX: Final = 8_192
_WORDS: Final = (
    r"token|secret|passw(?:or)?d|passphrase|pwd|authorization|credential|cookie"
    r"|(?:api|access|private)[_-]?key"
)
#: Facts with such a name are never written out.
_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
#: Secrets that stand inside a text and that only a log hides: a password with anything in it, a
#: value whose name holds such a word in any spelling, a sentence that tells one.
_INSIDE: Final = re.compile(
    r"(?P<scheme>\b\w+://[^\s:/@]{0,200}:)[^\s\"'<>]{1,400}(?=@)"
    # A name, quoted or not, and its value up to where a value ends.
    rf"|(?P<name>(?:{_WORDS})[\w-]{{0,40}}\\*[\"']?\s{{0,4}}[=:]\s{{0,4}})(?!\[redacted\])"
    r"(?:\\+[\"'][^\"'\\]*|\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
    r"|(?:basic|bearer|digest|negotiate|token)\s+[^\s,;&\"']+|[^\s,;&\"'}\])]+)"
    r"|(?P<word>\b(?:token|secret|password|api_?key|bearer|basic(?=\s+\S*[\d=]))\s+(?:is\s+)?)"
    r"(?!\[redacted\])[^\s,;&\"']+",
    re.IGNORECASE | re.DOTALL,
)
#: Knows the well-known forms, and no value of anybody's.
_FORMS: Final = Redactor()
_PLAIN: Final = ("position", "epoch", "retries", "retrySeconds", "messages", "letter", "pid")


class _Lines(logging.Formatter):
    """What both forms share: which secrets they look for."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        """Hide what this redactor finds; without one, the secrets of the environment."""
        super().__init__()
        self._redactor = redactor or Redactor.from_environment(os.environ)

    def _text(self, record: logging.LogRecord) -> str:
        return redacted(record.getMessage(), self._redactor)

    def _shown(self, name: str, value: object) -> object:
        if _SECRET.search(name):
            return REDACTED
        return redacted(value, self._redactor) if isinstance(value, str) else value

    def _trace(self, record: logging.LogRecord) -> str | None:
        if not record.exc_info:
            return None
        text = self.formatException(record.exc_info)
        return _without_secrets(text, self._redactor)[-TRACE_CHARACTERS_MAX:]


class JsonLines(_Lines):
    """One JSON object a line: `level`, `event`, `at`, and the facts by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or self._text(record),
            "at": _at(record),
            "logger": record.name,
            **{name: self._shown(name, value) for name, value in _facts(record).items()},
        }
        trace = self._trace(record)
        return _dumped(line if trace is None else {**line, "trace": trace})


class PlainLines(_Lines):
    """A line for people: when, how bad, what, and the facts that help."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = _facts(record)
        told = " ".join(
            f"{name}={self._shown(name, facts[name])}"
            for name in _PLAIN
            if facts.get(name) is not None
        )
        when = _at(record)[11:19]
        text = self._text(record)
        line = f"{when} {record.levelname.lower():<7} {text}{'  ' if told else ''}{told}"
        trace = self._trace(record)
        if trace is not None:
            line += f"\n{trace}"
        return line.encode(errors="replace").decode()


def set_up(*, as_json: bool, is_verbose: bool = False, stream: TextIO | None = None) -> None:
    """Write what Onceward says to standard error, in one form or the other."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    log = logging.getLogger("onceward")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if is_verbose else logging.INFO)
    log.propagate = False


def redacted(text: str, redactor: Redactor = _FORMS) -> str:
    """Return a text without what looks like a secret, cut to a length that can be read."""
    return _without_secrets(text, redactor)[:VALUE_CHARACTERS_MAX]


def _without_secrets(text: str, redactor: Redactor) -> str:
    # The redactor first: it knows whole values, of which our own rules would leave a part.
    return _INSIDE.sub(_kept, redactor.text(text))


def _kept(found: re.Match[str]) -> str:
    return f"{found['scheme'] or found['name'] or found['word']}{REDACTED}"


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


def _at(record: logging.LogRecord) -> str:
    return timestamp(datetime.fromtimestamp(record.created, UTC))

"""Logs: format log records as JSON lines for programs or as plain lines for a terminal.

Long values are truncated, and secrets are redacted: those that the redactor finds, and values whose
name or context suggests a secret. Logs redact more than stored records.
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

from onceward.system import timestamp
from onceward.system.redaction import REDACTED, Redactor

VALUE_CHARACTERS_MAX: Final = 500
#: The end of a trace is kept, which contains the error.
TRACE_CHARACTERS_MAX: Final = 8_192
_WORDS: Final = (
    r"token|secret|passw(?:or)?d|passphrase|pwd|authorization|credential|cookie"
    r"|(?:api|access|private)[_-]?key"
)
#: Fields with such a name are always redacted.
_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
#: Secrets inside a text that only logs redact: passwords in URLs, values whose name contains such a
#: word, and sentences such as "token is …".
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
#: Finds well-known forms of secrets, but no known values.
_FORMS: Final = Redactor()
_PLAIN: Final = ("position", "epoch", "retries", "retrySeconds", "messages", "letter", "pid")


class _RedactingFormatter(logging.Formatter):
    """Base of both formatters: redacts messages, fields and traces."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        """Use this redactor. Default: one for the secrets of the environment."""
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


class JsonLogFormatter(_RedactingFormatter):
    """Formats a record as one line of JSON: `level`, `event`, `at`, and its fields."""

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


class PlainLogFormatter(_RedactingFormatter):
    """Formats a record as a line for a terminal: time, level, message and important fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = _facts(record)
        shown_facts = " ".join(
            f"{name}={self._shown(name, facts[name])}"
            for name in _PLAIN
            if facts.get(name) is not None
        )
        when = _at(record)[11:19]
        text = self._text(record)
        line = (
            f"{when} {record.levelname.lower():<7} {text}{'  ' if shown_facts else ''}{shown_facts}"
        )
        trace = self._trace(record)
        if trace is not None:
            line += f"\n{trace}"
        return line.encode(errors="replace").decode()


def set_up(*, as_json: bool, is_verbose: bool = False, stream: TextIO | None = None) -> None:
    """Log to standard error, as JSON lines or plain lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLogFormatter() if as_json else PlainLogFormatter())
    log = logging.getLogger("onceward")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if is_verbose else logging.INFO)
    log.propagate = False


def redacted(text: str, redactor: Redactor = _FORMS) -> str:
    """Return a text with likely secrets redacted, truncated to a readable length."""
    return _without_secrets(text, redactor)[:VALUE_CHARACTERS_MAX]


def _without_secrets(text: str, redactor: Redactor) -> str:
    # The redactor first: it finds complete values, of which our own rules might leave a part.
    return _INSIDE.sub(_redacted_match, redactor.text(text))


def _redacted_match(found: re.Match[str]) -> str:
    return f"{found['scheme'] or found['name'] or found['word']}{REDACTED}"


def _dumped(line: Mapping[str, object]) -> str:
    """Return a line as JSON; values that JSON cannot carry are converted, never dropped."""
    try:
        return orjson.dumps(line, default=str).decode()
    except TypeError:  # An unpaired surrogate, or a number of more than 64 bits.
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

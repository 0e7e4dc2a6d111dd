"""Entity names: the names of issues and commands, with secrets redacted.

Names are stored, displayed and logged, so secrets are redacted first. Redacting a name again must
not change it.
"""

from __future__ import annotations

from typing import Final
from unicodedata import normalize

from onceward.errors import InvalidArgument
from onceward.keys.stable import canonical_command, error_key, warning_key
from onceward.system.redaction import REDACTED, Redactor

#: Limit for an issue's name, so that the name of its fix stays within the limit for names.
ISSUE_BYTES_MAX: Final = 1_900
#: How much of a message is used for its name.
_MESSAGE_CHARACTERS_MAX: Final = 8 * 1024
#: Limit for repeated normalisation, because each pass may expose new matches; usually one.
_PASSES_MAX: Final = 20


def issue_name(message: str, redactor: Redactor | None = None, *, is_warning: bool = False) -> str:
    """Return the stable key of a message, `err#…` or `warn#…`, within the limit for names.

    Normalises until nothing changes: removing a hash can join the halves of a time, and lower case
    can reveal a secret.
    """
    key, prefix = (warning_key, "warn#") if is_warning else (error_key, "err#")
    # Neither engine stores NUL characters.
    body = (_redacted(message, redactor)[:_MESSAGE_CHARACTERS_MAX]).replace("\0", " ")
    for _ in range(_PASSES_MAX):
        name = normalize("NFC", key(_redacted(normalize("NFC", body), redactor)))
        settled = truncate(name.removeprefix(prefix), ISSUE_BYTES_MAX - len(prefix))
        if settled == body:
            return prefix + settled
        body = settled
    problem = "message: no stable name can be derived from it: each redaction changes it again"
    fix = "pass less of the message, such as its first line"
    raise InvalidArgument(problem, fix=fix, field="message")


def command_line(cmd: str, redactor: Redactor | None = None) -> str:
    """Return the canonical command line used in `cmd#…`, by which results are grouped."""
    plain = normalize("NFC", cmd)
    collapsed = " ".join(_redacted(plain, redactor).replace("\0", " ").split())
    # Collapsed white space can reveal a secret's name next to its value.
    clean = _redacted(collapsed, redactor)
    line = canonical_command(clean)
    return line if line == clean else _without_partial_marker(line)


def _redacted(text: str, redactor: Redactor | None) -> str:
    return text if redactor is None else redactor.text(text)


def truncate(text: str, bytes_max: int) -> str:
    """Return the beginning of a text, cut between characters, as valid Unicode."""
    encoded = text.encode(errors="replace")
    kept = encoded[:bytes_max].decode(errors="ignore")
    return kept if len(encoded) <= bytes_max else _without_partial_marker(kept)


def _without_partial_marker(text: str) -> str:
    """Remove an incomplete redaction marker at the end; it would be redacted again."""
    for length in range(len(REDACTED) - 1, 0, -1):
        if text.endswith(REDACTED[:length]):
            return text[:-length].rstrip()
    return text

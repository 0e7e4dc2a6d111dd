"""Names: what issues and commands are called, once their secrets are gone.

A name is kept, shown and logged everywhere, so the secrets go before it is made; and it must come
out the same when somebody takes secrets out of it again. Knows no other grammar of names.
"""

from __future__ import annotations

from typing import Final
from unicodedata import normalize

from onceward.errors import InvalidArgument
from onceward.keys.stable import canonical_command, error_key, warning_key
from onceward.secrets import REDACTED, Redactor

#: How long the name of an issue may be, so that the name of its fix is no longer than names may be.
ISSUE_BYTES_MAX: Final = 1_900
#: How much of a message its name is made of.
_MESSAGE_CHARACTERS_MAX: Final = 8 * 1024
#: How often taking something out of a message may uncover something else; it is once in practice.
_PASSES_MAX: Final = 20


def issue_name(message: str, redactor: Redactor | None = None, *, is_warning: bool = False) -> str:
    """Return `err#…` or `warn#…` of a message: its stable key, settled and short enough for a name.

    Taking out a hash can bring the halves of a time together, and small letters can look like a
    secret where capitals did not, so it is done until nothing changes.
    """
    key, prefix = (warning_key, "warn#") if is_warning else (error_key, "err#")
    # No database keeps a NUL.
    body = (_redacted(message, redactor)[:_MESSAGE_CHARACTERS_MAX]).replace("\0", " ")
    for _ in range(_PASSES_MAX):
        name = normalize("NFC", key(_redacted(normalize("NFC", body), redactor)))
        settled = cut(name.removeprefix(prefix), ISSUE_BYTES_MAX - len(prefix))
        if settled == body:
            return prefix + settled
        body = settled
    problem = "message: does not settle on one form"
    raise InvalidArgument(problem, fix="pass the first line of the problem", field="message")


def command_line(cmd: str, redactor: Redactor | None = None) -> str:
    """Return the canonical command that stands in `cmd#…`, by which reads group."""
    plain = normalize("NFC", cmd)
    collapsed = " ".join(_redacted(plain, redactor).replace("\0", " ").split())
    # Closer together, a name and its value may be seen to be a secret.
    clean = _redacted(collapsed, redactor)
    line = canonical_command(clean)
    return line if line == clean else _whole_marks(line)


def _redacted(text: str, redactor: Redactor | None) -> str:
    return text if redactor is None else redactor.text(text)


def cut(text: str, bytes_max: int) -> str:
    """Return the beginning of a text, cut between characters, as text that can be written."""
    encoded = text.encode(errors="replace")
    kept = encoded[:bytes_max].decode(errors="ignore")
    return kept if len(encoded) <= bytes_max else _whole_marks(kept)


def _whole_marks(text: str) -> str:
    """Leave out the beginning of a mark at the end: it would be taken for another secret."""
    for length in range(len(REDACTED) - 1, 0, -1):
        if text.endswith(REDACTED[:length]):
            return text[:-length].rstrip()
    return text

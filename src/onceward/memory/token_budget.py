"""Token budget: short texts for a model within a token limit, with records quoted as data."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Final

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

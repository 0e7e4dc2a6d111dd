"""Question detection: find out whether a program that changed nothing asked a question. Pure.

Programs that run unattended may still ask. Their output is then the only indication.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: Number of last lines of a builder that are searched for a question.
BUILDER_LINES: Final = 20
#: Only the last line of a reviewer: linters and test suites print question marks too.
JUDGE_LINES: Final = 1
QUESTION_CHARACTERS_MAX: Final = 1000
#: A question mark at the end of a sentence, not inside a URL or pattern; or a `[y/n]` prompt. The
#: mark may be repeated, and at the end of a line after a space, as in French.
_ASKS: Final = re.compile(
    r"""
    [^\s?][?\uff1f\u061f][?!\uff1f\uff01]*(?=[\s"'*_`)\]\\<\u2026\u201c\u201d\u2019\u00bb]|:?\s*$)
    |\w\s[?]\W*$
    |[\[(]\s*y(?:es)?\s*/\s*no?(?:\s*/\s*\w+)*\s*[\])]
    """,
    re.IGNORECASE | re.VERBOSE,
)


def find_question(lines: Sequence[str], *, last: int) -> str | None:
    """Return the first question in the last lines and the text after it, or None."""
    end = lines[-last:]
    for number, line in enumerate(end):
        if _ASKS.search(line):
            text = "\n".join(end[number:]).strip()
            return text[:QUESTION_CHARACTERS_MAX]
    return None

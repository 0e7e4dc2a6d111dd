"""Questions: whether a program that did nothing has asked for an answer instead. Pure.

Programs that run without a person still ask. What they print then is the only sign of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: A builder that changed nothing has asked if one of its last lines is a question.
BUILDER_LINES: Final = 20
#: Linters and test suites print question marks; a verdict is missing if the last line is one.
JUDGE_LINES: Final = 1
QUESTION_CHARACTERS_MAX: Final = 1000
#: A question mark that ends a sentence, not one inside of a URL or a pattern; or a prompt.
_ASKS: Final = re.compile(
    r"""[^\s?][?\uff1f](?=[\s"'*_`)\]\\]|$)|[\[(]\s*y(?:es)?\s*/\s*no?\s*[\])]""", re.IGNORECASE
)


def question_in(lines: Sequence[str], *, last: int) -> str | None:
    """Return the first question among the last lines, with what follows it; None without one."""
    end = lines[-last:]
    for number, line in enumerate(end):
        if _ASKS.search(line):
            text = "\n".join(end[number:]).strip()
            return text[:QUESTION_CHARACTERS_MAX]
    return None

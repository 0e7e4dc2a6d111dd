"""Ranking: which of the entities that match a query stands first. Pure, and the same everywhere.

What the name says counts most, then the type, then what was observed; whole words count more than
beginnings, short texts more than long ones. It looks at nothing but the query and the entity, so
that a page that is asked for later is ranked as the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceward.memory.graph.words import Question, Term, words_of

_SAME_NAME: Final = 1_000
_NAME, _TYPE, _CONTENT = 100, 30, 10
#: A text of this many words counts half of what a very short one does.
_LONG_WORDS: Final = 40


def score(question: Question, name: str, entity_type: str, content: str) -> int:
    """Return how well an entity fits, given the observation that matched, if one did."""
    total = _SAME_NAME if name.casefold() == question.text.casefold() and question.text else 0
    for worth, text in ((_NAME, name), (_TYPE, entity_type), (_CONTENT, content)):
        words = words_of(text)
        found = sum(_fits(term, words) for term in question.terms)
        total += int(worth * found * _LONG_WORDS / (_LONG_WORDS + len(words)))
    return total


def is_in(question: Question, text: str) -> bool:
    """Say whether a text has all the terms."""
    words = words_of(text)
    return all(_fits(term, words) for term in question.terms)


def _fits(term: Term, words: Sequence[str]) -> float:
    """Return 2 for the whole words, 1 for a beginning, 0 for nothing."""
    *before, last = term.words
    best = 0.0
    for place in range(len(words) - len(before)):
        if list(words[place : place + len(before)]) != before:
            continue
        found = words[place + len(before)]
        if found == last:
            return 2.0
        if term.is_prefix and found.startswith(last):
            best = 1.0
    return best

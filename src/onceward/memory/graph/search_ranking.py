"""Search ranking: the order of matching entities; pure functions, equal on both engines.

The name counts most, then the type, then the observation. Full words count more than prefixes, and
short texts more than long ones. The rank depends only on the query and the entity, so pages are
consistent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceward.memory.graph.tokenizer import SearchQuery, SearchTerm, words_of

_SAME_NAME: Final = 1_000
_NAME, _TYPE, _CONTENT = 100, 30, 10
#: A text of this many words counts half as much as a very short one.
_LONG_WORDS: Final = 40


def score(question: SearchQuery, name: str, entity_type: str, content: str) -> int:
    """Return the relevance of an entity, given the matching observation, if any."""
    total = _SAME_NAME if name.casefold() == question.text.casefold() and question.text else 0
    for worth, text in ((_NAME, name), (_TYPE, entity_type), (_CONTENT, content)):
        words = words_of(text)
        found = sum(_term_score(term, words) for term in question.terms)
        total += int(worth * found * _LONG_WORDS / (_LONG_WORDS + len(words)))
    return total


def is_in(question: SearchQuery, text: str) -> bool:
    """Return whether a text contains all search terms."""
    words = words_of(text)
    return all(_term_score(term, words) for term in question.terms)


def _term_score(term: SearchTerm, words: Sequence[str]) -> float:
    """Return 2 for full words, 1 for a prefix, 0 for no match."""
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

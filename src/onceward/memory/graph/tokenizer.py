"""Tokenizer: texts and queries as words, the same for both engines.

A word is a run of letters and digits, without case and accents. An ideograph is a separate word, so
that parts of such texts are found. Both engines index these words, so they find the same entities.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from onceward.errors.arguments import reject_field
from onceward.stores.queries import Engine

#: Limit for the indexed words of one text.
WORDS_MAX: Final = 4_000
#: Limit for the indexed part of a word; a longer word is found by its prefix.
WORD_CHARACTERS_MAX: Final = 64
QUERY_CHARACTERS_MAX: Final = 2_000
QUERY_TERMS_MAX: Final = 32
#: Prefixes of internal index terms, from Unicode's private use area.
_TYPE, _CLASS, _NODE = "\ue000", "\ue001", "\ue002"
_IDEOGRAPHS: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_WORD: Final = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_ASCII_WORD: Final = re.compile(r"[0-9a-z]+")
_PART: Final = re.compile(r'(?:(type|key):)?(?:"([^"]*)"?|(\S+))', re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    if text.isascii():
        found = _ASCII_WORD.findall(text.lower())
    else:
        plain = unicodedata.normalize("NFKD", text).casefold()
        plain = "".join(each for each in plain if not unicodedata.combining(each))
        found = _WORD.findall(unicodedata.normalize("NFKC", plain))
    del found[WORDS_MAX:]
    return [word[:WORD_CHARACTERS_MAX] for word in found]


def key_class(name: str) -> str:
    """Return the part before the `#` of a stable key, or an empty string."""
    before, mark, _ = name.partition("#")
    return before.casefold() if mark and before.isascii() and before.isalnum() else ""


def document(engine: Engine, name: str, entity_type: str, content: str | None) -> str:
    """Return the index terms of an entity (no content) or of one of its observations."""
    words = words_of(name)
    words += words_of(entity_type if content is None else content)
    marks = [_type_mark(entity_type)]
    if key_class(name):
        marks.append(_CLASS + key_class(name)[:WORD_CHARACTERS_MAX])
    if content is None:
        marks.append(_NODE)
    if engine == "sqlite":
        return " ".join([*words, *marks])
    return " ".join(f"{word}:{place}" for place, word in enumerate([*words, *marks], start=1))


def _type_mark(entity_type: str) -> str:
    return _TYPE + hashlib.sha256(entity_type.casefold().encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchTerm:
    """Adjacent words; the last one may be a prefix."""

    words: tuple[str, ...]
    is_prefix: bool = False
    #: Whether it was quoted, so its last word is never a prefix.
    is_phrase: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery:
    """A parsed query."""

    #: The query without its filters, for comparison with names.
    text: str
    #: The query as a name: unchanged, and without quotes and extra spaces.
    names: tuple[str, ...]
    terms: tuple[SearchTerm, ...]
    types: tuple[str, ...]
    #: Names, or prefixes of names if they end with `*` or `#`.
    keys: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether the query has no terms and no filters."""
        return not (self.terms or self.types or self.keys)

    @property
    def is_name_lookup(self) -> bool:
        """Return whether names select the results: no other filters, or only complete names."""
        is_few = not any(each.endswith(("*", "#")) for each in self.keys)
        return bool(self.keys) and (is_few or not (self.terms or self.types))

    def with_prefix_match(self) -> SearchQuery:
        """Return the query with its last word as a prefix, for search while typing."""
        if not self.terms or self.terms[-1].is_phrase:
            return self
        last = replace(self.terms[-1], is_prefix=True)
        return replace(self, terms=(*self.terms[:-1], last))

    def match(self, engine: Engine, *, is_node: bool | None = None) -> str:
        """Return the query in an engine's syntax: for names and types, observations, or both."""
        parts = [_term_expression(engine, term) for term in self.terms]
        classes = {key_class(key) for key in self.keys}
        marks = ([_type_mark(each) for each in self.types], [_CLASS + each for each in classes])
        # A name without a class matches any class, so classes cannot be used as a filter.
        parts += [_any_of(engine, sorted(each)) for each in marks if each and _CLASS not in each]
        found = (" AND " if engine == "sqlite" else " & ").join(parts)
        if is_node is None:
            return found
        node = _quoted(engine, _NODE)
        if engine == "sqlite":
            return f"({found}) {'AND' if is_node else 'NOT'} {node}"
        return f"{found} & {'' if is_node else '!'}{node}"


def parse(query: str) -> SearchQuery:
    """Parse a query: words, prefix*, "phrases", `type:Error`, `key:err#…` or `key:err#*`.

    Everything else is treated as words, never as a syntax error.
    """
    if len(query) > QUERY_CHARACTERS_MAX:
        problem = f"has {len(query)} characters; the limit is {QUERY_CHARACTERS_MAX}"
        reject_field("query", problem, "search for a few words of it")
    terms: list[SearchTerm] = []
    types: list[str] = []
    keys: list[str] = []
    rest: list[str] = []
    for part in _PART.finditer(query):
        filtered, phrase, bare = part.groups()
        value = bare if phrase is None else phrase
        if filtered and value:
            (types if filtered.lower() == "type" else keys).append(value)
            continue
        rest.append(value)
        words = tuple(words_of(part[0] if phrase is None else phrase))
        if words:
            is_prefix = phrase is None and value.endswith("*")
            terms.append(SearchTerm(words=words, is_prefix=is_prefix, is_phrase=phrase is not None))
    return SearchQuery(
        text=" ".join(rest),
        names=tuple(dict.fromkeys([query.strip(), *([] if types or keys else [" ".join(rest)])])),
        terms=tuple(dict.fromkeys(terms))[:QUERY_TERMS_MAX],
        types=tuple(dict.fromkeys(types))[:QUERY_TERMS_MAX],
        keys=tuple(dict.fromkeys(keys))[:QUERY_TERMS_MAX],
    )


def _term_expression(engine: Engine, term: SearchTerm) -> str:
    if engine == "sqlite":
        return _quoted(engine, " ".join(term.words)) + ("*" if term.is_prefix else "")
    *before, last = term.words
    quoted = [*(f"'{word}'" for word in before), f"'{last}'" + (":*" if term.is_prefix else "")]
    return "(" + " <-> ".join(quoted) + ")"


def _any_of(engine: Engine, marks: list[str]) -> str:
    joined = (" OR " if engine == "sqlite" else " | ").join(_quoted(engine, each) for each in marks)
    return f"({joined})"


def _quoted(engine: Engine, word: str) -> str:
    return f'"{word}"' if engine == "sqlite" else f"'{word}'"

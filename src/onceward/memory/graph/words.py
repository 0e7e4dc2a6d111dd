"""Words: how texts and questions become words, the same for every engine. Knows no SQL.

A word is a run of letters and digits, without case and accents; an ideograph is a word of its own,
so that a part of such a text is found as well. Both engines index the words that are made here, so
that they find the same.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from onceward.errors import InvalidArgument
from onceward.stores.queries import Engine

#: How much of one text is indexed.
WORDS_MAX: Final = 4_000
#: How much of one word is indexed; a longer one is found by its beginning.
WORD_CHARACTERS_MAX: Final = 64
QUERY_CHARACTERS_MAX: Final = 2_000
QUERY_TERMS_MAX: Final = 32
#: Marks of our own, in the range of characters that no text has a meaning for.
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
    """Return what stands before the `#` of a stable key, or nothing."""
    before, mark, _ = name.partition("#")
    return before.casefold() if mark and before.isascii() and before.isalnum() else ""


def document(engine: Engine, name: str, entity_type: str, content: str | None) -> str:
    """Return what is indexed for an entity (no content) or for one of its observations."""
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
class Term:
    """Words that stand next to each other; the last may be a beginning."""

    words: tuple[str, ...]
    is_prefix: bool = False
    #: Whether it was quoted, and so means just that.
    is_phrase: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a query asks for."""

    #: The query without its filters, for comparing with names.
    text: str
    #: Names that the whole query may be: as it was typed, and without quotes and spare spaces.
    names: tuple[str, ...]
    terms: tuple[Term, ...]
    types: tuple[str, ...]
    #: Names, or beginnings of names if they end with `*` or `#`.
    keys: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Say whether it asks for everything."""
        return not (self.terms or self.types or self.keys)

    @property
    def is_of_names(self) -> bool:
        """Say whether names tell most of what it asks for: all of it, or a few whole names."""
        is_few = not any(each.endswith(("*", "#")) for each in self.keys)
        return bool(self.keys) and (is_few or not (self.terms or self.types))

    def loosened(self) -> Question:
        """Return the same with the last word as a beginning, as somebody types it."""
        if not self.terms or self.terms[-1].is_phrase:
            return self
        last = replace(self.terms[-1], is_prefix=True)
        return replace(self, terms=(*self.terms[:-1], last))

    def match(self, engine: Engine, *, is_node: bool | None = None) -> str:
        """Write it in the language of an engine: for names and types, for observations, or both."""
        parts = [_written(engine, term) for term in self.terms]
        classes = {key_class(key) for key in self.keys}
        marks = ([_type_mark(each) for each in self.types], [_CLASS + each for each in classes])
        # A name without a class can be any, so then the class of others says nothing.
        parts += [_any_of(engine, sorted(each)) for each in marks if each and _CLASS not in each]
        found = (" AND " if engine == "sqlite" else " & ").join(parts)
        if is_node is None:
            return found
        node = _quoted(engine, _NODE)
        if engine == "sqlite":
            return f"({found}) {'AND' if is_node else 'NOT'} {node}"
        return f"{found} & {'' if is_node else '!'}{node}"


def parse(query: str) -> Question:
    """Read a query: words, begin*, "phrases", `type:Error`, `key:err#…` or `key:err#*`.

    Whatever else is in it are words, never an error.
    """
    if len(query) > QUERY_CHARACTERS_MAX:
        message = f"query: longer than {QUERY_CHARACTERS_MAX} characters"
        raise InvalidArgument(message, fix="search for a few words of it", field="query")
    terms: list[Term] = []
    types: list[str] = []
    keys: list[str] = []
    rest: list[str] = []
    for part in _PART.finditer(query):
        filtered, phrase, bare = part.groups()
        said = bare if phrase is None else phrase
        if filtered and said:
            (types if filtered.lower() == "type" else keys).append(said)
            continue
        rest.append(said)
        words = tuple(words_of(part[0] if phrase is None else phrase))
        if words:
            is_prefix = phrase is None and said.endswith("*")
            terms.append(Term(words=words, is_prefix=is_prefix, is_phrase=phrase is not None))
    return Question(
        text=" ".join(rest),
        names=tuple(dict.fromkeys([query.strip(), *([] if types or keys else [" ".join(rest)])])),
        terms=tuple(dict.fromkeys(terms))[:QUERY_TERMS_MAX],
        types=tuple(dict.fromkeys(types))[:QUERY_TERMS_MAX],
        keys=tuple(dict.fromkeys(keys))[:QUERY_TERMS_MAX],
    )


def _written(engine: Engine, term: Term) -> str:
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

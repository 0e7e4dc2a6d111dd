"""Entity lookup: find entities by name, message, URL, command or words.

Tries exact names, then names derived from the text, then a search. The cost of each step is
independent of the size of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from onceward.errors import InvalidArgument
from onceward.keys.stable import doc_key, normalize_message
from onceward.memory.entity_names import TYPES, command_line, issue_name
from onceward.memory.envelope import is_url
from onceward.memory.graph import Graph
from onceward.memory.graph.tokenizer import words_of
from onceward.memory.models import NAME_BYTES_MAX, Entity, Relation, Subgraph
from onceward.memory.related_entities import observed_at, parse_time

#: How much of a text is used.
TEXT_CHARACTERS_MAX: Final = 16 * 1024
#: How many lines of a longer text are tried as messages.
LINES_MAX: Final = 20
#: How many results of one command are read.
COMMANDS_MAX: Final = 20
_HITS_MAX: Final = 5
#: Words of the first search, and of the next ones while nothing is found.
_WORDS: Final = (12, 5, 3)
_SINGLE_SEARCHES_MAX: Final = 6
_CHARACTERS_MIN: Final = 3
#: How many observations of a search result are compared with the text.
_COMPARED_OBSERVATIONS_MAX: Final = 5
_ISSUES_ONLY: Final = " type:Error type:Warning"
#: Placeholders of message normalisation, and words too common to search for.
_COMMON: Final = frozenset(
    words_of(
        "ts path pos ver redacted the and not for with from this that was has are you can cannot "
        "could who what when where why how does did about error errors warning warnings failed "
        "failure exception line file test tests assert assertionerror traceback most recent call "
        "last none true false null self"
    )
)
_DIGITS_8: Final = re.compile(r"[0-9a-f]{8}")


class MatchMethod(StrEnum):
    """How an entity was found."""

    EXACT_KEY = "exact key"  #: the text is a name
    DERIVED_KEY = "derived key"  #: a name was derived from the text or one of its lines
    SEARCH = "search"  #: full-text search
    NOTHING = "nothing"  #: no match


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupResult:
    """The entities that match a text, and their relations."""

    how: MatchMethod
    #: The matched entity; several only if they are results of one command.
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    #: Names of further search results.
    others: tuple[str, ...] = ()


def find(graph: Graph, text: str) -> LookupResult:
    """Return the entities that match a text."""
    clean = graph.redactor.text(text[:TEXT_CHARACTERS_MAX]).replace("\0", " ").strip()
    if not clean:
        message = "text: must not be empty"
        raise InvalidArgument(message, fix="pass a message, a name or some words", field="text")
    if exact := _open_in_order(graph, [clean]):
        return _lookup_result(MatchMethod.EXACT_KEY, exact)
    if derived := _open_in_order(graph, list(_derived_names(graph, clean))):
        return _lookup_result(MatchMethod.DERIVED_KEY, derived)
    if commands := _command_results(graph, clean):
        relations = graph.open([each.name for each in commands]).relations
        return LookupResult(how=MatchMethod.DERIVED_KEY, entities=commands, relations=relations)
    words = _significant_words(clean)
    hits = _search_all_words(graph, words) or _search_single_words(graph, words)
    return (
        _lookup_result(MatchMethod.SEARCH, hits) if hits else LookupResult(how=MatchMethod.NOTHING)
    )


def _lookup_result(how: MatchMethod, subgraph: Subgraph) -> LookupResult:
    first, *rest = subgraph.entities
    relations = [
        each for each in subgraph.relations if first.name in (each.from_name, each.to_name)
    ]
    others = tuple(each.name for each in rest)
    return LookupResult(how=how, entities=(first,), relations=tuple(relations), others=others)


def _open_in_order(graph: Graph, names: list[str]) -> Subgraph | None:
    """Return the entities with these names, in the order of the names."""
    possible = [each for each in names if len(each.encode(errors="replace")) <= NAME_BYTES_MAX]
    found = graph.open(possible) if possible else None
    if found is None or not found.entities:
        return None
    order = {name: place for place, name in enumerate(possible)}
    entities = sorted(found.entities, key=lambda each: order.get(each.name, len(order)))
    return Subgraph(entities=tuple(entities), relations=found.relations)


def _derived_names(graph: Graph, text: str) -> Iterator[str]:
    """Yield the names derived from the text as a URL or a message, and from its last lines."""
    if is_url(text):
        yield doc_key(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # In command output the message is usually last.
    parts = [text, *reversed(lines[-LINES_MAX:])] if len(lines) > 1 else [text]
    for part in parts:
        for is_warning in (False, True):
            try:
                yield issue_name(part, graph.redactor, is_warning=is_warning)
            except InvalidArgument:  # Only times and hashes.
                continue


def _command_results(graph: Graph, text: str) -> tuple[Entity, ...]:
    """Return the latest results of a command, whatever their output was."""
    line = command_line(text.removeprefix(f"{TYPES['Command']}#"), graph.redactor)
    prefix = f"{TYPES['Command']}#{line}#"
    named = graph.find_by_prefix(prefix, limit=COMMANDS_MAX)
    same = [each for each in named if _DIGITS_8.fullmatch(each.name[len(prefix) :])]
    return tuple(sorted(same, key=_last_seen, reverse=True))


def _last_seen(entity: Entity) -> datetime:
    return max(
        parse_time(each) for each in (entity.created_at, *map(observed_at, entity.observations))
    )


def _significant_words(text: str) -> list[str]:
    """Return the distinct words of a text without common and short ones."""
    words = list(dict.fromkeys(words_of(normalize_message(text))))
    telling = [each for each in words if len(each) >= _CHARACTERS_MIN and each not in _COMMON]
    return telling or words


def _search_all_words(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for all words together, then for the rarest ones; issues before other entities."""
    done: set[tuple[str, ...]] = set()
    for count in _WORDS:
        rare = set(sorted(words, key=_rarity, reverse=True)[:count])
        chosen = tuple(word for word in words if word in rare)
        if not chosen or chosen in done:
            continue
        done.add(chosen)
        # Quoted, so that a word is not parsed as query syntax.
        query = " ".join(f'"{word}"' for word in chosen)
        for asked in (query + _ISSUES_ONLY, query):
            hits = graph.search(asked, limit=_HITS_MAX)
            if hits.entities:
                return hits
    return None


def _search_single_words(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for the rarest words one by one, and return entities that share enough words."""
    found: dict[str, Entity] = {}
    relations: dict[int, Relation] = {}
    for word in sorted(words, key=_rarity, reverse=True)[:_SINGLE_SEARCHES_MAX]:
        for asked in (f'"{word}"{_ISSUES_ONLY}', f'"{word}"'):
            hits = graph.search(asked, limit=_HITS_MAX)
            found |= {each.name: each for each in hits.entities}
            relations |= {each.id: each for each in hits.relations}
    shared = {name: _shared(entity, words) for name, entity in found.items()}
    enough = [name for name, count in shared.items() if count >= 2 and 3 * count >= len(words)]
    # The sort is stable: with equal counts, issues stay first.
    best = sorted(enough, key=lambda name: shared[name], reverse=True)[:_HITS_MAX]
    if not best:
        return None
    entities = tuple(found[name] for name in best)
    return Subgraph(entities=entities, relations=tuple(relations.values()))


def _shared(entity: Entity, words: Sequence[str]) -> int:
    texts = (
        entity.name,
        *(each.content for each in entity.observations[-_COMPARED_OBSERVATIONS_MAX:]),
    )
    return len({word for text in texts for word in words_of(text)} & set(words))


def _rarity(word: str) -> tuple[bool, int]:
    return (not word.isdigit(), len(word))

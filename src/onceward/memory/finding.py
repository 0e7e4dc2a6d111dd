"""Finding: which entities somebody means by a text: a name, a message, a URL, a command, or words.

Exact names come first, then names that are made of the text, then a search. Every step costs the
same however large the graph is.
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
from onceward.memory.evidence import moment, seen
from onceward.memory.facts import is_url
from onceward.memory.graph import Graph
from onceward.memory.graph.words import words_of
from onceward.memory.models import NAME_BYTES_MAX, Entity, Relation, Subgraph
from onceward.memory.naming import command_line, issue_name
from onceward.memory.vocabulary import TYPES

#: How much of a text is looked at.
TEXT_CHARACTERS_MAX: Final = 16 * 1024
#: How many lines of a longer text may be messages of their own.
LINES_MAX: Final = 20
#: How many results of one command are looked at.
COMMANDS_MAX: Final = 20
_HITS_MAX: Final = 5
#: How many words a search begins with, and goes on with when it finds nothing.
_WORDS: Final = (12, 5, 3)
_SINGLES_MAX: Final = 6
_CHARACTERS_MIN: Final = 3
#: How many observations of a hit are compared with the text.
_LOOKED_AT_MAX: Final = 5
_ISSUES_ONLY: Final = " type:Error type:Warning"
#: What the normalisation of a message puts in, and words that stand in every other message.
_COMMON: Final = frozenset(
    words_of(
        "ts path pos ver redacted the and not for with from this that was has are you can cannot "
        "could who what when where why how does did about error errors warning warnings failed "
        "failure exception line file test tests assert assertionerror traceback most recent call "
        "last none true false null self"
    )
)
_DIGITS_8: Final = re.compile(r"[0-9a-f]{8}")


class How(StrEnum):
    """How something was found."""

    EXACT_KEY = "exact key"  #: the text is a name
    DERIVED_KEY = "derived key"  #: the text, or a line of it, makes a name
    SEARCH = "search"  #: some of its words are there
    NOTHING = "nothing"  #: nothing is known


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a text means, and what touches it."""

    how: How
    #: The one that is meant; several only if they are results of one command.
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    #: Names of others that a search found.
    others: tuple[str, ...] = ()


def find(graph: Graph, text: str) -> Found:
    """Return what a text means."""
    clean = graph.redactor.text(text[:TEXT_CHARACTERS_MAX]).replace("\0", " ").strip()
    if not clean:
        message = "text: must not be empty"
        raise InvalidArgument(message, fix="pass a message, a name or some words", field="text")
    if exact := _opened(graph, [clean]):
        return _found(How.EXACT_KEY, exact)
    if derived := _opened(graph, list(_derived(graph, clean))):
        return _found(How.DERIVED_KEY, derived)
    if commands := _results(graph, clean):
        relations = graph.open([each.name for each in commands]).relations
        return Found(how=How.DERIVED_KEY, entities=commands, relations=relations)
    words = _telling(clean)
    hits = _by_all(graph, words) or _by_some(graph, words)
    return _found(How.SEARCH, hits) if hits else Found(how=How.NOTHING)


def _found(how: How, subgraph: Subgraph) -> Found:
    first, *rest = subgraph.entities
    relations = [
        each for each in subgraph.relations if first.name in (each.from_name, each.to_name)
    ]
    others = tuple(each.name for each in rest)
    return Found(how=how, entities=(first,), relations=tuple(relations), others=others)


def _opened(graph: Graph, names: list[str]) -> Subgraph | None:
    """Return what has one of these names, those asked for first before the others."""
    possible = [each for each in names if len(each.encode(errors="replace")) <= NAME_BYTES_MAX]
    found = graph.open(possible) if possible else None
    if found is None or not found.entities:
        return None
    order = {name: place for place, name in enumerate(possible)}
    entities = sorted(found.entities, key=lambda each: order.get(each.name, len(order)))
    return Subgraph(entities=tuple(entities), relations=found.relations)


def _derived(graph: Graph, text: str) -> Iterator[str]:
    """Yield the names that the text makes as a message, as a URL, and each line as a message."""
    if is_url(text):
        yield doc_key(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # In an output the message mostly comes last.
    parts = [text, *reversed(lines[-LINES_MAX:])] if len(lines) > 1 else [text]
    for part in parts:
        for is_warning in (False, True):
            try:
                yield issue_name(part, graph.redactor, is_warning=is_warning)
            except InvalidArgument:  # Nothing in it but times and hashes.
                continue


def _results(graph: Graph, text: str) -> tuple[Entity, ...]:
    """Return the last results of a command, if the text is one: same command, any output."""
    line = command_line(text.removeprefix(f"{TYPES['Command']}#"), graph.redactor)
    prefix = f"{TYPES['Command']}#{line}#"
    named = graph.named(prefix, limit=COMMANDS_MAX)
    same = [each for each in named if _DIGITS_8.fullmatch(each.name[len(prefix) :])]
    return tuple(sorted(same, key=_last_seen, reverse=True))


def _last_seen(entity: Entity) -> datetime:
    return max(moment(each) for each in (entity.created_at, *map(seen, entity.observations)))


def _telling(text: str) -> list[str]:
    """Return the words of a text that say something, each once."""
    words = list(dict.fromkeys(words_of(normalize_message(text))))
    telling = [each for each in words if len(each) >= _CHARACTERS_MIN and each not in _COMMON]
    return telling or words


def _by_all(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for all the words at once, then for those that look rarest; issues before all else."""
    done: set[tuple[str, ...]] = set()
    for count in _WORDS:
        rare = set(sorted(words, key=_rarity, reverse=True)[:count])
        chosen = tuple(word for word in words if word in rare)
        if not chosen or chosen in done:
            continue
        done.add(chosen)
        # Quoted, a word is a word and nothing else.
        query = " ".join(f'"{word}"' for word in chosen)
        for asked in (query + _ISSUES_ONLY, query):
            hits = graph.search(asked, limit=_HITS_MAX)
            if hits.entities:
                return hits
    return None


def _by_some(graph: Graph, words: Sequence[str]) -> Subgraph | None:
    """Search for the rarest words one by one, and keep what has enough of the others, too."""
    found: dict[str, Entity] = {}
    relations: dict[int, Relation] = {}
    for word in sorted(words, key=_rarity, reverse=True)[:_SINGLES_MAX]:
        for asked in (f'"{word}"{_ISSUES_ONLY}', f'"{word}"'):
            hits = graph.search(asked, limit=_HITS_MAX)
            found |= {each.name: each for each in hits.entities}
            relations |= {each.id: each for each in hits.relations}
    shared = {name: _shared(entity, words) for name, entity in found.items()}
    enough = [name for name, count in shared.items() if count >= 2 and 3 * count >= len(words)]
    # Of those that share as many words, issues come first: they were found first.
    best = sorted(enough, key=lambda name: shared[name], reverse=True)[:_HITS_MAX]
    if not best:
        return None
    entities = tuple(found[name] for name in best)
    return Subgraph(entities=entities, relations=tuple(relations.values()))


def _shared(entity: Entity, words: Sequence[str]) -> int:
    texts = (entity.name, *(each.content for each in entity.observations[-_LOOKED_AT_MAX:]))
    return len({word for text in texts for word in words_of(text)} & set(words))


def _rarity(word: str) -> tuple[bool, int]:
    return (not word.isdigit(), len(word))

"""Searching: the entities that answer a question, the best first, page by page.

The engine finds the newest documents that match, a block at a time, so that no more than a block is
ranked, however many there are; within a block the best stand first. Names and types come before
observations, and whole words before the beginnings of words, which cost more to find.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from onceward.errors import InvalidCursor
from onceward.memory.graph.ranking import is_in, score
from onceward.memory.graph.reading import LAST, Reader, check_limit
from onceward.memory.graph.words import Question, parse
from onceward.memory.graph.writing import bound
from onceward.memory.models import ENTITIES_MAX, SEARCH_DEFAULT, Entity, Subgraph
from onceward.stores import Store

#: How many documents are ranked together.
BLOCK_DOCS: Final = 300
#: How much of an observation is looked at for its rank.
_SHOWN_CHARACTERS: Final = 400
_TOP: Final = 2**62
_EXACT, _NAMES, _CONTENTS, _NAMES_BEGUN, _CONTENTS_BEGUN = range(5)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """How far a search has come: which block, and what was given of it."""

    stage: int = _EXACT
    #: The documents of this block lie below.
    top: int = _TOP
    #: Rank of the last one that was given of this block.
    after: tuple[int, int] | None = None
    #: The last name that was given, when only names are asked for.
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Hit:
    """An entity that matches, by its best document of a block; the lowest rank stands first."""

    rank: tuple[int, int]
    entity_id: int


class Searcher:
    """Questions of words."""

    def __init__(self, store: Store, reader: Reader, spell: Callable[[str], str]) -> None:
        """Search this store; `spell` returns the canonical spelling of a name."""
        self._store = store
        self._reader = reader
        self._spell = spell

    def search(self, query: str, limit: int | None, cursor: str | None) -> Subgraph:
        """Return the entities that answer a query, the best first, and what touches them."""
        if not query.strip():
            return self._reader.page(check_limit(limit, ENTITIES_MAX, SEARCH_DEFAULT), cursor)
        rows, following = self.find(query, limit, cursor)
        return self._reader.subgraph(rows, next_cursor=following)

    def find(
        self, query: str, limit: int | None, cursor: str | None
    ) -> tuple[list[tuple[Any, ...]], str | None]:
        """Return rows of the entities that answer a query, the best first, and where to go on."""
        wanted = check_limit(limit, ENTITIES_MAX, SEARCH_DEFAULT)
        question = self._question(query)
        if question.is_empty:  # Symbols are no words; they can only be a name.
            return self._named(question)[:wanted], None
        seal = hashlib.sha256(query.encode(errors="surrogatepass")).hexdigest()[:12]
        place = _opened(cursor, seal)
        if question.is_of_names:
            return self._by_name(question, wanted, place, seal)
        ids: list[int] = []
        for hit, at in self._hits(question, place):
            if len(ids) == wanted:
                return self._reader.rows(ids), _sealed(place, seal)
            ids.append(hit.entity_id)
            place = at
        return self._reader.rows(ids), None

    def _question(self, query: str) -> Question:
        """Read a query; names in it are looked for in their canonical spelling as well."""
        question = parse(query)
        keys = [each for key in question.keys for each in (self._spelled_key(key), key)]
        names = [each for name in question.names for each in (self._spell(name), name)]
        return replace(question, names=tuple(dict.fromkeys(names)), keys=tuple(dict.fromkeys(keys)))

    def _spelled_key(self, key: str) -> str:
        return key if key.endswith(("*", "#")) else self._spell(key)

    def _by_name(
        self, question: Question, wanted: int, place: _Place, seal: str
    ) -> tuple[list[tuple[Any, ...]], str | None]:
        """Answer a question that asks for names or their beginnings: in their order.

        What else it asks for is looked up in each; so only for few names.
        """
        found: dict[str, tuple[Any, ...]] = {}
        for low, high in _ranges(question):
            rows = self._reader.range(low, high, place.name, wanted + 1)
            found.update((row[1], row) for row in rows)
        ordered = [found[name] for name in sorted(found, key=str.encode)]
        if question.terms or question.types:
            fitting = {
                each.id for each in self._reader.entities(ordered)[0] if _fits(question, each)
            }
            ordered = [row for row in ordered if row[0] in fitting]
        is_more = len(ordered) > wanted
        more = _sealed(_Place(name=ordered[wanted - 1][1]), seal) if is_more else None
        return ordered[:wanted], more

    def _hits(self, question: Question, place: _Place) -> Iterator[tuple[_Hit, _Place]]:
        """Yield what matches, each entity once, with the place behind it."""
        top, after = place.top, place.after
        last = _CONTENTS if question.loosened() == question else _CONTENTS_BEGUN
        for stage in range(place.stage, last + 1):
            while True:
                hits, bottom = self._block(question, stage, top)
                for hit in hits:
                    if after is None or hit.rank > after:
                        yield hit, _Place(stage=stage, top=top, after=hit.rank)
                after = None
                if bottom is None:
                    break
                top = bottom
            top = _TOP

    def _block(self, question: Question, stage: int, top: int) -> tuple[list[_Hit], int | None]:
        """Return the best of the next documents first, and where the block behind them begins."""
        if stage == _EXACT:
            return self._exact(question), None
        asked = question.loosened() if stage >= _NAMES_BEGUN else question
        is_node = stage in (_NAMES, _NAMES_BEGUN)
        ranges = [{"low": low, "high": high} for low, high in _ranges(question)]
        rows = self._store.read(
            "memory_search",
            match=asked.match(self._store.engine, is_node=is_node),
            top=top,
            ranges=json.dumps(ranges) if ranges else None,
            begun=asked is not question,
            shown=_SHOWN_CHARACTERS,
            limit=BLOCK_DOCS,
        )
        best: dict[int, tuple[int, int]] = {}
        for document, entity_id, name, kind, content in rows:
            # What the name says was found by the name.
            if name in question.names or (not is_node and is_in(asked, f"{name} {kind}")):
                continue
            rank = (-score(asked, name, kind, content), -document)
            best[entity_id] = min(rank, best.get(entity_id, rank))
        if asked is not question:
            self._leave_out(best, question, 0)
        if not is_node and top < _TOP:
            self._leave_out(best, asked, top)
        hits = [_Hit(rank=rank, entity_id=entity_id) for entity_id, rank in best.items()]
        bottom = rows[-1][0] if len(rows) == BLOCK_DOCS else None
        return sorted(hits, key=lambda hit: hit.rank), bottom

    def _leave_out(self, best: dict[int, Any], given: Question, top: int) -> None:
        """Leave out what an earlier stage or block has given, which asked this, at or above."""
        if best:
            match = given.match(self._store.engine)
            place = bound({"match": match, "top": top, "ids": list(best)})
            for (seen,) in self._store.read("memory_search_seen", **place):
                del best[seen]

    def _exact(self, question: Question) -> list[_Hit]:
        """Return the entity whose name is the query, which no number of others may hide."""
        found = enumerate(self._named(question))
        return [_Hit(rank=(0, place), entity_id=row[0]) for place, row in found]

    def _named(self, question: Question) -> list[tuple[Any, ...]]:
        """Return rows of the entities whose names are the whole query, the canonical one first."""
        rows = {row[1]: row for row in self._reader.whole(question.names)}
        return [rows[name] for name in question.names if name in rows]


def _fits(question: Question, entity: Entity) -> bool:
    """Say whether an entity answers a question, by its name and type or by one observation."""
    kinds = [each.casefold() for each in question.types]
    if kinds and entity.entity_type.casefold() not in kinds:
        return False
    texts = [entity.entity_type, *(each.content for each in entity.observations)]
    asked = question.loosened()
    return any(is_in(asked, f"{entity.name} {text}") for text in texts)


def _ranges(question: Question) -> list[tuple[str, str]]:
    """Return where the names lie that a question asks for; the end is not part of it."""
    return [
        (key.removesuffix("*"), key.removesuffix("*") + LAST)
        if key.endswith(("*", "#"))
        else _only(key)
        for key in question.keys
    ]


def _only(name: str) -> tuple[str, str]:
    # No name has a NUL in it, so nothing lies between.
    return name, f"{name}\x01"


def _sealed(place: _Place, seal: str) -> str:
    """Write a place down so that it can be given out; it fits this query only."""
    told = [seal, place.stage, place.top, place.after, place.name]
    return base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")


def _opened(cursor: str | None, seal: str) -> _Place:
    """Read a place; refuse what is none, or belongs to another query."""
    if cursor is None:
        return _Place()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        told = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        found, stage, top, after, name = told
        place = _Place(stage=stage, top=top, after=tuple(after) if after else None, name=name)
    except (ValueError, TypeError, RecursionError):
        place = None
    if place is None or not _is_place(place):
        message = "cursor: is not one that a search gave"
        raise InvalidCursor(message, fix="begin without a cursor", field="cursor")
    if found != seal:
        message = "cursor: belongs to another query"
        raise InvalidCursor(message, fix="send the query that gave it", field="cursor")
    return place


def _is_place(place: _Place) -> bool:
    numbers = (place.stage, place.top, *(place.after or (0, 0)))
    is_number = [type(each) is int and -_TOP <= each <= _TOP for each in numbers]
    return (
        is_number == [True] * 4
        and _EXACT <= place.stage <= _CONTENTS_BEGUN
        and type(place.name) is str
    )

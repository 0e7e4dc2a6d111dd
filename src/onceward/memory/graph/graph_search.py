"""Graph search: entities that match a query, best first, page by page.

The engine finds matching documents in blocks, newest first, so the cost of ranking is bounded.
Within a block the best come first. Names and types come before observations, and full words before
prefixes, which cost more.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from onceward.errors import InvalidCursor
from onceward.memory.graph.graph_reads import (
    CURSOR_FIX,
    NAME_UPPER_BOUND,
    GraphReader,
    check_limit,
)
from onceward.memory.graph.tokenizer import SearchQuery, SearchTerm, parse, words_of
from onceward.memory.models import ENTITIES_MAX, SEARCH_DEFAULT, Entity, Subgraph
from onceward.stores import Row, Store

#: How many documents are ranked together.
BLOCK_DOCS: Final = 300
#: How much of an observation is used for ranking.
_SHOWN_CHARACTERS: Final = 400
_TOP: Final = 2**62
_SAME_NAME: Final = 1_000
_NAME, _TYPE, _CONTENT = 100, 30, 10
#: A text of this many words counts half as much as a very short one.
_LONG_WORDS: Final = 40
_EXACT, _NAMES, _CONTENTS, _NAMES_BEGUN, _CONTENTS_BEGUN = range(5)


class _SearchPosition(NamedTuple):
    """The position of a paged search: its stage, its block and the last result."""

    stage: int = _EXACT
    #: Documents of this block have lower ids.
    top: int = _TOP
    #: Rank of the last result returned from this block.
    after: tuple[int, int] | None = None
    #: The last name returned, for a search by name.
    name: str = ""


class _SearchHit(NamedTuple):
    """A matching entity with the rank of its best document in a block; lower is better."""

    rank: tuple[int, int]
    entity_id: int


class GraphSearcher:
    """Full-text search, and search by name."""

    def __init__(self, store: Store, reader: GraphReader, spell: Callable[[str], str]) -> None:
        """Search this store; `spell` returns the canonical form of a name."""
        self._store = store
        self._reader = reader
        self._spell = spell

    def search(self, query: str, limit: int | None, cursor: str | None) -> Subgraph:
        """Return the entities that match a query, best first, and their relations."""
        if not query.strip():
            return self._reader.page(check_limit(limit, ENTITIES_MAX, SEARCH_DEFAULT), cursor)
        rows, following = self.find(query, limit, cursor)
        return self._reader.subgraph(rows, next_cursor=following)

    def find(
        self, query: str, limit: int | None, cursor: str | None
    ) -> tuple[list[Row], str | None]:
        """Return rows of the entities that match a query, best first, and the next cursor."""
        wanted = check_limit(limit, ENTITIES_MAX, SEARCH_DEFAULT)
        question = self._question(query)
        if question.is_empty:  # Symbols are not words, so they can only be a name.
            return self._named(question)[:wanted], None
        seal = hashlib.sha256(query.encode(errors="surrogatepass")).hexdigest()[:12]
        place = _decode_cursor(cursor, seal)
        if question.is_name_lookup:
            return self._by_name(question, wanted, place, seal)
        ids: list[int] = []
        for hit, at in self._hits(question, place):
            if len(ids) == wanted:
                return self._reader.rows(ids), _encode_cursor(place, seal)
            ids.append(hit.entity_id)
            place = at
        return self._reader.rows(ids), None

    def _question(self, query: str) -> SearchQuery:
        """Parse a query; names in it are searched in their canonical form as well."""
        question = parse(query)
        keys = [each for key in question.keys for each in (self._spelled_key(key), key)]
        names = [each for name in question.names for each in (self._spell(name), name)]
        return replace(question, names=tuple(dict.fromkeys(names)), keys=tuple(dict.fromkeys(keys)))

    def _spelled_key(self, key: str) -> str:
        return key if key.endswith(("*", "#")) else self._spell(key)

    def _by_name(
        self, question: SearchQuery, wanted: int, place: _SearchPosition, seal: str
    ) -> tuple[list[Row], str | None]:
        """Return rows in order of name, for a query by names or prefixes.

        Other conditions are checked for each row, so this is used only for few names.
        """
        found: dict[str, Row] = {}
        for low, high in _name_ranges(question):
            within = {"low": low, "high": high, "after": place.name, "limit": wanted + 1}
            rows = self._reader.query("memory_entity_range", **within)
            found.update((row[1], row) for row in rows)
        ordered = [found[name] for name in sorted(found, key=str.encode)]
        if question.terms or question.types:
            fitting = {
                each.id for each in self._reader.entities(ordered)[0] if _matches(question, each)
            }
            ordered = [row for row in ordered if row[0] in fitting]
        is_more = len(ordered) > wanted
        more = (
            _encode_cursor(_SearchPosition(name=ordered[wanted - 1][1]), seal) if is_more else None
        )
        return ordered[:wanted], more

    def _hits(
        self, question: SearchQuery, place: _SearchPosition
    ) -> Iterator[tuple[_SearchHit, _SearchPosition]]:
        """Yield each matching entity once, with the position after it."""
        top, after = place.top, place.after
        last = _CONTENTS if question.with_prefix_match() == question else _CONTENTS_BEGUN
        for stage in range(place.stage, last + 1):
            while True:
                hits, bottom = self._block(question, stage, top)
                for hit in hits:
                    if after is None or hit.rank > after:
                        yield hit, _SearchPosition(stage=stage, top=top, after=hit.rank)
                after = None
                if bottom is None:
                    break
                top = bottom
            top = _TOP

    def _block(
        self, question: SearchQuery, stage: int, top: int
    ) -> tuple[list[_SearchHit], int | None]:
        """Return the next block of results, best first, and where the following block begins."""
        if stage == _EXACT:
            return self._exact(question), None
        asked = question.with_prefix_match() if stage >= _NAMES_BEGUN else question
        is_node = stage in (_NAMES, _NAMES_BEGUN)
        ranges = [{"low": low, "high": high} for low, high in _name_ranges(question)]
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
            # Matches by name were returned in an earlier stage.
            if name in question.names or (not is_node and is_in(asked, f"{name} {kind}")):
                continue
            rank = (-score(asked, name, kind, content), -document)
            best[entity_id] = min(rank, best.get(entity_id, rank))
        if asked is not question:
            self._leave_out(best, question, 0)
        if not is_node and top < _TOP:
            self._leave_out(best, asked, top)
        hits = [_SearchHit(rank=rank, entity_id=entity_id) for entity_id, rank in best.items()]
        bottom = rows[-1][0] if len(rows) == BLOCK_DOCS else None
        return sorted(hits, key=lambda hit: hit.rank), bottom

    def _leave_out(self, best: dict[int, Any], given: SearchQuery, top: int) -> None:
        """Remove the entities that an earlier stage or block has returned."""
        if best:
            match = given.match(self._store.engine)
            asked = {"match": match, "top": top, "ids": list(best)}
            for (seen,) in self._reader.query("memory_search_seen", **asked):
                del best[seen]

    def _exact(self, question: SearchQuery) -> list[_SearchHit]:
        """Return the entity whose name is the query; it always comes first."""
        found = enumerate(self._named(question))
        return [_SearchHit(rank=(0, place), entity_id=row[0]) for place, row in found]

    def _named(self, question: SearchQuery) -> list[Row]:
        """Return rows of the entities named like the query, the canonical name first."""
        rows = {row[1]: row for row in self._reader.rows_by_name(question.names)}
        return [rows[name] for name in question.names if name in rows]


def _matches(question: SearchQuery, entity: Entity) -> bool:
    """Return whether an entity matches a query, by name and type or by one observation."""
    kinds = [each.casefold() for each in question.types]
    if kinds and entity.entity_type.casefold() not in kinds:
        return False
    texts = [entity.entity_type, *(each.content for each in entity.observations)]
    asked = question.with_prefix_match()
    return any(is_in(asked, f"{entity.name} {text}") for text in texts)


def _name_ranges(question: SearchQuery) -> list[tuple[str, str]]:
    """Return the half-open ranges of names that a query asks for."""
    return [
        (key.removesuffix("*"), key.removesuffix("*") + NAME_UPPER_BOUND)
        if key.endswith(("*", "#"))
        else _exact_range(key)
        for key in question.keys
    ]


def _exact_range(name: str) -> tuple[str, str]:
    # Names contain no NUL, so no other name is in this range.
    return name, f"{name}\x01"


def _encode_cursor(place: _SearchPosition, seal: str) -> str:
    """Return a position as a cursor that is valid for this query only."""
    return base64.urlsafe_b64encode(json.dumps([seal, *place]).encode()).decode().rstrip("=")


def _decode_cursor(cursor: str | None, seal: str) -> _SearchPosition:
    """Parse a cursor; reject an invalid one, or one of another query."""
    if cursor is None:
        return _SearchPosition()
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        fields = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        found, stage, top, after, name = fields
        place = _SearchPosition(stage, top, tuple(after) if after else None, name)
        is_valid = _is_valid_position(place)
    except (ValueError, TypeError, RecursionError):
        is_valid = False
    if not is_valid:
        message = f"cursor: {cursor!r:.60} is not a position in the results of a search"
        raise InvalidCursor(message, fix=CURSOR_FIX, field="cursor")
    if found != seal:
        message = "cursor: was returned by another query"
        fix = "send it with the query that returned it, or start without a cursor"
        raise InvalidCursor(message, fix=fix, field="cursor")
    return place


def _is_valid_position(place: _SearchPosition) -> bool:
    numbers = (place.stage, place.top, *(place.after or (0, 0)))
    is_number = [type(each) is int and -_TOP <= each <= _TOP for each in numbers]
    return (
        is_number == [True] * 4
        and _EXACT <= place.stage <= _CONTENTS_BEGUN
        and type(place.name) is str
    )


# --- ranking: depends only on the query and the entity, so pages are consistent -------------------


def score(question: SearchQuery, name: str, entity_type: str, content: str) -> int:
    """Return the relevance of an entity, given the matching observation, if any.

    The name counts most, then the type, then the observation. Full words count more than prefixes,
    and short texts more than long ones.
    """
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

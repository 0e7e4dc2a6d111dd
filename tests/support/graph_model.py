"""A model of the graph in plain dictionaries, to compare with a store."""

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any

from onceward.memory.graph import Graph
from onceward.memory.models import (
    AffectedCounts,
    Entity,
    Link,
    Relation,
    Removal,
    Subgraph,
    WriteBatch,
    WriteStatus,
)

#: Names with their types and observations, and relations: what a client sees.
Seen = tuple[dict[str, tuple[str, tuple[str, ...]]], frozenset[Link]]


def identity(content: str) -> str:
    """Say which observation it is: the same one at another time is the same."""
    if not content.startswith("{"):
        return content
    found: dict[str, Any] = json.loads(content)
    found.pop("ts", None)
    return json.dumps(found, sort_keys=True)


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


@dataclass
class Node:
    type: str
    #: The deletion that took it; 0 while it is there.
    gone: int = 0


@dataclass
class Fact:
    content: str
    gone: int = 0


@dataclass(frozen=True)
class Deletion:
    """One change that can be undone: of an entity, an observation or a relation."""

    owner: str
    fact: tuple[str, str] | None = None
    link: Link | None = None


@dataclass
class GraphModel:
    nodes: dict[str, Node] = field(default_factory=dict)
    facts: dict[tuple[str, str], Fact] = field(default_factory=dict)
    links: dict[Link, int] = field(default_factory=dict)
    deletions: dict[int, Deletion] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    # --- what there is --------------------------------------------------------------------------

    def is_there(self, name: str) -> bool:
        return name in self.nodes and not self.nodes[name].gone

    def contents(self, name: str) -> tuple[str, ...]:
        return tuple(
            fact.content
            for (owner, _), fact in self.facts.items()
            if owner == name and not fact.gone
        )

    def seen(self, names: set[str] | None = None) -> Seen:
        """Return what a reader sees: everything, or these names and what touches them."""
        entities = {
            name: (node.type, self.contents(name))
            for name, node in self.nodes.items()
            if not node.gone and (names is None or name in names)
        }
        links = frozenset(
            link
            for link, gone in self.links.items()
            if not gone and (names is None or {link.from_name, link.to_name} & names)
        )
        return entities, links

    def with_word(self, word: str) -> set[str]:
        """Return the names that a search for one word, or its beginning, finds."""
        found = set()
        for name, (kind, contents) in self.seen()[0].items():
            text = " ".join([name, kind, *contents])
            if any(each.startswith(word) for each in words(text)):
                found.add(name)
        return found

    def deleted(self) -> int:
        gone = [*(node.gone for node in self.nodes.values()), *self.links.values()]
        gone += [fact.gone for fact in self.facts.values()]
        return sum(map(bool, gone))

    # --- what changes it ------------------------------------------------------------------------

    def missing(self, batch: WriteBatch) -> set[str]:
        """Return the names that a batch needs and that neither it nor the graph has."""
        created = {each.name for each in batch.entities}
        needed = {each.entity_name for each in batch.observations}
        if not batch.is_best_effort:
            needed |= {e for link in batch.relations for e in (link.from_name, link.to_name)}
        return {name for name in needed - created if not self.is_there(name)}

    def write(self, batch: WriteBatch) -> dict[object, WriteStatus]:
        """Add it; return what becomes of each thing: name, name and observation, or link."""
        assert not self.missing(batch)
        fates: dict[object, WriteStatus] = {}
        for entity in batch.entities:
            self._add_node(entity.name, entity.entity_type, fates)
        observed = [(each.name, each.observations) for each in batch.entities]
        observed += [(each.entity_name, each.contents) for each in batch.observations]
        for name, contents in observed:
            for content in contents:
                self._add_fact(name, content, fates)
        for link in batch.relations:
            self._add_link(link, fates)
        return fates

    def _add_node(self, name: str, kind: str, fates: dict[object, WriteStatus]) -> None:
        if self.is_there(name):
            fates.setdefault(name, WriteStatus.KNOWN)
        else:
            fates[name] = WriteStatus.RESTORED if name in self.nodes else WriteStatus.CREATED
            self.nodes.setdefault(name, Node(kind))
            self.nodes[name].type, self.nodes[name].gone = kind, 0

    def _add_fact(self, name: str, content: str, fates: dict[object, WriteStatus]) -> None:
        key = (name, identity(content))
        if key not in self.facts:
            self.facts[key], fates[key] = Fact(content), WriteStatus.CREATED
        elif self.facts[key].gone:
            self.facts[key].gone, fates[key] = 0, WriteStatus.RESTORED
        fates.setdefault(key, WriteStatus.KNOWN)

    def _add_link(self, link: Link, fates: dict[object, WriteStatus]) -> None:
        if not (self.is_there(link.from_name) and self.is_there(link.to_name)):
            fates[link] = WriteStatus.REFUSED
        elif link not in self.links:
            self.links[link], fates[link] = 0, WriteStatus.CREATED
        elif self.links[link]:
            self.links[link], fates[link] = 0, WriteStatus.RESTORED
        fates.setdefault(link, WriteStatus.KNOWN)

    def remove(self, removal: Removal) -> AffectedCounts:
        """Delete it; what goes with an entity goes with the entity's deletion."""
        links = [each for each in dict.fromkeys(removal.relations) if self.links.get(each) == 0]
        for link in links:
            self.links[link] = self._deletion(Deletion(link.from_name, link=link))
        asked = [
            (o.entity_name, identity(text)) for o in removal.observations for text in o.contents
        ]
        facts = [
            key for key in dict.fromkeys(asked) if key in self.facts and not self.facts[key].gone
        ]
        for key in facts:
            self.facts[key].gone = self._deletion(Deletion(key[0], fact=key))
        names = [name for name in dict.fromkeys(removal.entities) if self.is_there(name)]
        for name in names:
            number = self._deletion(Deletion(name))
            self.nodes[name].gone = number
            facts += self._take_along(name, number)
            touching = [link for link in self.links if name in (link.from_name, link.to_name)]
            taken = [link for link in touching if not self.links[link]]
            self.links |= dict.fromkeys(taken, number)
            links += taken
        return AffectedCounts(entities=len(names), observations=len(facts), relations=len(links))

    def _take_along(self, name: str, number: int) -> list[tuple[str, str]]:
        taken = [key for key, fact in self.facts.items() if key[0] == name and not fact.gone]
        for key in taken:
            self.facts[key].gone = number
        return taken

    def _deletion(self, deletion: Deletion) -> int:
        number: int = next(self._numbers)
        self.deletions[number] = deletion
        return number

    def is_held(self, number: int) -> bool:
        """Say whether a deletion cannot be undone now, because its owner is deleted itself."""
        deletion = self.deletions[number]
        owner = self.nodes[deletion.owner]
        is_whole = deletion.fact is None and deletion.link is None
        return bool(owner.gone) and not (is_whole and owner.gone == number)

    def restore(self, number: int) -> AffectedCounts:
        """Undo a deletion, of whatever it still holds."""
        assert not self.is_held(number)
        owner = self.nodes[self.deletions[number].owner]
        entities = int(owner.gone == number)
        owner.gone = 0
        facts = [fact for fact in self.facts.values() if fact.gone == number]
        for fact in facts:
            fact.gone = 0
        links = 0
        for link, gone in self.links.items():
            if gone == number:
                # It stays away as long as one of its ends does.
                ends = (self.nodes[link.from_name].gone, self.nodes[link.to_name].gone)
                self.links[link] = ends[0] or ends[1]
                links += not self.links[link]
        return AffectedCounts(entities=entities, observations=len(facts), relations=links)


def seen(found: Subgraph) -> Seen:
    """Return what a reader was given, in the model's words."""
    names = [each.name for each in found.entities]
    assert len(names) == len(set(names)), names
    links = [
        Link(from_name=each.from_name, to_name=each.to_name, relation_type=each.relation_type)
        for each in found.relations
    ]
    assert len(links) == len(set(links)), links
    entities = {each.name: (each.entity_type, _contents(each)) for each in found.entities}
    return entities, frozenset(links)


def everything(graph: Graph, page: int = 1000) -> Subgraph:
    """Return the whole graph, read page by page."""
    entities: list[Entity] = []
    relations: list[Relation] = []
    cursor = None
    while True:
        found = graph.read(limit=page, cursor=cursor)
        assert not found.is_cut
        entities += found.entities
        relations += found.relations
        cursor = found.next_cursor
        if cursor is None:
            return Subgraph(entities=tuple(entities), relations=tuple(relations))


def _contents(entity: Entity) -> tuple[str, ...]:
    assert len({each.fingerprint for each in entity.observations}) == len(entity.observations)
    return tuple(each.content for each in entity.observations)

"""Memory views: entities, their neighbourhood and their history as JSON for the API. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from typing_extensions import TypedDict

from onceward.console.responses import ActionResult, extended, moment
from onceward.memory.entity_pages import (
    CONTENT_CHARACTERS_MAX,
    EntityDetails,
    EntitySummary,
    Neighbourhood,
    Node,
)
from onceward.memory.fact_text import DETAIL_CHARACTERS_MAX, fact_text
from onceward.memory.models import EntityChange, Observation, Relation
from onceward.memory.provenance import EntityProvenance, FactProvenance, RelationProvenance

#: Longer texts of a change are cut.
TEXT_CHARACTERS_MAX: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityCard:
    """An entity in a list; people and agents know it by name, not by id."""

    name: str
    entity_type: str
    created_at: str
    observations_count: int | None
    headline: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservationItem:
    """An observation: its content, and a readable text."""

    id: int
    content: str
    is_cut: bool
    headline: str
    kind: str | None
    ts: str | None
    source: str
    run: str | None
    created_at: str


#: Relations are dictionaries, since `from` cannot be the name of a field.
RelationItem = TypedDict(
    "RelationItem",
    {
        "from": str,
        "to": str,
        "relation_type": str,
        "source": str,
        "run": str | None,
        "created_at": str,
    },
)
NeighbourhoodEdge = TypedDict("NeighbourhoodEdge", {"from": str, "to": str, "relation_type": str})
ProvenRelation = TypedDict(
    "ProvenRelation",
    {
        "relation_type": str,
        "stored_at": str,
        "source": str,
        "run": str | None,
        "from": str,
        "to": str,
    },
)


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityItem:
    """One entity with its newest observations, relations and history; also a deleted one."""

    name: str
    entity_type: str
    source: str
    run: str | None
    created_at: str
    observations: list[ObservationItem]
    relations: list[RelationItem]
    history: list[EntityChange]
    is_deleted: bool
    is_cut: bool
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourhoodGraph:
    """The entities around an entity, nearest first, and the relations between them."""

    nodes: tuple[Node, ...]
    edges: list[NeighbourhoodEdge]
    is_cut: bool
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservationProvenance:
    """One observation and its origin."""

    id: int
    content: str
    is_cut: bool
    headline: str
    kind: str | None
    source: str
    run: str | None
    observed_at: str | None
    stored_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvenanceItem:
    """The origin of an entity, of all its facts or one, and of its relations."""

    name: str
    node_id: int
    entity_type: str
    stored_at: str
    source: str
    run: str | None
    facts: tuple[FactProvenance, ...] | tuple[ObservationProvenance]
    relations: list[ProvenRelation]
    chain: list[ProvenRelation]
    runs: tuple[str, ...]
    is_cut: bool
    text: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreResult(ActionResult):
    """The counts of a restore, or of its plan."""

    success: bool
    message: str
    entities: int
    observations: int
    relations: int
    #: Deletions whose parts are still deleted, if the entity itself was not.
    changes: list[int]


def card_of(card: EntitySummary) -> EntityCard:
    """Return an entity for a list."""
    return extended(EntityCard, card)


def entity_item(whole: EntityDetails) -> EntityItem:
    """Return one entity with all details."""
    return extended(
        EntityItem,
        whole.entity,
        observations=[_observation(each) for each in whole.entity.observations],
        relations=[_relation(each) for each in whole.relations],
        history=[_change(each) for each in whole.history],
        is_deleted=whole.is_deleted,
        is_cut=whole.is_cut,
        as_of=moment(),
    )


def _observation(one: Observation) -> ObservationItem:
    is_cut = len(one.content) == CONTENT_CHARACTERS_MAX
    headline = fact_text(one.content, DETAIL_CHARACTERS_MAX)
    return extended(ObservationItem, one, is_cut=is_cut, headline=headline)


def _relation(one: Relation) -> RelationItem:
    return {
        "from": one.from_name,
        "to": one.to_name,
        "relation_type": one.relation_type,
        "source": one.source,
        "run": one.run,
        "created_at": one.created_at,
    }


def neighbourhood_graph(found: Neighbourhood) -> NeighbourhoodGraph:
    """Return the neighbourhood of an entity."""
    edges: list[NeighbourhoodEdge] = [
        {"from": each.from_name, "to": each.to_name, "relation_type": each.relation_type}
        for each in found.edges
    ]
    return extended(NeighbourhoodGraph, found, edges=edges, as_of=moment())


def provenance_item(found: EntityProvenance, observation: Observation | None) -> ProvenanceItem:
    """Return an entity's provenance, with all facts or one of them."""
    facts: tuple[object, ...] = found.facts
    if observation is not None:
        one = _observation(observation)
        facts = (
            extended(ObservationProvenance, one, observed_at=one.ts, stored_at=one.created_at),
        )
    return extended(
        ProvenanceItem,
        found,
        facts=facts,
        relations=[_proven(each) for each in found.relations],
        chain=[_proven(each) for each in found.chain],
        as_of=moment(),
    )


def _proven(one: RelationProvenance) -> ProvenRelation:
    return {
        "relation_type": one.relation_type,
        "stored_at": one.stored_at,
        "source": one.source,
        "run": one.run,
        "from": one.from_name,
        "to": one.to_name,
    }


def _change(change: EntityChange) -> EntityChange:
    text = change.text
    if len(text) <= TEXT_CHARACTERS_MAX:
        return change
    return replace(change, text=f"{text[: TEXT_CHARACTERS_MAX - 1]}…")

"""Memory models: entities, observations and relations; write batches and their results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

EntityId = NewType("EntityId", int)
ObservationId = NewType("ObservationId", int)
RelationId = NewType("RelationId", int)
ChangeId = NewType("ChangeId", int)

#: Below the limit for an index key in both engines.
NAME_BYTES_MAX: Final = 2_000
TYPE_BYTES_MAX: Final = 500
SOURCE_BYTES_MAX: Final = 500
OBSERVATION_BYTES_MAX: Final = 256 * 1024
#: Entities, observations and relations of one call, together.
BATCH_ITEMS_MAX: Final = 20_000
#: Limits of one answer; a larger one is truncated and has `is_cut` set.
ENTITIES_MAX: Final = 10_000
OBSERVATIONS_MAX: Final = 50_000
RELATIONS_MAX: Final = 10_000
SEARCH_DEFAULT: Final = 100


class Validation(StrEnum):
    """Which writes a graph validates against the policy."""

    POLICY = "policy"  #: writes that use the policy's prefixes, types, relations or envelopes
    STRICT = "strict"  #: all; anything outside the policy is rejected
    LENIENT = "lenient"  #: none


# --- requests ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOrigin:
    """The source and the run of a write; stored with every row that the write adds."""

    source: str = ""
    run: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEntity:
    """An entity to create if it does not exist, with observations to add if they are missing."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NewObservations:
    """Observations to add to an existing entity."""

    entity_name: str
    contents: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A relation identified by entity names, in active voice: `from_name` does it to `to_name`."""

    from_name: str
    to_name: str
    relation_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteBatch:
    """One atomic write: all entities, observations and relations are stored, or none are."""

    entities: tuple[NewEntity, ...] = ()
    observations: tuple[NewObservations, ...] = ()
    relations: tuple[Link, ...] = ()
    #: Whether an invalid relation is reported instead of rejecting the batch.
    is_best_effort: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One atomic soft delete. Items that do not exist are ignored."""

    entities: tuple[str, ...] = ()
    observations: tuple[NewObservations, ...] = ()
    relations: tuple[Link, ...] = ()


# --- results -------------------------------------------------------------------------------------


class WriteStatus(StrEnum):
    """The effect of a write on one item."""

    CREATED = "created"  #: it did not exist
    KNOWN = "known"  #: it existed already; nothing changed
    RESTORED = "restored"  #: it was deleted, and exists again
    REFUSED = "refused"  #: a relation of a best-effort batch that is not valid
    BUFFERED = "buffered"  #: the store is unavailable; the record is on disk and replayed later


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityResult:
    """The effect of a batch on one entity."""

    name: str
    #: The stored type; an existing entity keeps its own.
    entity_type: str
    status: WriteStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservationResult:
    """The effect of a batch on one observation."""

    entity_name: str
    content: str
    status: WriteStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationResult:
    """The effect of a batch on one relation."""

    link: Link
    status: WriteStatus
    #: Why it was rejected; empty otherwise.
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteResult:
    """The effects of a batch, in request order, without duplicates."""

    entities: tuple[EntityResult, ...]
    observations: tuple[ObservationResult, ...]
    relations: tuple[RelationResult, ...]


@dataclass(frozen=True, slots=True)
class AffectedCounts:
    """How many items a removal or a restoration changed."""

    entities: int
    observations: int
    relations: int


# --- stored data: the fields of each class are the columns of its rows, in this order -------------


@dataclass(frozen=True, slots=True)
class Observation:
    """One fact about an entity, with its origin."""

    id: ObservationId
    content: str
    #: Identifies the observation within its entity; excludes the time of an envelope.
    fingerprint: str
    #: The type of its envelope, such as `error.capture`; None for plain text.
    kind: str | None
    #: When it was observed, from its envelope; else None.
    ts: str | None
    source: str
    run: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class Entity:
    """A node with its observations, oldest first."""

    id: EntityId
    name: str
    entity_type: str
    source: str
    run: str | None
    created_at: str
    observations: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed, typed edge between two entities."""

    id: RelationId
    from_name: str
    to_name: str
    relation_type: str
    source: str
    run: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Subgraph:
    """Entities and their relations."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    #: Cursor of the next page; None at the end.
    next_cursor: str | None = None
    #: Whether observations or relations were left out because of the limits of an answer.
    is_cut: bool = False


class ChangeAction(StrEnum):
    """The action of an entry in an entity's history."""

    CREATED = "created"
    DELETED = "deleted"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One entry in the history of an entity."""

    #: Number of a deletion or a restoration, None for a creation; `restore` takes a deletion's.
    id: ChangeId | None
    at: str
    action: ChangeAction
    #: `entity`, `observation` or `relation`.
    what: str
    #: The name, the content, or `from RELATION to`.
    text: str
    source: str
    run: str | None


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Numbers of entities, observations and relations in the graph."""

    entities: int
    observations: int
    relations: int
    #: Soft-deleted entities, observations and relations, which can be restored.
    deleted: int

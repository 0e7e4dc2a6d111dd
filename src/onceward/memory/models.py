"""Models: what the graph holds, what a write asks for, and what became of it. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

EntityId = NewType("EntityId", int)
ObservationId = NewType("ObservationId", int)
RelationId = NewType("RelationId", int)
ChangeId = NewType("ChangeId", int)

#: What an index of either engine takes, with room to spare.
NAME_BYTES_MAX: Final = 2_000
TYPE_BYTES_MAX: Final = 500
SOURCE_BYTES_MAX: Final = 500
OBSERVATION_BYTES_MAX: Final = 256 * 1024
#: Entities, observations and relations of one call, together.
BATCH_ITEMS_MAX: Final = 20_000
#: What one answer holds at the most; behind that it is cut, and says so.
ENTITIES_MAX: Final = 10_000
OBSERVATIONS_MAX: Final = 50_000
RELATIONS_MAX: Final = 10_000
SEARCH_DEFAULT: Final = 100


class Validation(StrEnum):
    """Which writes a graph checks against the policy."""

    POLICY = "policy"  #: those that use the policy's prefixes, types, relations or envelopes
    STRICT = "strict"  #: all; anything outside the policy is refused
    LENIENT = "lenient"  #: none


# --- what a write asks for -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Who writes, and in which run; kept with everything that the write adds."""

    source: str = ""
    run: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewEntity:
    """An entity to create if it is not there, with observations to add if they are not."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NewObservations:
    """Observations to add to an entity that is there."""

    entity_name: str
    contents: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A relation by the names of its ends, in active voice: `from_name` does it to `to_name`."""

    from_name: str
    to_name: str
    relation_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """One write: everything in it happens, or nothing does. Entities, observations, relations."""

    entities: tuple[NewEntity, ...] = ()
    observations: tuple[NewObservations, ...] = ()
    relations: tuple[Link, ...] = ()
    #: Whether a relation that cannot be made is reported instead of refusing the whole batch.
    is_best_effort: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """One removal: soft, all of it or nothing. What is not there is no error."""

    entities: tuple[str, ...] = ()
    observations: tuple[NewObservations, ...] = ()
    relations: tuple[Link, ...] = ()


# --- what became of it ---------------------------------------------------------------------------


class Fate(StrEnum):
    """What a write did with one thing."""

    CREATED = "created"  #: it was not there
    KNOWN = "known"  #: it was there already, nothing changed
    RESTORED = "restored"  #: it had been deleted, and is there again
    REFUSED = "refused"  #: a relation of a best-effort batch that could not be made
    BUFFERED = "buffered"  #: the store is away; it waits on disk, and is written when that is back


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityFate:
    """What became of one entity of a batch."""

    name: str
    #: The type it has; an entity that was there keeps its own.
    entity_type: str
    fate: Fate


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservationFate:
    """What became of one observation of a batch."""

    entity_name: str
    content: str
    fate: Fate


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationFate:
    """What became of one relation of a batch."""

    link: Link
    fate: Fate
    #: Why it was refused; empty otherwise.
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of a batch, each part in the order in which it was asked for, once each."""

    entities: tuple[EntityFate, ...]
    observations: tuple[ObservationFate, ...]
    relations: tuple[RelationFate, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """How many things a removal or a restoration touched."""

    entities: int
    observations: int
    relations: int


# --- what the graph holds ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One fact about an entity, and where it came from."""

    id: ObservationId
    content: str
    #: Says whether two observations of an entity are the same; without the time of an envelope.
    fingerprint: str
    #: The type of its envelope, such as `error.capture`; None for plain text.
    kind: str | None
    #: When it was observed, if its envelope says so.
    ts: str | None
    source: str
    run: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """A node with its observations, oldest first."""

    id: EntityId
    name: str
    entity_type: str
    observations: tuple[Observation, ...]
    source: str
    run: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """An edge."""

    id: RelationId
    from_name: str
    to_name: str
    relation_type: str
    source: str
    run: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Subgraph:
    """Entities, and the relations that belong to them."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    #: Where the next page begins; None at the end.
    next_cursor: str | None = None
    #: Whether observations or relations were left out, because there are more than an answer holds.
    is_cut: bool = False


class Action(StrEnum):
    """What a change did."""

    CREATED = "created"
    DELETED = "deleted"
    RESTORED = "restored"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One line of the history of an entity."""

    #: Names a deletion, for `restore`; None for what was created.
    id: ChangeId | None
    at: str
    action: Action
    #: `entity`, `observation` or `relation`.
    what: str
    #: The name, the content, or `from RELATION to`.
    text: str
    source: str
    run: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much the graph holds."""

    entities: int
    observations: int
    relations: int
    #: Entities, observations and relations that were deleted and can be restored.
    deleted: int

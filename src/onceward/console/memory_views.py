"""Memory views: entities, their neighbourhood and their history as JSON for the API. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from onceward.memory.entity_pages import (
    CONTENT_CHARACTERS_MAX,
    EntityDetails,
    EntitySummary,
    Neighbourhood,
)
from onceward.memory.fact_text import DETAIL_CHARACTERS_MAX, fact_text
from onceward.memory.models import EntityChange, Observation, Relation
from onceward.memory.provenance import EntityProvenance

#: Longer texts of a change are cut.
TEXT_CHARACTERS_MAX: Final = 500


def plain_card(card: EntitySummary) -> dict[str, Any]:
    """Return an entity as JSON for a list."""
    answer = asdict(card)
    del answer["id"]  # People and agents know entities by name, not by id.
    return answer


def plain_entity(whole: EntityDetails) -> dict[str, Any]:
    """Return one entity with all details as JSON."""
    entity = whole.entity
    return {
        "name": entity.name,
        "entity_type": entity.entity_type,
        "source": entity.source,
        "run": entity.run,
        "created_at": entity.created_at,
        "observations": [plain_observation(each) for each in entity.observations],
        "relations": [plain_relation(each) for each in whole.relations],
        "history": [_change(each) for each in whole.history],
        "is_deleted": whole.is_deleted,
        "is_cut": whole.is_cut,
    }


def plain_observation(one: Observation) -> dict[str, Any]:
    """Return an observation as JSON: its content, and a readable text."""
    return {
        "id": one.id,
        "content": one.content,
        "is_cut": len(one.content) == CONTENT_CHARACTERS_MAX,
        "headline": fact_text(one.content, DETAIL_CHARACTERS_MAX),
        "kind": one.kind,
        "ts": one.ts,
        "source": one.source,
        "run": one.run,
        "created_at": one.created_at,
    }


def plain_relation(one: Relation) -> dict[str, Any]:
    """Return a relation as JSON."""
    return {
        "from": one.from_name,
        "to": one.to_name,
        "relation_type": one.relation_type,
        "source": one.source,
        "run": one.run,
        "created_at": one.created_at,
    }


def plain_neighbourhood(found: Neighbourhood) -> dict[str, Any]:
    """Return the neighbourhood of an entity as JSON."""
    return {
        "nodes": [asdict(each) for each in found.nodes],
        "edges": [
            {"from": each.from_name, "to": each.to_name, "relation_type": each.relation_type}
            for each in found.edges
        ],
        "is_cut": found.is_cut,
    }


def plain_explanation(
    provenance: EntityProvenance, observation: Observation | None
) -> dict[str, Any]:
    """Return an entity's provenance as JSON, with all facts or one of them."""
    found = asdict(provenance)
    for name in ("relations", "chain"):
        for each in found[name]:
            each["from"], each["to"] = each.pop("from_name"), each.pop("to_name")
    if observation is not None:
        fields = plain_observation(observation)
        fields["observed_at"], fields["stored_at"] = fields.pop("ts"), fields.pop("created_at")
        found["facts"] = [fields]
    return found


def _change(change: EntityChange) -> dict[str, Any]:
    text = change.text
    is_long = len(text) > TEXT_CHARACTERS_MAX
    answer = {**asdict(change), "action": str(change.action)}
    answer["text"] = f"{text[: TEXT_CHARACTERS_MAX - 1]}…" if is_long else text
    return answer

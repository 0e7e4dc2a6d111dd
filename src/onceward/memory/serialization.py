"""Serialization: graph contents and write results as JSON objects for clients.

Defines the names and the order of the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from onceward.memory.models import (
    AffectedCounts,
    Entity,
    EntityChange,
    Link,
    NewObservations,
    ObservationResult,
    Relation,
    Subgraph,
    WriteResult,
    WriteStatus,
)

#: A JSON object; its fields are documented at the function that creates it.
JsonObject = dict[str, Any]


def entity(one: Entity) -> JsonObject:
    """Return `{name, entityType, observations[]}`."""
    observations = [each.content for each in one.observations]
    return {"name": one.name, "entityType": one.entity_type, "observations": observations}


def relation(one: Relation | Link) -> JsonObject:
    """Return `{from, to, relationType}`."""
    return {"from": one.from_name, "to": one.to_name, "relationType": one.relation_type}


def subgraph(found: Subgraph) -> JsonObject:
    """Return `{entities[], relations[]}`, with `nextCursor` and `isCut` if applicable."""
    shape: JsonObject = {
        "entities": [entity(each) for each in found.entities],
        "relations": [relation(each) for each in found.relations],
    }
    if found.next_cursor is not None:
        shape["nextCursor"] = found.next_cursor
    if found.is_cut:
        shape["isCut"] = True
    return shape


def new_entities(written: WriteResult) -> JsonObject:
    """Return `entities[]`, the created ones, and `known[]`, the existing ones with their types.

    Both list only the observations that this call added.
    """
    added = _added(written.observations)
    new, known = [], []
    for each in written.entities:
        observations = added.get(each.name, [])
        shape: JsonObject = {"name": each.name, "entityType": each.entity_type}
        if each.status is WriteStatus.KNOWN:
            known.append({**shape, "addedObservations": observations})
        else:
            new.append({**shape, "observations": observations})
    return {"entities": new, "known": known}


def new_relations(written: WriteResult) -> JsonObject:
    """Return `relations[]`, the created ones."""
    return {"relations": [relation(each.link) for each in written.relations if is_new(each.status)]}


def new_observations(written: WriteResult, asked: Iterable[NewObservations]) -> JsonObject:
    """Return `results[]`: for each requested group, the observations that were added.

    An observation requested by several groups is listed in the first. The groups are redacted, as
    stored.
    """
    new = {(each.entity_name, each.content) for each in written.observations if is_new(each.status)}
    results = []
    for group in asked:
        name = group.entity_name
        added = [each for each in dict.fromkeys(group.contents) if (name, each) in new]
        new -= {(name, each) for each in added}
        results.append({"entityName": name, "addedObservations": added})
    return {"results": results}


def removed(touched: AffectedCounts, verb: str) -> JsonObject:
    """Return `{success, message}`, and how many items of each kind changed."""
    counts = {
        "entities": touched.entities,
        "observations": touched.observations,
        "relations": touched.relations,
    }
    parts = [_counted(number, name) for name, number in counts.items() if number]
    message = f"{verb}: {', '.join(parts)}" if parts else f"nothing to be {verb}"
    return {"success": True, "message": message, **counts}


def history(changes: Iterable[EntityChange]) -> JsonObject:
    """Return `changes[]`, newest first; those with an `id` can be restored."""
    return {"changes": [to_json(each) for each in changes]}


def is_new(status: WriteStatus) -> bool:
    """Return whether the write created or restored the item."""
    return status in (WriteStatus.CREATED, WriteStatus.RESTORED)


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return frozen data as JSON, with camel-case names and links as clients expect them."""
    if isinstance(value, Link):
        return relation(value)
    if is_dataclass(value) and not isinstance(value, type):
        found: JsonObject = {}
        for field in fields(value):
            each = getattr(value, field.name)
            # A link's fields are merged into the object that contains it.
            found |= (
                relation(each) if isinstance(each, Link) else {_camel(field.name): to_json(each)}
            )
        return found
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return value


def _added(observations: Iterable[ObservationResult]) -> dict[str, list[str]]:
    added: dict[str, list[str]] = {}
    for each in observations:
        found = added.setdefault(each.entity_name, [])
        if is_new(each.status):
            found.append(each.content)
    return added


def _counted(number: int, name: str) -> str:
    one = "entity" if name == "entities" else name.removesuffix("s")
    return f"{number} {one if number == 1 else name}"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))

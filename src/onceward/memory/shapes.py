"""Shapes: what the graph holds and what became of a write, as the JSON that clients know.

Owns names and order of the fields. Nothing here looks anything up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from onceward.memory.models import (
    Change,
    Entity,
    Fate,
    Link,
    NewObservations,
    ObservationFate,
    Relation,
    Removed,
    Subgraph,
    Written,
)

#: A JSON object; what is in it is written down at the function that makes it.
Shape = dict[str, Any]


def entity(one: Entity) -> Shape:
    """Return `{name, entityType, observations[]}`."""
    observations = [each.content for each in one.observations]
    return {"name": one.name, "entityType": one.entity_type, "observations": observations}


def relation(one: Relation | Link) -> Shape:
    """Return `{from, to, relationType}`."""
    return {"from": one.from_name, "to": one.to_name, "relationType": one.relation_type}


def subgraph(found: Subgraph) -> Shape:
    """Return `{entities[], relations[]}`, with `nextCursor` and `isCut` where there is more."""
    shape: Shape = {
        "entities": [entity(each) for each in found.entities],
        "relations": [relation(each) for each in found.relations],
    }
    if found.next_cursor is not None:
        shape["nextCursor"] = found.next_cursor
    if found.is_cut:
        shape["isCut"] = True
    return shape


def new_entities(written: Written) -> Shape:
    """Return `entities[]`: those that are new; and `known[]`: the others, each with its own type.

    Observations are those that the call added, in either list.
    """
    added = _added(written.observations)
    new, known = [], []
    for each in written.entities:
        observations = added.get(each.name, [])
        shape: Shape = {"name": each.name, "entityType": each.entity_type}
        if each.fate is Fate.KNOWN:
            known.append({**shape, "addedObservations": observations})
        else:
            new.append({**shape, "observations": observations})
    return {"entities": new, "known": known}


def new_relations(written: Written) -> Shape:
    """Return `relations[]`: those that are new."""
    return {"relations": [relation(each.link) for each in written.relations if is_new(each.fate)]}


def new_observations(written: Written, asked: Iterable[NewObservations]) -> Shape:
    """Return `results[]`: for each group that was asked for, what its entity did not have yet.

    What several groups bring stands in the first of them. The groups are clean, as stored.
    """
    new = {(each.entity_name, each.content) for each in written.observations if is_new(each.fate)}
    results = []
    for group in asked:
        name = group.entity_name
        added = [each for each in dict.fromkeys(group.contents) if (name, each) in new]
        new -= {(name, each) for each in added}
        results.append({"entityName": name, "addedObservations": added})
    return {"results": results}


def removed(touched: Removed, verb: str) -> Shape:
    """Return `{success, message}`, and how many of each kind were touched."""
    counts = {
        "entities": touched.entities,
        "observations": touched.observations,
        "relations": touched.relations,
    }
    told = [_counted(number, name) for name, number in counts.items() if number]
    message = f"{verb}: {', '.join(told)}" if told else f"nothing to be {verb}"
    return {"success": True, "message": message, **counts}


def history(changes: Iterable[Change]) -> Shape:
    """Return `changes[]`, newest first; those with an `id` can be restored."""
    return {"changes": [plain(each) for each in changes]}


def is_new(fate: Fate) -> bool:
    """Say whether something is there now that was not there before."""
    return fate in (Fate.CREATED, Fate.RESTORED)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return the JSON of frozen data: fields in camel case, links as clients know them."""
    if isinstance(value, Link):
        return relation(value)
    if is_dataclass(value) and not isinstance(value, type):
        found: Shape = {}
        for field in fields(value):
            each = getattr(value, field.name)
            # What became of a link is told beside its ends.
            found |= relation(each) if isinstance(each, Link) else {_camel(field.name): plain(each)}
        return found
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def _added(observations: Iterable[ObservationFate]) -> dict[str, list[str]]:
    added: dict[str, list[str]] = {}
    for each in observations:
        found = added.setdefault(each.entity_name, [])
        if is_new(each.fate):
            found.append(each.content)
    return added


def _counted(number: int, name: str) -> str:
    one = "entity" if name == "entities" else name.removesuffix("s")
    return f"{number} {one if number == 1 else name}"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))

"""Soft delete: delete and restore; rows are kept, and each change records its author.

Deleted rows carry the number of their change, so restoring a change brings back exactly those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceward.errors import Conflict, EntityMissing
from onceward.errors.arguments import reject_field
from onceward.memory.graph.graph_transaction import GraphTransaction
from onceward.memory.graph.write_validation import ValidatedBatch
from onceward.memory.models import AffectedCounts, ChangeAction, ChangeId
from onceward.system.crash_points import crash_point

#: The largest change number: a 64-bit integer in both engines.
CHANGE_MAX: Final = 2**63 - 1
_SEE_HISTORY: Final = "take the number from `onceward memory history NAME`"


def remove_batch(tx: GraphTransaction, clean: ValidatedBatch) -> AffectedCounts:
    """Remove relations, then observations, then entities; items that do not exist are ignored."""
    ends = [end for link in clean.links for end in (link.from_name, link.to_name)]
    names = [*(e.name for e in clean.entities), *(f.entity_name for f in clean.facts), *ends]
    ids = lock_entities(tx, [*names, *(name for _, name in clean.canonical)])
    ids |= {
        given: ids[name]
        for given, name in clean.canonical
        if _means_canonical(tx, given, name, ids)
    }
    edges = dict.fromkeys(
        (ids[link.from_name], ids[link.to_name], link.relation_type)
        for link in clean.links
        if link.from_name in ids and link.to_name in ids
    )
    facts = dict.fromkeys(
        (ids[each.entity_name], each.fingerprint) for each in clean.facts if each.entity_name in ids
    )
    relations = _remove_relations(
        tx, [{"from_id": start, "to_id": end, "type": kind} for start, end, kind in edges]
    )
    observations = _remove_observations(
        tx, [{"entity_id": owner, "fingerprint": each} for owner, each in facts]
    )
    crash_point("memory.remove.after_parts")
    wanted = dict.fromkeys(ids[each.name] for each in clean.entities if each.name in ids)
    gone = _remove_entities(tx, list(wanted))
    crash_point("memory.remove.before_commit")
    return AffectedCounts(
        entities=gone.entities,
        observations=observations + gone.observations,
        relations=relations + gone.relations,
    )


def lock_entities(tx: GraphTransaction, names: Sequence[str]) -> dict[str, int]:
    """Return the existing entities with these names, and lock them."""
    locked = tx.query("memory_entity_lock", names=list(dict.fromkeys(names)))
    return {name: number for number, name in locked}


def _means_canonical(tx: GraphTransaction, given: str, name: str, ids: Mapping[str, int]) -> bool:
    """Return whether a given name refers to the entity with the canonical name.

    A name that an entity has or had refers to that entity only, so a repeated call does not delete
    another one. Merged names refer to the canonical one.
    """
    if given in ids or name not in ids:
        return False
    own = {row[0] for row in tx.query("memory_entity_id", name=given)}
    merged = {row[0] for row in tx.query("memory_merge_sources", id=ids[name])}
    return own <= merged


def _remove_relations(tx: GraphTransaction, rows: Sequence[Mapping[str, object]]) -> int:
    found = tx.rows("memory_relation_undeleted", rows)
    noted = tx.record_changes(
        ChangeAction.DELETED, ({"entity_id": start, "relation_id": each} for each, start in found)
    )
    deleted = [{"id": relation, "change": change} for change, _, _, relation in noted]
    tx.rows("memory_relation_delete", deleted)
    return len(deleted)


def _remove_observations(tx: GraphTransaction, rows: Sequence[Mapping[str, object]]) -> int:
    found = tx.rows("memory_observation_undeleted", rows)
    noted = tx.record_changes(
        ChangeAction.DELETED,
        ({"entity_id": owner, "observation_id": each} for each, owner in found),
    )
    deleted = [{"id": fact, "change": change} for change, _, fact, _ in noted]
    tx.rows("memory_observation_delete", deleted)
    words = [{"entity_id": owner, "observation_id": fact} for _, owner, fact, _ in noted]
    tx.rows("memory_doc_delete", words)
    return len(noted)


def _remove_entities(tx: GraphTransaction, ids: Sequence[int]) -> AffectedCounts:
    noted = tx.record_changes(ChangeAction.DELETED, ({"entity_id": number} for number in ids))
    rows = [{"id": entity, "change": change} for change, entity, _, _ in noted]
    tx.rows("memory_entity_delete", rows)
    observations = len(tx.rows("memory_observation_delete_of", rows))
    relations = sum(len(tx.query("memory_relation_delete_of", **row)) for row in rows)
    if ids:
        tx.query("memory_doc_delete_of", ids=list(ids))
    return AffectedCounts(len(rows), observations, relations)


# --- restoring -----------------------------------------------------------------------------------


def restore_change(
    tx: GraphTransaction, name: str | None, change: ChangeId | None
) -> AffectedCounts:
    """Undo a change, or the last deletion of an entity."""
    number = _deletion_of(tx, name) if name is not None else change
    while number is not None:
        done = _undo_deletion(tx, number)
        if done is not None:
            return done
        if name is None:
            [(*_, owner, deleted_by)] = tx.query("memory_change_find", change=number)
            raise entity_deleted_error(owner, deleted_by)
        # It was restored and deleted again since the last check.
        number = _deletion_of(tx, name)
    # It exists: another caller, or an earlier attempt of this call, restored it.
    return AffectedCounts(0, 0, 0)


def check_restore(name: str | None, change: int | None) -> None:
    """Raise InvalidArgument unless exactly one of the two is given, and is valid."""
    if (name is None) == (change is None):
        problem = "restore takes either the name of an entity or the number of a change"
        reject_field("name", problem, "pass exactly one of name and change")
    if change is not None and not 0 < change <= CHANGE_MAX:
        reject_field("change", f"{change} is not a change number", _SEE_HISTORY)


def entity_deleted_error(owner: str, deleted_by: int) -> Conflict:
    """Return the error of restoring a part of an entity that is deleted."""
    message = f"the entity {owner!r} is deleted; nothing was restored"
    return Conflict(message, fix=f"restore change {deleted_by} first, the entity's deletion")


def _undo_deletion(tx: GraphTransaction, number: ChangeId) -> AffectedCounts | None:
    """Undo a change; return None if another change has deleted its entity."""
    found = tx.query("memory_change_find", change=number)
    if not found or found[0][0] != ChangeAction.DELETED:
        reject_field("change", f"{number} is not a deletion; nothing was restored", _SEE_HISTORY)
    _, entity_id, observation_id, relation_id, owner, _ = found[0]
    # Lock every affected row, in the lock order of all writers.
    held = tx.query("memory_entity_hold", id=entity_id, change=number)
    [(kind, deleted_by)] = [each[2:] for each in held if each[0] == entity_id]
    is_whole = observation_id is None and relation_id is None
    if deleted_by is not None and not (is_whole and deleted_by == number):
        return None
    entities = tx.query("memory_entity_undelete", id=entity_id, change=number)
    observations = tx.query("memory_observation_undelete", change=number)
    undeleted = tx.query("memory_relation_undelete", change=number)
    relations = [number for number, deleted_by, _ in undeleted if deleted_by is None]
    documents: list[tuple[int, int | None, str, str, str | None]] = [
        (each, None, owner, kind, None) for (each,) in entities
    ]
    documents += [(entity, fact, owner, kind, text) for fact, entity, text in observations]
    tx.index(documents)
    if entities or observations or relations:
        subject = {"entity_id": entity_id, "observation_id": observation_id}
        tx.record_changes(ChangeAction.RESTORED, [{**subject, "relation_id": relation_id}])
    crash_point("memory.restore.before_commit")
    return AffectedCounts(len(entities), len(observations), len(relations))


def _deletion_of(tx: GraphTransaction, name: str) -> ChangeId | None:
    found: list[Any] = tx.query("memory_entity_id", name=name)
    if not found:
        raise EntityMissing([name], field="name", fix="see `onceward memory search`")
    deleted_by = found[0][1]
    return None if deleted_by is None else ChangeId(deleted_by)

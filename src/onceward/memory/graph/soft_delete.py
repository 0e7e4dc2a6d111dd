"""Soft delete: delete and restore; rows are kept, and each change records its author.

Deleted rows carry the number of their change, so restoring a change brings back exactly those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from onceward.errors import Conflict, EntityMissing, InvalidArgument
from onceward.memory.graph.graph_writes import query, savepoint_if_nested
from onceward.memory.graph.index_merge import rebuild_if_stale
from onceward.memory.graph.tokenizer import document
from onceward.memory.graph.write_validation import ValidatedBatch
from onceward.memory.models import AffectedCounts, ChangeId, WriteOrigin
from onceward.stores import Store, Transaction
from onceward.system.crash_points import crash_point

#: The largest change number: a 64-bit integer in both engines.
CHANGE_MAX: Final = 2**63 - 1
_SEE_HISTORY: Final = "take the number from `onceward memory history NAME`"


def remove(store: Store, clean: ValidatedBatch, origin: WriteOrigin) -> AffectedCounts:
    """Run a validated removal; items that do not exist are ignored."""

    def operation(tx: Transaction) -> AffectedCounts:
        with savepoint_if_nested(store, tx):
            removed = BatchRemover(store, tx, origin).run(clean)
            if store.engine == "sqlite":
                rebuild_if_stale(tx.query)
            return removed

    removed = store.write(operation)
    crash_point("memory.remove.after_commit")
    return removed


def restore(
    store: Store, origin: WriteOrigin, *, name: str | None = None, change: ChangeId | None = None
) -> AffectedCounts:
    """Undo a change, or the last deletion of an entity."""
    if (name is None) == (change is None):
        message = "name: restore takes either the name of an entity or the number of a change"
        raise InvalidArgument(message, fix="pass exactly one of name and change", field="name")
    if change is not None and not 0 < change <= CHANGE_MAX:
        message = f"change: {change} is not a change number"
        raise InvalidArgument(message, fix=_SEE_HISTORY, field="change")

    def operation(tx: Transaction) -> AffectedCounts:
        with savepoint_if_nested(store, tx):
            return ChangeRestorer(store, tx, origin).run(name, change)

    restored = store.write(operation)
    crash_point("memory.restore.after_commit")
    return restored


class _TransactionStep:
    """Queries and history, shared by removal and restoration."""

    def __init__(self, store: Store, tx: Transaction, origin: WriteOrigin) -> None:
        self._store = store
        self._tx = tx
        self._origin = {"source": origin.source, "run": origin.run}

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return query(self._tx, name, **params)

    def _record_changes(
        self, action: str, subjects: Iterable[Mapping[str, object]]
    ) -> list[tuple[Any, ...]]:
        blank = {"entity_id": None, "observation_id": None, "relation_id": None}
        rows = [{**blank, **each} for each in subjects]
        if not rows:
            return []
        return self._query("memory_change_add", rows=rows, action=action, **self._origin)


class BatchRemover(_TransactionStep):
    """Removes relations, then observations, then entities, in one transaction."""

    def run(self, clean: ValidatedBatch) -> AffectedCounts:
        """Run a validated removal."""
        ends = [end for link in clean.links for end in (link.from_name, link.to_name)]
        names = [*(e.name for e in clean.entities), *(f.entity_name for f in clean.facts), *ends]
        ids = self._ids([*names, *(name for _, name in clean.canonical)])
        ids |= {
            given: ids[name]
            for given, name in clean.canonical
            if self._means_canonical(given, name, ids)
        }
        edges = dict.fromkeys(
            (ids[link.from_name], ids[link.to_name], link.relation_type)
            for link in clean.links
            if link.from_name in ids and link.to_name in ids
        )
        relations = self._relations(
            [{"from_id": start, "to_id": end, "type": kind} for start, end, kind in edges]
        )
        facts = dict.fromkeys(
            (ids[fact.entity_name], fact.fingerprint)
            for fact in clean.facts
            if fact.entity_name in ids
        )
        observations = self._observations(
            [{"entity_id": owner, "fingerprint": each} for owner, each in facts]
        )
        crash_point("memory.remove.after_parts")
        wanted = dict.fromkeys(ids[each.name] for each in clean.entities if each.name in ids)
        gone = self._entities(list(wanted))
        crash_point("memory.remove.before_commit")
        return AffectedCounts(
            entities=gone.entities,
            observations=observations + gone.observations,
            relations=relations + gone.relations,
        )

    def _means_canonical(self, given: str, name: str, ids: Mapping[str, int]) -> bool:
        """Return whether a given name refers to the entity with the canonical name.

        A name that an entity has or had refers to that entity only, so a repeated call does not
        delete another one. Merged names refer to the canonical one.
        """
        if given in ids or name not in ids:
            return False
        own = {row[0] for row in self._query("memory_entity_id", name=given)}
        merged = {row[0] for row in self._query("memory_merge_sources", id=ids[name])}
        return own <= merged

    def _ids(self, names: Iterable[str]) -> dict[str, int]:
        """Return the existing entities with these names, and lock them."""
        locked = self._query("memory_entity_lock", names=list(dict.fromkeys(names)))
        return {name: number for number, name in locked}

    def _relations(self, rows: Sequence[Mapping[str, object]]) -> int:
        found = self._query("memory_relation_undeleted", rows=rows) if rows else []
        noted = self._record_changes(
            "deleted", [{"entity_id": start, "relation_id": number} for number, start in found]
        )
        deleted = [{"id": relation, "change": change} for change, _, _, relation in noted]
        if deleted:
            self._query("memory_relation_delete", rows=deleted)
        return len(deleted)

    def _observations(self, rows: Sequence[Mapping[str, object]]) -> int:
        found = self._query("memory_observation_undeleted", rows=rows) if rows else []
        noted = self._record_changes(
            "deleted", [{"entity_id": owner, "observation_id": number} for number, owner in found]
        )
        if noted:
            deleted = [{"id": each[2], "change": each[0]} for each in noted]
            self._query("memory_observation_delete", rows=deleted)
            words = [{"entity_id": each[1], "observation_id": each[2]} for each in noted]
            self._query("memory_doc_delete", rows=words)
        return len(noted)

    def _entities(self, ids: Sequence[int]) -> AffectedCounts:
        noted = self._record_changes("deleted", [{"entity_id": number} for number in ids])
        if not noted:
            return AffectedCounts(entities=0, observations=0, relations=0)
        rows = [{"id": entity, "change": change} for change, entity, _, _ in noted]
        self._query("memory_entity_delete", rows=rows)
        observations = len(self._query("memory_observation_delete_of", rows=rows))
        relations = sum(len(self._query("memory_relation_delete_of", **row)) for row in rows)
        self._query("memory_doc_delete_of", ids=list(ids))
        return AffectedCounts(entities=len(rows), observations=observations, relations=relations)


class ChangeRestorer(_TransactionStep):
    """Undoes one change in one transaction."""

    def run(self, name: str | None, change: ChangeId | None) -> AffectedCounts:
        """Undo a change, or the last deletion of an entity."""
        number = self._deletion_of(name) if name is not None else change
        while number is not None:
            done = self._restored(number)
            if done is not None:
                return done
            if name is None:
                raise self._entity_deleted_error(number)
            # It was restored and deleted again since the last check.
            number = self._deletion_of(name)
        # It exists: another caller, or an earlier attempt of this call, restored it.
        return AffectedCounts(entities=0, observations=0, relations=0)

    def _entity_deleted_error(self, number: ChangeId) -> Conflict:
        [(*_, owner, deleted_by)] = self._query("memory_change_find", change=number)
        message = f"the entity {owner!r} is deleted; nothing was restored"
        return Conflict(message, fix=f"restore change {deleted_by} first, the entity's deletion")

    def _restored(self, number: ChangeId) -> AffectedCounts | None:
        """Undo a change; return None if another change has deleted its entity."""
        found = self._query("memory_change_find", change=number)
        if not found or found[0][0] != "deleted":
            message = f"change: {number} is not a deletion; nothing was restored"
            raise InvalidArgument(message, fix=_SEE_HISTORY, field="change")
        _, entity_id, observation_id, relation_id, owner, _ = found[0]
        # Lock every affected row, in the lock order of all writers.
        held = self._query("memory_entity_hold", id=entity_id, change=number)
        [(kind, deleted_by)] = [each[2:] for each in held if each[0] == entity_id]
        is_whole = observation_id is None and relation_id is None
        if deleted_by is not None and not (is_whole and deleted_by == number):
            return None
        entities = self._query("memory_entity_undelete", id=entity_id, change=number)
        observations = self._query("memory_observation_undelete", change=number)
        relations = [
            row for row in self._query("memory_relation_undelete", change=number) if row[1] is None
        ]
        self._index(owner, kind, entities, observations)
        if entities or observations or relations:
            subject = {
                "entity_id": entity_id,
                "observation_id": observation_id,
                "relation_id": relation_id,
            }
            self._record_changes("restored", [subject])
        crash_point("memory.restore.before_commit")
        return AffectedCounts(
            entities=len(entities), observations=len(observations), relations=len(relations)
        )

    def _deletion_of(self, name: str) -> ChangeId | None:
        found = self._query("memory_entity_id", name=name)
        if not found:
            raise EntityMissing([name], field="name", fix="see `onceward memory search`")
        deleted_by = found[0][1]
        return None if deleted_by is None else ChangeId(deleted_by)

    def _index(
        self,
        name: str,
        kind: str,
        entities: Sequence[tuple[Any, ...]],
        observations: Sequence[tuple[Any, ...]],
    ) -> None:
        engine = self._store.engine
        rows: list[dict[str, object]] = [
            {
                "entity_id": number,
                "observation_id": None,
                "words": document(engine, name, kind, None),
            }
            for (number,) in entities
        ]
        rows += [
            {
                "entity_id": owner,
                "observation_id": number,
                "words": document(engine, name, kind, content),
            }
            for number, owner, content in observations
        ]
        if rows:
            self._query("memory_doc_add", rows=rows)

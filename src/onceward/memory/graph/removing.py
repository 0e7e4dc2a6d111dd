"""Removing: soft deletes, and the way back. Nothing leaves the store; a change says who took it.

What a deletion takes along carries its number, so that restoring that change brings back just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from onceward.crash import crash_point
from onceward.errors import Conflict, EntityMissing, InvalidArgument
from onceward.memory.graph.checking import Clean
from onceward.memory.graph.merging import rebuild_if_stale
from onceward.memory.graph.words import document
from onceward.memory.graph.writing import query, whole
from onceward.memory.models import ChangeId, Origin, Removed
from onceward.stores import Store, Transaction

#: Numbers of changes are integers that both engines keep.
CHANGE_MAX: Final = 2**63 - 1
_SEE_HISTORY: Final = "take the number from `onceward memory history NAME`"


def remove(store: Store, clean: Clean, origin: Origin) -> Removed:
    """Carry a checked removal out; what is not there is no error."""

    def operation(tx: Transaction) -> Removed:
        with whole(store, tx):
            removed = Removing(store, tx, origin).run(clean)
            if store.engine == "sqlite":
                rebuild_if_stale(tx.query)
            return removed

    removed = store.write(operation)
    crash_point("memory.remove.after_commit")
    return removed


def restore(
    store: Store, origin: Origin, *, name: str | None = None, change: ChangeId | None = None
) -> Removed:
    """Bring back what a change deleted, or an entity as it was when it was deleted last."""
    if (name is None) == (change is None):
        message = "restore takes the name of an entity or the number of a change"
        raise InvalidArgument(message, fix="give one of them")
    if change is not None and not 0 < change <= CHANGE_MAX:
        message = f"change: {change} is no number of a change"
        raise InvalidArgument(message, fix=_SEE_HISTORY, field="change")

    def operation(tx: Transaction) -> Removed:
        with whole(store, tx):
            return Restoring(store, tx, origin).run(name, change)

    restored = store.write(operation)
    crash_point("memory.restore.after_commit")
    return restored


class _InTransaction:
    """What removing and restoring share."""

    def __init__(self, store: Store, tx: Transaction, origin: Origin) -> None:
        self._store = store
        self._tx = tx
        self._origin = {"source": origin.source, "run": origin.run}

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return query(self._tx, name, **params)

    def _note(self, action: str, subjects: Iterable[Mapping[str, object]]) -> list[tuple[Any, ...]]:
        blank = {"entity_id": None, "observation_id": None, "relation_id": None}
        rows = [{**blank, **each} for each in subjects]
        if not rows:
            return []
        return self._query("memory_change_add", rows=rows, action=action, **self._origin)


class Removing(_InTransaction):
    """One removal inside one transaction: relations first, then observations, then entities."""

    def run(self, clean: Clean) -> Removed:
        """Carry a checked removal out."""
        ends = [end for link in clean.links for end in (link.from_name, link.to_name)]
        names = [*(e.name for e in clean.entities), *(f.entity_name for f in clean.facts), *ends]
        ids = self._ids([*names, *(name for _, name in clean.canonical)])
        ids |= {
            given: ids[name] for given, name in clean.canonical if self._is_meant(given, name, ids)
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
        return Removed(
            entities=gone.entities,
            observations=observations + gone.observations,
            relations=relations + gone.relations,
        )

    def _is_meant(self, given: str, name: str, ids: Mapping[str, int]) -> bool:
        """Say whether who gives a name means the living entity of its canonical one.

        A name that an entity has or had means that entity alone, so that a repeat does not delete
        the next one; unless it was merged into the canonical one.
        """
        if given in ids or name not in ids:
            return False
        own = {row[0] for row in self._query("memory_entity_id", name=given)}
        merged = {row[0] for row in self._query("memory_merge_sources", id=ids[name])}
        return own <= merged

    def _ids(self, names: Iterable[str]) -> dict[str, int]:
        """Return the living entities of these names, and let nobody add to them."""
        locked = self._query("memory_entity_lock", names=list(dict.fromkeys(names)))
        return {name: number for number, name in locked}

    def _relations(self, rows: Sequence[Mapping[str, object]]) -> int:
        found = self._query("memory_relation_living", rows=rows) if rows else []
        noted = self._note(
            "deleted", [{"entity_id": start, "relation_id": number} for number, start in found]
        )
        deleted = [{"id": relation, "change": change} for change, _, _, relation in noted]
        if deleted:
            self._query("memory_relation_delete", rows=deleted)
        return len(deleted)

    def _observations(self, rows: Sequence[Mapping[str, object]]) -> int:
        found = self._query("memory_observation_living", rows=rows) if rows else []
        noted = self._note(
            "deleted", [{"entity_id": owner, "observation_id": number} for number, owner in found]
        )
        if noted:
            deleted = [{"id": each[2], "change": each[0]} for each in noted]
            self._query("memory_observation_delete", rows=deleted)
            words = [{"entity_id": each[1], "observation_id": each[2]} for each in noted]
            self._query("memory_doc_delete", rows=words)
        return len(noted)

    def _entities(self, ids: Sequence[int]) -> Removed:
        noted = self._note("deleted", [{"entity_id": number} for number in ids])
        if not noted:
            return Removed(entities=0, observations=0, relations=0)
        rows = [{"id": entity, "change": change} for change, entity, _, _ in noted]
        self._query("memory_entity_delete", rows=rows)
        observations = len(self._query("memory_observation_delete_of", rows=rows))
        relations = sum(len(self._query("memory_relation_delete_of", **row)) for row in rows)
        self._query("memory_doc_delete_of", ids=list(ids))
        return Removed(entities=len(rows), observations=observations, relations=relations)


class Restoring(_InTransaction):
    """One change undone inside one transaction."""

    def run(self, name: str | None, change: ChangeId | None) -> Removed:
        """Bring back what a change deleted, or the last deletion of an entity."""
        number = self._deletion_of(name) if name is not None else change
        while number is not None:
            done = self._restored(number)
            if done is not None:
                return done
            if name is None:
                raise self._deleted_itself(number)
            # It was restored and deleted anew since we looked.
            number = self._deletion_of(name)
        # It is there: somebody restored it, perhaps an earlier try of ours.
        return Removed(entities=0, observations=0, relations=0)

    def _deleted_itself(self, number: ChangeId) -> Conflict:
        [(*_, owner, deleted_by)] = self._query("memory_change_find", change=number)
        message = f"the entity {owner!r} is deleted itself"
        return Conflict(message, fix=f"restore it first: change {deleted_by}")

    def _restored(self, number: ChangeId) -> Removed | None:
        """Undo a change; None when something else has deleted the entity it is about."""
        found = self._query("memory_change_find", change=number)
        if not found or found[0][0] != "deleted":
            message = f"change {number} is no deletion"
            raise InvalidArgument(message, fix=_SEE_HISTORY, field="change")
        _, entity_id, observation_id, relation_id, owner, _ = found[0]
        # All that it touches, in the order in which everybody takes them.
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
            self._note("restored", [subject])
        crash_point("memory.restore.before_commit")
        return Removed(
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

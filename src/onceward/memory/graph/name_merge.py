"""Name merge: merge entities stored under variants of one name, and undo it.

A merge copies facts and relations to the entity with the canonical name, keeps their origin, and
soft-deletes the others. A row records what was added, for the undo. Each name is one transaction;
after a crash the next merge continues. Idempotent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from onceward.errors import Conflict, InvalidArgument
from onceward.memory.envelope import parse
from onceward.memory.graph.graph_transaction import GraphTransaction, change_graph
from onceward.memory.graph.graph_writes import write_batch
from onceward.memory.graph.soft_delete import (
    CHANGE_MAX,
    lock_entities,
    remove_batch,
    restore_change,
)
from onceward.memory.graph.write_validation import ValidatedBatch, ValidatedObservation
from onceward.memory.models import (
    NAME_BYTES_MAX,
    ChangeId,
    Link,
    NewEntity,
    WriteOrigin,
    WriteStatus,
)
from onceward.stores import Store

#: The source of the deletions, in the history.
SOURCE: Final = "merge"
#: Limit for the list of merges that can be undone.
LISTED_MAX: Final = 20
_PAGE: Final = 5_000
_ALL: Final = 2**62
_NEW: Final = (WriteStatus.CREATED, WriteStatus.RESTORED)


@dataclass(frozen=True, kw_only=True, slots=True)
class NameVariants:
    """Stored names with the same canonical name."""

    #: The canonical name.
    name: str
    #: The type of the merged entity.
    entity_type: str
    #: Whether an entity with the canonical name exists.
    exists: bool
    #: The non-canonical names, oldest first.
    others: tuple[str, ...]
    #: Their types, where different.
    types_lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeRecord:
    """A merge that can be undone."""

    #: Pass it to `undo`.
    id: int
    at: str
    #: How many names were merged.
    names: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeResult:
    """The effect of a merge or of its undo."""

    #: Pass it to `undo`; None if there was nothing to merge.
    id: int | None
    #: Names that were merged, or restored.
    names: tuple[str, ...]
    #: Canonical names created by the merge that stay, because they have newer facts or relations.
    kept: tuple[str, ...] = ()


def find_variants(store: Store, spell: Callable[[str], str]) -> tuple[NameVariants, ...]:
    """Return the names that have the same canonical name; a read-only full scan."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, kind in _names(store):
        canonical = spell(name)
        if canonical != name and len(canonical.encode()) <= NAME_BYTES_MAX:
            groups.setdefault(canonical, []).append((name, kind))
    return tuple(_variants(store, name, others) for name, others in groups.items())


def merges(store: Store, limit: int = LISTED_MAX) -> tuple[MergeRecord, ...]:
    """Return the latest merges that can be undone, newest first."""
    rows = store.read("memory_merge_list", limit=limit)
    return tuple(MergeRecord(id=number, at=at, names=count) for number, at, count in rows)


def merge(store: Store, spell: Callable[[str], str], origin: WriteOrigin) -> MergeResult:
    """Merge all variants of each name into its canonical one."""
    number: int | None = None
    names: list[str] = []
    for group in find_variants(store, spell):
        number, merged = change_graph(store, origin, partial(_merge_group, group, number))
        names += merged
    return MergeResult(id=number, names=tuple(names))


def undo(store: Store, number: int, origin: WriteOrigin) -> MergeResult:
    """Undo one merge completely; facts added to an entity since then stay with it.

    Raises Conflict naming the newer merge, if one depends on this merge.
    """
    if not 0 < number <= CHANGE_MAX:
        raise _no_such_merge(number)
    return change_graph(store, origin, partial(_undo_merge, number))


def _names(store: Store) -> Iterator[tuple[str, str]]:
    after = 0
    while rows := store.read("memory_entity_page", after=after, limit=_PAGE):
        yield from ((row[1], row[2]) for row in rows)
        after = rows[-1][0]


def _variants(store: Store, name: str, others: list[tuple[str, str]]) -> NameVariants:
    names = json.dumps([name], ensure_ascii=False)
    there = store.read("memory_entity_open", names=names, count=1)
    kind = there[0][2] if there else others[0][1]
    lost = dict.fromkeys(each for _, each in others if each != kind)
    return NameVariants(
        name=name,
        entity_type=kind,
        exists=bool(there),
        others=tuple(each for each, _ in others),
        types_lost=tuple(lost),
    )


# --- in one transaction --------------------------------------------------------------------------


def _merge_group(
    group: NameVariants, number: int | None, tx: GraphTransaction
) -> tuple[int | None, list[str]]:
    """Merge the existing variants; return the number of the merge, and the names."""
    ids = lock_entities(tx, [group.name, *group.others])
    merged = [name for name in group.others if name in ids]
    for name in merged:
        added = _copy(tx, group, name, ids[name], frozenset(merged))
        [(target, _)] = tx.query("memory_entity_id", name=group.name)
        _remove_entity(tx, name)
        [(_, change)] = tx.query("memory_entity_id", name=name)
        [(row,)] = tx.query(
            "memory_merge_add",
            merge=number,
            source=ids[name],
            target=target,
            change=change,
            added=json.dumps(added, ensure_ascii=False),
        )
        number = number or row
    tx.rebuild_index_if_stale()
    return number, merged


def _copy(
    tx: GraphTransaction,
    group: NameVariants,
    name: str,
    entity_id: int,
    spellings: frozenset[str],
) -> dict[str, Any]:
    """Copy the data of a variant to the canonical entity; return what was added."""
    parts: dict[tuple[str, str | None], tuple[list[ValidatedObservation], list[Link]]] = {}
    found = tx.query("memory_observation_of", ids=[entity_id], limit=_ALL)
    for _, _, content, fingerprint, _, _, source, run, _ in reversed(found):
        fact = ValidatedObservation(
            entity_name=group.name,
            content=content,
            fingerprint=fingerprint,
            envelope=parse(content),
        )
        parts.setdefault((source, run), ([], []))[0].append(fact)
    edges = tx.query("memory_relation_of", ids=[entity_id], limit=_ALL)
    for _, start, end, kind, source, run, _ in reversed(edges):
        link = Link(
            from_name=group.name if start == name else start,
            to_name=group.name if end == name else end,
            relation_type=kind,
        )
        # A relation between two variants would become a self-reference.
        if start == end or not {start, end} <= {*spellings, group.name}:
            parts.setdefault((source, run), ([], []))[1].append(link)
    added: dict[str, Any] = {"entity": False, "observations": [], "relations": []}
    # First the entity alone, so that it exists even without facts.
    target = NewEntity(name=group.name, entity_type=group.entity_type)
    batches = [(tx, ValidatedBatch(entities=(target,)))]
    batches += [
        (
            tx.with_origin(WriteOrigin(source=source, run=run)),
            ValidatedBatch(
                facts=tuple(facts), links=tuple(dict.fromkeys(links)), observed=(group.name,)
            ),
        )
        for (source, run), (facts, links) in parts.items()
    ]
    for within, clean in batches:
        written = write_batch(within, clean, is_best_effort=True)
        added["entity"] |= any(each.status in _NEW for each in written.entities)
        pairs = zip(clean.facts, written.observations, strict=True)
        added["observations"] += [f.fingerprint for f, each in pairs if each.status in _NEW]
        made = (each.link for each in written.relations if each.status in _NEW)
        added["relations"] += [[e.from_name, e.relation_type, e.to_name] for e in made]
    return added


def _undo_merge(number: int, tx: GraphTransaction) -> MergeResult:
    rows = tx.query("memory_merge_find", merge=number)
    if not rows:
        raise _no_such_merge(number)
    if any(undone_at is None for *_, undone_at in rows):
        _check_no_newer_merge(tx, number, sorted(set(_touched(rows))))
    names: list[str] = []
    kept: list[str] = []
    for row, target_id, target, name, change, added, undone_at in rows:
        if undone_at is not None:
            continue
        has_made = _remove_added(tx, target, json.loads(added))
        restore_change(tx, None, ChangeId(change))
        if has_made:
            [(parts,)] = tx.query("memory_merge_parts", id=target_id)
            if parts:
                kept.append(target)
            else:
                _remove_entity(tx, target)
        tx.query("memory_merge_undo", id=row)
        names.append(name)
    return MergeResult(id=number, names=tuple(names), kept=tuple(kept))


def _check_no_newer_merge(tx: GraphTransaction, number: int, touched: list[str]) -> None:
    """Raise Conflict if a newer merge has copied or deleted what this undo would remove."""
    # Waits for a merge in progress. One statement locks all entities, as every writer does.
    lock_entities(tx, touched)
    [(newer,)] = tx.query("memory_merge_newer", merge=number)
    if newer is not None:
        message = (
            f"merge {newer} is newer than merge {number} and changed the same entities; "
            "nothing was undone"
        )
        fix = f"undo merge {newer} first: run `onceward memory merge --undo {newer} --yes`"
        raise Conflict(message, fix=fix, merge=newer)


def _remove_added(tx: GraphTransaction, target: str, added: dict[str, Any]) -> bool:
    """Remove what a merge added to an entity; return whether the merge created the entity."""
    facts = tuple(
        ValidatedObservation(entity_name=target, content="", fingerprint=each, envelope=None)
        for each in added["observations"]
    )
    links = tuple(
        Link(from_name=start, to_name=end, relation_type=kind)
        for start, kind, end in added["relations"]
    )
    remove_batch(tx, ValidatedBatch(facts=facts, links=links))
    return bool(added["entity"])


def _remove_entity(tx: GraphTransaction, name: str) -> None:
    remove_batch(tx, ValidatedBatch(entities=(NewEntity(name=name, entity_type=""),)))


def _touched(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the entities that the rows of a merge changed: targets, and ends of relations."""
    for _, _, target, _, _, added, _ in rows:
        yield target
        for start, _, end in json.loads(added)["relations"]:
            yield from (start, end)


def _no_such_merge(number: int) -> InvalidArgument:
    message = f"undo: merge {number} does not exist; nothing was changed"
    fix = "list the merges that can be undone: run `onceward memory merge`"
    return InvalidArgument(message, fix=fix, field="undo")

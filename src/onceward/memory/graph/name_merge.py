"""Name merge: entities stored under several spellings of one name become one, and back again.

A merge copies facts and relations to the entity of the canonical name, with their origin, and then
deletes the others softly; a row says what was added, so that it can be undone. Each name is one
transaction: after a crash the next merge does the rest, and done twice it does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceward.errors import Conflict, InvalidArgument
from onceward.memory.envelope import parse
from onceward.memory.graph.checking import Clean, Fact
from onceward.memory.graph.merging import rebuild_if_stale
from onceward.memory.graph.removing import CHANGE_MAX, Removing, Restoring
from onceward.memory.graph.writing import Writing, query, whole
from onceward.memory.models import (
    NAME_BYTES_MAX,
    ChangeId,
    Fate,
    Link,
    NewEntity,
    Origin,
)
from onceward.stores import Store, Transaction

#: Who deleted the old spelling, in the history.
SOURCE: Final = "merge"
#: How many merges are listed that can be undone.
LISTED_MAX: Final = 20
_PAGE: Final = 5_000
_ALL: Final = 2**62
_NEW: Final = (Fate.CREATED, Fate.RESTORED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spellings:
    """Names that are one name."""

    #: The canonical name.
    name: str
    #: The type that the one entity has or gets.
    entity_type: str
    #: Whether there is an entity of the canonical name already.
    is_there: bool
    #: The other names, oldest first.
    others: tuple[str, ...]
    #: Their types, where these differ from the one that stays.
    types_lost: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Merge:
    """A merge that can be undone."""

    #: Pass it to undo the merge.
    id: int
    at: str
    #: How many names were merged into others.
    names: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """What a merge, or undoing one, did."""

    #: Pass it to undo the merge; None if there was nothing to merge.
    id: int | None
    #: Names that were merged into others, or are there again.
    names: tuple[str, ...]
    #: Canonical names that stay though a merge made them: they have facts or relations of later.
    kept: tuple[str, ...] = ()


def find(store: Store, spell: Callable[[str], str]) -> tuple[Spellings, ...]:
    """Return the names that are spellings of one name; reads every name, changes nothing."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, kind in _names(store):
        canonical = spell(name)
        if canonical != name and len(canonical.encode()) <= NAME_BYTES_MAX:
            groups.setdefault(canonical, []).append((name, kind))
    return tuple(_spellings(store, name, others) for name, others in groups.items())


def merges(store: Store) -> tuple[Merge, ...]:
    """Return the last merges that can be undone, the newest first."""
    rows = store.read("memory_merge_list", limit=LISTED_MAX)
    return tuple(Merge(id=number, at=at, names=count) for number, at, count in rows)


def merge(store: Store, spell: Callable[[str], str], origin: Origin) -> Merged:
    """Merge all spellings of each name into its canonical one."""
    number: int | None = None
    names: list[str] = []
    for group in find(store, spell):
        number, merged = _merge_one(store, group, number, origin)
        names += merged
    return Merged(id=number, names=tuple(names))


def _merge_one(
    store: Store, group: Spellings, number: int | None, origin: Origin
) -> tuple[int | None, list[str]]:
    def operation(tx: Transaction) -> tuple[int | None, list[str]]:
        with whole(store, tx):
            done = _Merging(store, tx, origin).run(group, number)
            if store.engine == "sqlite":
                rebuild_if_stale(tx.query)
            return done

    return store.write(operation)


def undo(store: Store, number: int, origin: Origin) -> Merged:
    """Undo one merge as a whole; what was added to an entity since then stays with it.

    Raises Conflict, naming the newer merge, while a newer one stands on what this one made.
    """
    if not 0 < number <= CHANGE_MAX:
        raise _unknown(number)

    def operation(tx: Transaction) -> Merged:
        with whole(store, tx):
            return _Undoing(store, tx, origin).run(number)

    return store.write(operation)


def _names(store: Store) -> Iterator[tuple[str, str]]:
    after = 0
    while rows := store.read("memory_entity_page", after=after, limit=_PAGE):
        yield from ((row[1], row[2]) for row in rows)
        after = rows[-1][0]


def _spellings(store: Store, name: str, others: list[tuple[str, str]]) -> Spellings:
    names = json.dumps([name], ensure_ascii=False)
    there = store.read("memory_entity_open", names=names, count=1)
    kind = there[0][2] if there else others[0][1]
    lost = dict.fromkeys(each for _, each in others if each != kind)
    return Spellings(
        name=name,
        entity_type=kind,
        is_there=bool(there),
        others=tuple(each for each, _ in others),
        types_lost=tuple(lost),
    )


class _Merging:
    """One name inside one transaction."""

    def __init__(self, store: Store, tx: Transaction, origin: Origin) -> None:
        self._store, self._tx, self._origin = store, tx, origin

    def run(self, group: Spellings, number: int | None) -> tuple[int | None, list[str]]:
        """Merge what is there now; returns the number of the merge, and the names."""
        locked = query(self._tx, "memory_entity_lock", names=[group.name, *group.others])
        ids = {name: entity_id for entity_id, name in locked}
        merged = [name for name in group.others if name in ids]
        for name in merged:
            added = self._copy(group, name, ids[name], frozenset(merged))
            [(target, _)] = query(self._tx, "memory_entity_id", name=group.name)
            gone = Clean(entities=(_named(name),), facts=(), links=())
            Removing(self._store, self._tx, self._origin).run(gone)
            [(_, change)] = query(self._tx, "memory_entity_id", name=name)
            [(row,)] = query(
                self._tx,
                "memory_merge_add",
                merge=number,
                source=ids[name],
                target=target,
                change=change,
                added=json.dumps(added, ensure_ascii=False),
            )
            number = number or row
        return number, merged

    def _copy(
        self, group: Spellings, name: str, entity_id: int, spellings: frozenset[str]
    ) -> dict[str, Any]:
        """Give the canonical entity what another spelling of it has; returns what was added."""
        target = NewEntity(name=group.name, entity_type=group.entity_type)
        parts: dict[tuple[str, str | None], tuple[list[Fact], list[Link]]] = {}
        found = query(self._tx, "memory_observation_of", ids=[entity_id], limit=_ALL)
        for _, _, content, fingerprint, _, _, source, run, _ in reversed(found):
            fact = Fact(
                entity_name=group.name,
                content=content,
                fingerprint=fingerprint,
                envelope=parse(content),
            )
            parts.setdefault((source, run), ([], []))[0].append(fact)
        edges = query(self._tx, "memory_relation_of", ids=[entity_id], limit=_ALL)
        for _, start, end, kind, source, run, _ in reversed(edges):
            link = Link(
                from_name=group.name if start == name else start,
                to_name=group.name if end == name else end,
                relation_type=kind,
            )
            # Between two spellings of one name there is nothing to relate.
            if start == end or not {start, end} <= {*spellings, group.name}:
                parts.setdefault((source, run), ([], []))[1].append(link)
        added: dict[str, Any] = {"entity": False, "observations": [], "relations": []}
        # First the entity alone, so that it is there whatever follows.
        batches = [(self._origin, Clean(entities=(target,), facts=(), links=()))]
        batches += [
            (
                Origin(source=source, run=run),
                Clean(
                    entities=(),
                    facts=tuple(facts),
                    links=tuple(dict.fromkeys(links)),
                    observed=(group.name,),
                ),
            )
            for (source, run), (facts, links) in parts.items()
        ]
        for origin, clean in batches:
            written = Writing(self._store, self._tx, origin).run(clean, is_best_effort=True)
            added["entity"] |= any(each.fate in _NEW for each in written.entities)
            pairs = zip(clean.facts, written.observations, strict=True)
            added["observations"] += [f.fingerprint for f, each in pairs if each.fate in _NEW]
            made = (each.link for each in written.relations if each.fate in _NEW)
            added["relations"] += [[e.from_name, e.relation_type, e.to_name] for e in made]
        return added


class _Undoing:
    """One merge undone inside one transaction."""

    def __init__(self, store: Store, tx: Transaction, origin: Origin) -> None:
        self._store, self._tx, self._origin = store, tx, origin

    def run(self, number: int) -> Merged:
        rows = query(self._tx, "memory_merge_find", merge=number)
        if not rows:
            raise _unknown(number)
        if any(undone_at is None for *_, undone_at in rows):
            self._check_last(number, sorted(set(_touched(rows))))
        names: list[str] = []
        kept: list[str] = []
        for row, target_id, target, name, change, added, undone_at in rows:
            if undone_at is not None:
                continue
            has_made = self._take_back(target, json.loads(added))
            Restoring(self._store, self._tx, self._origin).run(None, ChangeId(change))
            if has_made:
                [(parts,)] = query(self._tx, "memory_merge_parts", id=target_id)
                if parts:
                    kept.append(target)
                else:
                    self._remove(Clean(entities=(_named(target),), facts=(), links=()))
            query(self._tx, "memory_merge_undo", id=row)
            names.append(name)
        return Merged(id=number, names=tuple(names), kept=tuple(kept))

    def _check_last(self, number: int, touched: list[str]) -> None:
        """Raise Conflict if a newer merge has copied or deleted what this one would take back."""
        # A merge that is under way ends first, and is seen then. All at once, as every writer does.
        query(self._tx, "memory_entity_lock", names=touched)
        [(newer,)] = query(self._tx, "memory_merge_newer", merge=number)
        if newer is not None:
            message = f"merge {newer} is newer than merge {number} and touches the same entities"
            fix = f"undo it first: onceward memory merge --undo {newer}"
            raise Conflict(message, fix=fix, merge=newer)

    def _take_back(self, target: str, added: dict[str, Any]) -> bool:
        """Remove what a merge added to an entity; returns whether it made the entity."""
        facts = tuple(
            Fact(entity_name=target, content="", fingerprint=each, envelope=None)
            for each in added["observations"]
        )
        links = tuple(
            Link(from_name=start, to_name=end, relation_type=kind)
            for start, kind, end in added["relations"]
        )
        self._remove(Clean(entities=(), facts=facts, links=links))
        return bool(added["entity"])

    def _remove(self, clean: Clean) -> None:
        Removing(self._store, self._tx, self._origin).run(clean)


def _touched(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the entities that the rows of a merge changed: targets, and ends of relations."""
    for _, _, target, _, _, added, _ in rows:
        yield target
        for start, _, end in json.loads(added)["relations"]:
            yield from (start, end)


def _named(name: str) -> NewEntity:
    return NewEntity(name=name, entity_type="")


def _unknown(number: int) -> InvalidArgument:
    message = f"undo: there is no merge {number}"
    return InvalidArgument(
        message, fix="see `onceward memory merge` for those there are", field="undo"
    )

"""The graph against a model: any order of writes, removals, restorations and reads."""

import json
from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from onceward.client import Onceward
from onceward.errors import Conflict, EntityMissing
from onceward.memory.graph import Graph
from onceward.memory.models import (
    AffectedCounts,
    ChangeAction,
    ChangeId,
    GraphCounts,
    Link,
    NewEntity,
    NewObservations,
    Removal,
    Validation,
    WriteBatch,
    WriteStatus,
)
from tests.support.graph_model import GraphModel, everything, identity, seen
from tests.support.proof_length import run_machine

TABLES = ("docs", "changes", "relations", "observations", "entities")


def note(ts: str, title: str) -> str:
    found = {"type": "doc.note", "ts": ts, "mode": "m", "repo": "r", "branch": "b"}
    data = {"url": "https://example.org", "title": title, "accessed_at": "2026-01-01"}
    return json.dumps({**found, "data": data})


NAMES = ["ant", "bee", "err#cat", "Dog one"]
CONTENTS = [
    "red fox",
    "red hen",
    "blue fox ants",
    note("2026-01-01T00:00:00Z", "red"),
    note("2026-01-02T00:00:00Z", "red"),
    note("2026-01-02T00:00:00Z", "green"),
]
WORDS = ["red", "fo", "fox", "ant", "bee", "doc", "green", "cat", "insect", "zebra", "2026"]
names = st.sampled_from(NAMES)
contents = st.lists(st.sampled_from(CONTENTS), max_size=3).map(tuple)
entities = st.builds(
    NewEntity,
    name=names,
    entity_type=st.sampled_from(["Insect", "Beast"]),
    observations=contents,
)
observations = st.builds(NewObservations, entity_name=names, contents=contents)
links = st.builds(
    Link, from_name=names, to_name=names, relation_type=st.sampled_from(["EATS", "fears"])
)


def few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(items, max_size=3).map(tuple)


class GraphMachine(RuleBasedStateMachine):
    """One graph, and what it should hold."""

    #: What happened in all examples; a machine that did hardly anything proves nothing.
    counts: ClassVar[Counter[str]]

    def __init__(self, ow: Onceward) -> None:
        super().__init__()
        self.graph = Graph(ow.store, validation=Validation.LENIENT)
        self.model = GraphModel()
        #: The store's numbers of the model's deletions.
        self.changes: dict[int, ChangeId] = {}
        with ow.transaction() as tx:
            for table in TABLES:
                tx.execute(f"delete from memory_{table}")

    # --- writing --------------------------------------------------------------------------------

    def write(self, batch: WriteBatch) -> None:
        missing = self.model.missing(batch)
        if missing:
            with pytest.raises(EntityMissing) as refused:
                self.graph.write(batch)
            assert any(name in str(refused.value) for name in missing)
            self.counts["refused"] += 1
            return
        written = self.graph.write(batch)
        fates: dict[object, WriteStatus] = {each.name: each.status for each in written.entities}
        fates |= {(o.entity_name, identity(o.content)): o.status for o in written.observations}
        fates |= {each.link: each.status for each in written.relations}
        assert fates == self.model.write(batch)
        self.counts.update(fates.values())
        count = len(written.entities) + len(written.observations) + len(written.relations)
        assert count == len(fates)
        for each in written.entities:
            assert each.entity_type == self.model.nodes[each.name].type

    @rule(entities=few(entities))
    def create(self, entities: tuple[NewEntity, ...]) -> None:
        self.write(WriteBatch(entities=entities))

    @initialize(kind=st.sampled_from(["", "Insect"]))
    def furnish(self, kind: str) -> None:
        """Begin with something that is related, or with nothing."""
        if kind:
            ring = zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)
            links = (Link(from_name=a, to_name=b, relation_type="EATS") for a, b in ring)
            everybody = [
                NewEntity(name=name, entity_type=kind, observations=(text,))
                for name, text in zip(NAMES, CONTENTS, strict=False)
            ]
            self.write(WriteBatch(entities=tuple(everybody), relations=tuple(links)))

    @rule(observations=few(observations))
    def observe(self, observations: tuple[NewObservations, ...]) -> None:
        self.write(WriteBatch(observations=observations))

    @rule(relations=few(links), is_best_effort=st.booleans())
    def relate(self, relations: tuple[Link, ...], is_best_effort: bool) -> None:
        self.write(WriteBatch(relations=relations, is_best_effort=is_best_effort))

    @rule(
        entities=few(entities),
        observations=few(observations),
        relations=few(links),
        is_best_effort=st.booleans(),
    )
    def write_all(self, **parts: Any) -> None:
        self.write(WriteBatch(**parts))

    # --- removing -------------------------------------------------------------------------------

    def remove(self, removal: Removal) -> None:
        known = set(self.model.deletions)
        removed = self.graph.remove(removal)
        assert removed == self.model.remove(removal)
        self.counts["relation taken along"] += removed.relations > len(removal.relations)
        for number, deletion in self.model.deletions.items():
            if number in known:
                continue
            what, text = "entity", deletion.owner
            if deletion.fact is not None:
                what, text = "observation", self.model.facts[deletion.fact].content
            elif deletion.link is not None:
                link = deletion.link
                what, text = "relation", f"{link.from_name} {link.relation_type} {link.to_name}"
            self.changes[number] = next(
                ChangeId(each.id)
                for each in self.graph.history(deletion.owner, limit=10_000)
                if each.id is not None
                and (each.action, each.what, each.text) == (ChangeAction.DELETED, what, text)
            )

    @rule(names=few(names))
    def delete_entities(self, names: tuple[str, ...]) -> None:
        self.remove(Removal(entities=names))

    @rule(observations=few(observations))
    def delete_observations(self, observations: tuple[NewObservations, ...]) -> None:
        self.remove(Removal(observations=observations))

    @rule(relations=few(links))
    def delete_relations(self, relations: tuple[Link, ...]) -> None:
        self.remove(Removal(relations=relations))

    @rule(names=few(names), observations=few(observations), relations=few(links))
    def delete_all(self, names: tuple[str, ...], **parts: Any) -> None:
        self.remove(Removal(entities=names, **parts))

    # --- restoring ------------------------------------------------------------------------------

    @rule(name=names)
    def restore_entity(self, name: str) -> None:
        if name not in self.model.nodes:
            with pytest.raises(EntityMissing):
                self.graph.restore(name=name)
            return
        number = self.model.nodes[name].gone
        if not number:
            nothing = AffectedCounts(entities=0, observations=0, relations=0)
            assert self.graph.restore(name=name) == nothing
            return
        assert self.graph.restore(name=name) == self.model.restore(number)

    @precondition(lambda self: self.changes)
    @rule(data=st.data())
    def restore_change(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.changes)))
        change = self.changes[number]
        if self.model.is_held(number):
            with pytest.raises(Conflict):
                self.graph.restore(change=change)
            self.counts["owner deleted"] += 1
            return
        links = [link for link, gone in self.model.links.items() if gone == number]
        restored = self.model.restore(number)
        assert self.graph.restore(change=change) == restored
        self.counts["relation waits for its end"] += len(links) > restored.relations
        self.counts["came back by its change"] += restored.observations > 0

    # --- reading --------------------------------------------------------------------------------

    @rule(wanted=st.lists(st.sampled_from([*NAMES, "unknown"]), max_size=4))
    def open(self, wanted: list[str]) -> None:
        assert seen(self.graph.open(wanted)) == self.model.seen(set(wanted))

    @rule(page=st.integers(1, 3))
    def read_pages(self, page: int) -> None:
        found = everything(self.graph, page)
        assert seen(found) == self.model.seen()
        ids = [each.id for each in found.entities]
        assert ids == sorted(ids)

    @rule(word=st.sampled_from(WORDS), page=st.integers(1, 3))
    def search(self, word: str, page: int) -> None:
        found, cursor = [], None
        while True:
            answer = self.graph.search(word, limit=page, cursor=cursor)
            found += [each.name for each in answer.entities]
            cursor = answer.next_cursor
            names, links = seen(answer)
            assert (names, links) == self.model.seen(set(names))
            if cursor is None:
                break
        assert sorted(found) == sorted(self.model.with_word(word))

    @rule(prefix=st.sampled_from(["", "err#", "b", "Dog", "x"]))
    def by_beginning(self, prefix: str) -> None:
        found = [each.name for each in self.graph.find_by_prefix(prefix)]
        there = self.model.seen()[0]
        assert sorted(found) == sorted(name for name in there if name.startswith(prefix))

    @invariant()
    def the_store_agrees(self) -> None:
        found = everything(self.graph)
        assert seen(found) == self.model.seen()
        observations = sum(len(each.observations) for each in found.entities)
        assert self.graph.counts() == GraphCounts(
            entities=len(found.entities),
            observations=observations,
            relations=len(found.relations),
            deleted=self.model.deleted(),
        )
        assert self.graph.problems() == []


@pytest.mark.prove
def test_any_order_of_calls_agrees_with_the_model(ow: Onceward, prove: bool, soak: bool) -> None:
    """Whatever is written, deleted and restored, in any order: the graph holds what it should."""

    class Machine(GraphMachine):
        counts: ClassVar[Counter[str]] = Counter()

        def __init__(self) -> None:
            super().__init__(ow)

    is_sqlite = ow.store.engine == "sqlite"
    short, full = (600, 5_000) if is_sqlite else (100, 1_000)
    examples = full if soak else short if prove else short // 10
    # A graph never says of itself that its store is away.
    events: set[Any] = {*WriteStatus, "refused", "relation taken along"} - {WriteStatus.BUFFERED}
    if soak:
        events |= {"owner deleted", "relation waits for its end", "came back by its change"}
    run_machine(Machine, examples=examples, steps=30, counts=Machine.counts, must_reach=events)

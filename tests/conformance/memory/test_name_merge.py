"""Name merge: entities stored under several spellings are merged, and restored by an undo."""

from collections.abc import Callable
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import Conflict, InvalidArgument
from onceward.memory.graph import Graph, graph_writes, soft_delete
from onceward.memory.graph.graph_transaction import GraphTransaction
from onceward.memory.models import (
    Link,
    NewObservations,
    Removal,
    Validation,
    WriteBatch,
    WriteOrigin,
)
from tests.support.graph_writes import create, edges, entity, link, observe, relate, shown

SPELLINGS = ("concept#Rate Limiting", "concept#rate_limiting", "concept#rate-limiting")
CANONICAL = SPELLINGS[2]


@pytest.fixture
def old(ow: Onceward) -> Callable[..., None]:
    """Give entities names as they were stored before names were canonical."""

    def rename(**names: str) -> None:
        with ow.transaction() as tx:
            for old, new in names.items():
                tx.execute("update memory_entities set name = ? where name = ?", [new, old])

    return rename


def _story(graph: Graph, old: Callable[..., None], *, is_canonical_there: bool = True) -> None:
    """Three spellings with shared and own facts, related to each other and to others."""
    kinds = {"a": "Concept", "b": "Concept", "c": "Concept", "f": "File"}
    names = [n for n in kinds if n != "c" or is_canonical_there]
    lenient = Graph(graph.store, redactor=graph.redactor, validation=Validation.LENIENT)
    for name in names:
        batch = WriteBatch(entities=(entity(name, "shared", f"of {name}", kind=kinds[name]),))
        lenient.write(batch, WriteOrigin(source=f"writer {name}", run=None))
    create(graph, entity("x", kind="thing"))
    relate(lenient, link("x", "knows", "a"), link("x", "knows", "b"), link("a", "touches", "f"))
    relate(lenient, link("a", "is like", "b"), link("b", "is", "b"))
    renamed = {"a": SPELLINGS[0], "b": SPELLINGS[1], "f": "file#./src//app.py"}
    old(**renamed, **({"c": CANONICAL} if is_canonical_there else {}))


def _all(graph: Graph) -> tuple[Any, ...]:
    found = graph.read()
    kinds = {each.name: each.entity_type for each in found.entities}
    return shown(found), kinds, sorted(edges(found))


@pytest.mark.parametrize("is_canonical_there", [True, False])
def test_h62_spellings_are_merged_and_that_is_undone(
    graph: Graph, old: Callable[..., None], *, is_canonical_there: bool
) -> None:
    """Dry run, merge, merge again, undo, undo again."""
    _story(graph, old, is_canonical_there=is_canonical_there)
    before = _all(graph)
    plan = {each.name: each for each in graph.name_variants()}
    assert plan[CANONICAL].others == SPELLINGS[:2]
    assert plan[CANONICAL].exists is is_canonical_there
    assert plan["file#src/app.py"].others == ("file#./src//app.py",)
    assert (len(plan), _all(graph)) == (2, before)

    done = graph.merge_names()
    assert set(done.names) == {*SPELLINGS[:2], "file#./src//app.py"}
    facts, _, links = _all(graph)
    assert sorted(facts) == sorted(["x", CANONICAL, "file#src/app.py"])
    own = ["of c"] if is_canonical_there else []
    assert sorted(facts[CANONICAL]) == sorted(["shared", "of a", "of b", *own])
    assert links == sorted(
        [
            ("x", "knows", CANONICAL),
            (CANONICAL, "touches", "file#src/app.py"),
            (CANONICAL, "is", CANONICAL),
        ]
    )
    after = _all(graph)
    assert graph.merge_names().names == ()
    assert _all(graph) == after
    assert [(each.id, each.names) for each in graph.merges()] == [(done.id, 3)]

    assert done.id is not None
    undone = graph.undo_merge(done.id)
    assert set(undone.names) == set(done.names)
    assert (_all(graph), undone.kept, graph.merges()) == (before, (), ())
    assert graph.undo_merge(done.id).names == ()
    assert _all(graph) == before
    assert set(graph.merge_names().names) == set(done.names)
    assert _all(graph) == after


def test_h62_the_origin_and_the_history_of_merged_facts_stay(
    graph: Graph, old: Callable[..., None]
) -> None:
    """Facts keep who wrote them; the history shows both spellings and the merge."""
    _story(graph, old)
    graph.merge_names()
    [merged] = graph.open([CANONICAL]).entities
    assert {each.content: each.source for each in merged.observations} == {
        "shared": "writer c",
        "of a": "writer a",
        "of b": "writer b",
        "of c": "writer c",
    }
    history = graph.history(SPELLINGS[0])
    reported = [(each.action, each.what, each.text, each.source) for each in history]
    assert ("deleted", "entity", SPELLINGS[0], "merge") in reported
    assert ("created", "entity", SPELLINGS[0], "writer a") in reported
    assert ("created", "entity", CANONICAL, "writer c") in reported
    assert [each.at for each in history] == sorted((e.at for e in history), reverse=True)


def test_h62_what_came_after_a_merge_survives_its_undoing(
    graph: Graph, old: Callable[..., None]
) -> None:
    """Facts of later stay on the canonical entity, which then stays as well."""
    _story(graph, old, is_canonical_there=False)
    done = graph.merge_names()
    observe(graph, CANONICAL, "later")
    assert done.id is not None
    undone = graph.undo_merge(done.id)
    assert undone.kept == (CANONICAL,)
    facts = _all(graph)[0]
    assert facts[CANONICAL] == ["later"]
    assert sorted(facts[SPELLINGS[0]]) == ["of a", "shared"]


def test_h62_a_deleted_fact_comes_back_only_while_it_is_merged(
    graph: Graph, old: Callable[..., None]
) -> None:
    """A fact that the canonical entity had lost is restored by a merge, and deleted by its undo."""
    _story(graph, old)
    gone = NewObservations(entity_name=CANONICAL, contents=("shared",))
    graph.remove(Removal(observations=(gone,)))
    before = _all(graph)
    done = graph.merge_names()
    assert "shared" in _all(graph)[0][CANONICAL]
    assert done.id is not None
    graph.undo_merge(done.id)
    assert _all(graph) == before


@pytest.mark.parametrize(
    "point",
    ["memory.write.before_commit", "memory.remove.after_parts", "memory.remove.before_commit",
     "memory.restore.before_commit"],
)  # fmt: skip
def test_h62_a_merge_that_dies_is_whole_or_not_there_and_is_finished_by_the_next(
    graph: Graph,
    old: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """Whatever step it dies at, each name is merged or untouched; again, it does the rest."""
    _story(graph, old, is_canonical_there=False)
    before = _all(graph)
    left = [2]

    def die(name: str) -> None:
        left[0] -= name == point
        if name == point and left[0] < 1:
            raise KeyboardInterrupt

    for module in (graph_writes, soft_delete):
        monkeypatch.setattr(module, "crash_point", die)
    deaths = 0
    for _ in range(20):
        try:
            graph.merge_names()
            break
        except KeyboardInterrupt:
            deaths += 1
            left[0] = 2 + deaths
            assert graph.problems() == []
    assert sorted(_all(graph)[0]) == sorted(["x", CANONICAL, "file#src/app.py"])
    for number in [each.id for each in graph.merges()]:
        for _ in range(20):
            try:
                graph.undo_merge(number)
                break
            except KeyboardInterrupt:
                deaths += 1
                left[0] = 2 + deaths
    assert deaths
    assert _all(graph) == before


@pytest.mark.parametrize("number", [0, -1, 99, 2**63])
def test_h62_an_unknown_merge_is_refused(graph: Graph, number: int) -> None:
    """With the command that lists those there are."""
    with pytest.raises(InvalidArgument, match="undo: merge .* does not exist"):
        graph.undo_merge(number)


def test_h62_a_part_of_a_merge_is_not_a_merge(graph: Graph, old: Callable[..., None]) -> None:
    """Only the number that was given out undoes it, and then all of it."""
    _story(graph, old)
    done = graph.merge_names()
    assert done.id is not None
    with pytest.raises(InvalidArgument, match="undo: merge .* does not exist"):
        graph.undo_merge(done.id + 1)


def test_h62_names_that_are_canonical_are_left_alone(graph: Graph) -> None:
    """A store without other spellings has nothing to merge."""
    create(graph, entity("concept#a", kind="Concept"), entity("Any Name", kind="thing"))
    relate(graph, Link(from_name="Any Name", to_name="concept#a", relation_type="knows"))
    assert graph.name_variants() == ()
    assert graph.merge_names().id is None


def test_h62_a_merge_that_a_newer_one_depends_on_is_undone_after_it(
    graph: Graph, old: Callable[..., None]
) -> None:
    """Else what the newer one has copied would stay, and come back beside its origin."""
    app, other = "file#/work/shop/app.py", "file#/srv/other.py"
    create(graph, entity("a"), entity(app, "of x", kind="File"), entity(other, kind="File"))
    relate(graph, link(app, "knows", "a"))
    old(a="concept#Rate Limiting")
    before = _all(graph)
    first = graph.merge_names().id
    between = _all(graph)
    # In their checkouts these paths have shorter names.
    second, third = (
        Graph(graph.store, redactor=graph.redactor, root=root).merge_names().id
        for root in ("/work/shop", "/srv")
    )
    assert first is not None
    assert second is not None
    assert third is not None
    after = _all(graph)
    assert after[2] == [("file#app.py", "knows", CANONICAL)]
    with pytest.raises(Conflict, match=f"merge {second} is newer than merge {first}") as caught:
        graph.undo_merge(first)
    assert f"--undo {second}" in caught.value.fix
    assert caught.value.context["merge"] == second
    assert _all(graph) == after
    graph.undo_merge(third)
    graph.undo_merge(second)
    assert _all(graph) == between
    assert graph.undo_merge(first).names == ("concept#Rate Limiting",)
    assert graph.undo_merge(first).names == ()
    assert _all(graph) == before


def test_h62_a_merge_is_undone_before_newer_ones_of_other_entities(
    graph: Graph, old: Callable[..., None]
) -> None:
    """They do not touch what it made, also where both are related to the same entity."""
    other = "file#/srv/other.py"
    create(graph, entity("a"), entity("x"), entity(other, kind="File"))
    relate(graph, link("x", "knows", "a"), link("x", "has", other))
    old(a="concept#Rate Limiting")
    first = graph.merge_names().id
    assert first is not None
    newer = Graph(graph.store, redactor=graph.redactor, root="/srv").merge_names().id
    assert graph.undo_merge(first).names == ("concept#Rate Limiting",)
    assert sorted(edges(graph.read())) == [
        ("x", "has", "file#other.py"),
        ("x", "knows", "concept#Rate Limiting"),
    ]
    assert [each.id for each in graph.merges()] == [newer]


def test_h62_an_undo_locks_all_it_touches_at_once(
    graph: Graph, old: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every writer does: else one that comes in between and the undo wait for each other."""
    create(graph, entity("z"), entity("a"))
    relate(graph, link("z", "uses", "a"))
    old(z=SPELLINGS[0])
    merge = graph.merge_names().id
    assert merge is not None
    locked: list[list[str]] = []
    query = GraphTransaction.query

    def noted(tx: GraphTransaction, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        if name == "memory_entity_lock":
            locked.append(sorted(params["names"]))
        return query(tx, name, **params)

    monkeypatch.setattr(GraphTransaction, "query", noted)
    graph.undo_merge(merge)
    assert locked[0] == ["a", CANONICAL]
    assert {name for names in locked for name in names} == set(locked[0])

"""Graph: writes are idempotent, whatever the caller and the number of repetitions."""

import pytest

from onceward.client import Onceward
from onceward.errors import Conflict, EntityMissing, InvalidArgument
from onceward.memory.graph import Graph
from onceward.memory.models import (
    AffectedCounts,
    ChangeAction,
    ChangeId,
    NewObservations,
    Removal,
    WriteBatch,
    WriteOrigin,
    WriteStatus,
)
from onceward.system.redaction import Redactor
from tests.support.graph_writes import (
    create,
    edges,
    entity,
    link,
    observe,
    relate,
    shown,
)


def test_a_batch_is_there_as_it_was_asked_for(graph: Graph) -> None:
    """Entities, observations and relations of one batch may lean on one another, in any order."""
    written = graph.write(
        WriteBatch(
            entities=(entity("zoe", "first"), entity("adam")),
            observations=(NewObservations(entity_name="adam", contents=("second", "third")),),
            relations=(link("zoe", "knows", "adam"),),
        ),
        WriteOrigin(source="test", run="run#1"),
    )
    assert [each.status for each in written.entities] == [WriteStatus.CREATED] * 2
    found = graph.read()
    assert shown(found) == {"zoe": ["first"], "adam": ["second", "third"]}
    assert edges(found) == [("zoe", "knows", "adam")]
    observation = found.entities[0].observations[0]
    assert (observation.source, observation.run) == ("test", "run#1")
    assert observation.created_at.endswith("Z")


def test_a_repeated_batch_changes_nothing(graph: Graph) -> None:
    """The second time everything is known, and the graph is the same to the last id."""
    batch = WriteBatch(
        entities=(entity("a", "x", "y"), entity("b")), relations=(link("a", "of", "b"),)
    )
    graph.write(batch)
    before = graph.read()
    again = graph.write(batch, WriteOrigin(source="another"))
    fates = [each.status for each in again.entities]
    fates += [each.status for each in again.observations]
    fates += [each.status for each in again.relations]
    assert set(fates) == {WriteStatus.KNOWN}
    assert graph.read() == before


def test_doubles_inside_one_batch_are_one(graph: Graph) -> None:
    """Names, contents and relations that stand twice in a batch are stored once."""
    written = graph.write(
        WriteBatch(
            entities=(entity("a", "x", "x"), entity("a", "x", "y")),
            relations=(link("a", "is", "a"), link("a", "is", "a")),
        )
    )
    assert len(written.entities) == 1
    assert shown(graph.read()) == {"a": ["x", "y"]}
    assert edges(graph.read()) == [("a", "is", "a")]


def test_h35_observations_of_a_known_name_are_added(graph: Graph) -> None:
    """Creating what exists adds what is new about it, and drops nothing."""
    create(graph, entity("a", "x"))
    written = graph.write(WriteBatch(entities=(entity("a", "x", "y"),)))
    assert [each.status for each in written.observations] == [
        WriteStatus.KNOWN,
        WriteStatus.CREATED,
    ]
    assert shown(graph.read()) == {"a": ["x", "y"]}


def test_a_known_name_keeps_its_type_and_the_answer_says_so(graph: Graph) -> None:
    """The first writer decided."""
    create(graph, entity("a", kind="person"))
    [status] = graph.write(WriteBatch(entities=(entity("a", kind="robot"),))).entities
    assert (status.status, status.entity_type) == (WriteStatus.KNOWN, "person")


def test_observing_what_is_not_there_is_refused_and_changes_nothing(graph: Graph) -> None:
    """The error names the entity, and the rest of the batch is not written."""
    with pytest.raises(EntityMissing, match="'ghost'") as refused:
        graph.write(
            WriteBatch(
                entities=(entity("a"),),
                observations=(NewObservations(entity_name="ghost", contents=("boo",)),),
            )
        )
    assert refused.value.names == ("ghost",)
    assert graph.read().entities == ()
    with pytest.raises(EntityMissing, match="'ghost'"):
        observe(graph, "ghost")


def test_h37_a_relation_to_a_missing_node_is_refused_and_named(graph: Graph) -> None:
    """The whole call is refused; nothing of it stays."""
    create(graph, entity("a"), entity("b"))
    with pytest.raises(EntityMissing, match="'nowhere'") as refused:
        relate(graph, link("a", "knows", "b"), link("a", "knows", "nowhere"))
    assert refused.value.names == ("nowhere",)
    assert edges(graph.read()) == []


def test_a_best_effort_batch_reports_the_relation_and_keeps_the_rest(graph: Graph) -> None:
    """Entity and observation stay; the refused relation says why."""
    written = graph.write(
        WriteBatch(
            entities=(entity("a", "x"),),
            relations=(link("a", "knows", "nowhere"), link("a", "is", "a")),
            is_best_effort=True,
        )
    )
    assert [each.status for each in written.relations] == [WriteStatus.REFUSED, WriteStatus.CREATED]
    assert "nowhere" in written.relations[0].reason
    assert shown(graph.read()) == {"a": ["x"]}


def test_deleting_is_soft_and_takes_what_hangs_on_it(graph: Graph) -> None:
    """An entity goes with its observations and relations; a second time nothing is left to do."""
    create(graph, entity("a", "x"), entity("b", "y"))
    relate(graph, link("a", "knows", "b"), link("b", "knows", "a"))
    gone = graph.remove(Removal(entities=("a", "ghost")))
    assert gone == AffectedCounts(entities=1, observations=1, relations=2)
    assert shown(graph.read()) == {"b": ["y"]}
    assert edges(graph.read()) == []
    again = graph.remove(Removal(entities=("a",)))
    assert again == AffectedCounts(entities=0, observations=0, relations=0)
    with pytest.raises(EntityMissing):
        observe(graph, "a", "z")


def test_observations_and_relations_are_deleted_one_by_one(graph: Graph) -> None:
    """What is not named stays; what is not there is no error."""
    create(graph, entity("a", "x", "y"), entity("b"))
    relate(graph, link("a", "knows", "b"), link("a", "likes", "b"))
    gone = graph.remove(
        Removal(
            observations=(
                NewObservations(entity_name="a", contents=("x", "never said")),
                NewObservations(entity_name="ghost", contents=("x",)),
            ),
            relations=(link("a", "knows", "b"), link("b", "knows", "a"), link("a", "x", "ghost")),
        )
    )
    assert gone == AffectedCounts(entities=0, observations=1, relations=1)
    assert shown(graph.read()) == {"a": ["y"], "b": []}
    assert edges(graph.read()) == [("a", "likes", "b")]


def test_adding_what_was_deleted_restores_just_that(graph: Graph) -> None:
    """The entity is there again with what was said of it now, not with all that it once had."""
    create(graph, entity("a", "x", "y", kind="old"), entity("b"))
    relate(graph, link("a", "knows", "b"))
    graph.remove(Removal(entities=("a",)))
    written = graph.write(WriteBatch(entities=(entity("a", "x", kind="new"),)))
    assert written.entities[0].status is WriteStatus.RESTORED
    assert written.entities[0].entity_type == "new"
    assert written.observations[0].status is WriteStatus.RESTORED
    assert shown(graph.read()) == {"a": ["x"], "b": []}
    assert relate(graph, link("a", "knows", "b")) == [WriteStatus.RESTORED]


def test_restoring_brings_back_what_a_deletion_took(graph: Graph) -> None:
    """By name or by change; and a second time there is nothing to bring back."""
    create(graph, entity("a", "x", "y"), entity("b"))
    relate(graph, link("a", "knows", "b"))
    graph.remove(Removal(observations=(NewObservations(entity_name="a", contents=("y",)),)))
    graph.remove(Removal(entities=("a",)))
    assert graph.restore(name="a") == AffectedCounts(entities=1, observations=1, relations=1)
    assert shown(graph.read()) == {"a": ["x"], "b": []}
    [lost] = [c for c in graph.history("a") if c.what == "observation" and c.action == "deleted"]
    assert lost.id is not None
    assert graph.restore(change=lost.id) == AffectedCounts(entities=0, observations=1, relations=0)
    assert shown(graph.read()) == {"a": ["x", "y"], "b": []}
    assert graph.restore(change=lost.id) == AffectedCounts(entities=0, observations=0, relations=0)


def test_a_relation_comes_back_with_the_last_of_its_ends(graph: Graph) -> None:
    """Both ends were deleted: whichever is restored second brings the relation along."""
    create(graph, entity("a"), entity("b"))
    relate(graph, link("a", "knows", "b"))
    graph.remove(Removal(entities=("a",)))
    graph.remove(Removal(entities=("b",)))
    assert graph.restore(name="a").relations == 0
    assert edges(graph.read()) == []
    assert graph.restore(name="b").relations == 1
    assert edges(graph.read()) == [("a", "knows", "b")]


def test_restoring_what_cannot_be_is_refused(graph: Graph) -> None:
    """What is not there, or part of something deleted, is named; what is there is left alone."""
    create(graph, entity("a", "x"))
    assert graph.restore(name="a") == AffectedCounts(entities=0, observations=0, relations=0)
    with pytest.raises(EntityMissing):
        graph.restore(name="ghost")
    with pytest.raises(InvalidArgument, match="not a deletion"):
        graph.restore(change=ChangeId(12345))
    with pytest.raises(InvalidArgument, match="name of an entity or the number"):
        graph.restore()
    graph.remove(Removal(observations=(NewObservations(entity_name="a", contents=("x",)),)))
    graph.remove(Removal(entities=("a",)))
    [part] = [c for c in graph.history("a") if c.what == "observation" and c.action == "deleted"]
    with pytest.raises(Conflict, match="is deleted"):
        graph.restore(change=part.id)


def test_the_history_lists_every_change_newest_first(graph: Graph) -> None:
    """Created, deleted, restored; with who did it."""
    graph.write(WriteBatch(entities=(entity("a", "x"), entity("b"))), WriteOrigin(source="one"))
    relate(graph, link("b", "knows", "a"))
    graph.remove(Removal(entities=("a",)), WriteOrigin(source="two", run="r"))
    graph.restore(name="a", origin=WriteOrigin(source="three"))
    reported = graph.history("a")
    assert [(c.action, c.what, c.source) for c in reported[:2]] == [
        (ChangeAction.RESTORED, "entity", "three"),
        (ChangeAction.DELETED, "entity", "two"),
    ]
    assert {(c.action, c.text) for c in reported[2:]} == {
        (ChangeAction.CREATED, "a"),
        (ChangeAction.CREATED, "x"),
        (ChangeAction.CREATED, "b knows a"),
    }
    assert len(graph.history("a", limit=2)) == 2


def test_opening_gives_the_nodes_and_every_relation_that_touches_them(graph: Graph) -> None:
    """In the order in which they came; what is not there is left out."""
    create(graph, entity("a"), entity("b"), entity("c"))
    relate(graph, link("c", "to", "a"), link("a", "to", "b"), link("b", "to", "c"))
    found = graph.open(["b", "ghost", "a", "b"])
    assert list(shown(found)) == ["a", "b"]
    assert edges(found) == [("c", "to", "a"), ("a", "to", "b"), ("b", "to", "c")]
    assert graph.open([]).entities == ()


def test_pages_hold_each_entity_and_each_relation_once(graph: Graph) -> None:
    """Also when something is deleted or added in between."""
    names = [f"n{number}" for number in range(7)]
    create(graph, *(entity(name, f"of {name}") for name in names))
    links = [link(names[at], "next", names[(at + 1) % 7]) for at in range(7)]
    relate(graph, *links)
    seen, found = [], []
    cursor = None
    while True:
        page = graph.read(limit=3, cursor=cursor)
        seen += list(shown(page))
        found += edges(page)
        if page.next_cursor is None:
            break
        if cursor is None:
            graph.remove(Removal(entities=("n1",)))
            create(graph, entity("late"))
        cursor = page.next_cursor
    assert seen == [*names, "late"]
    assert sorted(found) == sorted(set(found))


def test_a_write_inside_the_users_transaction_is_part_of_it(graph: Graph, ow: Onceward) -> None:
    """It is rolled back with what the user does."""
    with pytest.raises(RuntimeError), ow.transaction():
        create(graph, entity("a"))
        assert list(shown(graph.read())) == ["a"]
        raise RuntimeError
    assert graph.read().entities == ()


def test_a_refused_batch_leaves_nothing_in_the_users_transaction(
    graph: Graph, ow: Onceward
) -> None:
    """A caller that catches the refusal and goes on has a whole graph."""
    with ow.transaction():
        create(graph, entity("before"))
        with pytest.raises(EntityMissing):
            graph.write(
                WriteBatch(entities=(entity("a", "x"),), relations=(link("a", "is", "ghost"),))
            )
        create(graph, entity("after"))
    assert list(shown(graph.read())) == ["before", "after"]


def test_what_was_stored_with_a_secret_can_be_removed_with_it(ow: Onceward) -> None:
    """Another process did not know that it was one."""
    create(
        Graph(ow.store, redactor=Redactor()), entity("key hunter2-hunter2", "is hunter2-hunter2")
    )
    graph = Graph(ow.store, redactor=Redactor(["hunter2-hunter2"]))
    said = NewObservations(entity_name="key hunter2-hunter2", contents=("is hunter2-hunter2",))
    assert graph.remove(Removal(observations=(said,))).observations == 1
    assert len(graph.open(["key hunter2-hunter2"]).entities) == 1
    assert graph.remove(Removal(entities=("key hunter2-hunter2",))).entities == 1


def test_secrets_are_taken_out_before_anything_is_stored(ow: Onceward) -> None:
    """In names, contents and origins; and what was stored is found by the name that held one."""
    graph = Graph(ow.store, redactor=Redactor(["hunter2-hunter2"]))
    graph.write(
        WriteBatch(
            entities=(entity("login hunter2-hunter2", "password=swordfish1 hunter2-hunter2"),)
        ),
        WriteOrigin(source="hunter2-hunter2"),
    )
    assert "hunter2" not in repr(graph.read())
    assert "swordfish1" not in repr(graph.read())
    assert len(graph.open(["login hunter2-hunter2"]).entities) == 1
    gone = graph.remove(
        Removal(
            observations=(
                NewObservations(
                    entity_name="login hunter2-hunter2",
                    contents=("password=swordfish1 hunter2-hunter2",),
                ),
            )
        )
    )
    assert gone.observations == 1

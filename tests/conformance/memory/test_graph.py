"""The graph: what is written once is there once, however often and by whomever it is written."""

import threading
from collections.abc import Iterator

import pytest

from onceward.errors import Conflict, EntityMissing, InvalidArgument, InvalidCursor
from onceward.handle import Onceward
from onceward.memory.graph import Graph
from onceward.memory.models import (
    BATCH_ITEMS_MAX,
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    Action,
    Batch,
    ChangeId,
    Fate,
    Link,
    NewEntity,
    NewObservations,
    Origin,
    Removal,
    Removed,
    Subgraph,
)
from onceward.secrets import Redactor


@pytest.fixture
def graph(ow: Onceward) -> Iterator[Graph]:
    made = Graph(ow.store, redactor=Redactor())
    yield made
    assert made.problems() == []


def entity(name: str, *observations: str, kind: str = "thing") -> NewEntity:
    return NewEntity(name=name, entity_type=kind, observations=observations)


def link(start: str, kind: str, end: str) -> Link:
    return Link(from_name=start, to_name=end, relation_type=kind)


def create(graph: Graph, *entities: NewEntity) -> list[Fate]:
    return [each.fate for each in graph.write(Batch(entities=entities)).entities]


def observe(graph: Graph, name: str, *contents: str) -> list[Fate]:
    batch = Batch(observations=(NewObservations(entity_name=name, contents=contents),))
    return [each.fate for each in graph.write(batch).observations]


def relate(graph: Graph, *links: Link) -> list[Fate]:
    return [each.fate for each in graph.write(Batch(relations=links)).relations]


def shown(found: Subgraph) -> dict[str, list[str]]:
    return {each.name: [o.content for o in each.observations] for each in found.entities}


def edges(found: Subgraph) -> list[tuple[str, str, str]]:
    return [(r.from_name, r.relation_type, r.to_name) for r in found.relations]


def test_a_batch_is_there_as_it_was_asked_for(graph: Graph) -> None:
    """Entities, observations and relations of one batch may lean on one another, in any order."""
    written = graph.write(
        Batch(
            entities=(entity("zoe", "first"), entity("adam")),
            observations=(NewObservations(entity_name="adam", contents=("second", "third")),),
            relations=(link("zoe", "knows", "adam"),),
        ),
        Origin(source="test", run="run#1"),
    )
    assert [each.fate for each in written.entities] == [Fate.CREATED] * 2
    found = graph.read()
    assert shown(found) == {"zoe": ["first"], "adam": ["second", "third"]}
    assert edges(found) == [("zoe", "knows", "adam")]
    observation = found.entities[0].observations[0]
    assert (observation.source, observation.run) == ("test", "run#1")
    assert observation.created_at.endswith("Z")


def test_a_repeated_batch_changes_nothing(graph: Graph) -> None:
    """The second time everything is known, and the graph is the same to the last id."""
    batch = Batch(entities=(entity("a", "x", "y"), entity("b")), relations=(link("a", "of", "b"),))
    graph.write(batch)
    before = graph.read()
    again = graph.write(batch, Origin(source="another"))
    fates = [each.fate for each in again.entities]
    fates += [each.fate for each in again.observations]
    fates += [each.fate for each in again.relations]
    assert set(fates) == {Fate.KNOWN}
    assert graph.read() == before


def test_doubles_inside_one_batch_are_one(graph: Graph) -> None:
    """Names, contents and relations that stand twice in a batch are stored once."""
    written = graph.write(
        Batch(
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
    written = graph.write(Batch(entities=(entity("a", "x", "y"),)))
    assert [each.fate for each in written.observations] == [Fate.KNOWN, Fate.CREATED]
    assert shown(graph.read()) == {"a": ["x", "y"]}


def test_a_known_name_keeps_its_type_and_the_answer_says_so(graph: Graph) -> None:
    """Whoever came first decided."""
    create(graph, entity("a", kind="person"))
    [fate] = graph.write(Batch(entities=(entity("a", kind="robot"),))).entities
    assert (fate.fate, fate.entity_type) == (Fate.KNOWN, "person")


def test_observing_what_is_not_there_is_refused_and_changes_nothing(graph: Graph) -> None:
    """The error names the entity, and the rest of the batch is not written."""
    with pytest.raises(EntityMissing, match="'ghost'") as refused:
        graph.write(
            Batch(
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
        Batch(
            entities=(entity("a", "x"),),
            relations=(link("a", "knows", "nowhere"), link("a", "is", "a")),
            is_best_effort=True,
        )
    )
    assert [each.fate for each in written.relations] == [Fate.REFUSED, Fate.CREATED]
    assert "nowhere" in written.relations[0].reason
    assert shown(graph.read()) == {"a": ["x"]}


def test_deleting_is_soft_and_takes_what_hangs_on_it(graph: Graph) -> None:
    """An entity goes with its observations and relations; a second time nothing is left to do."""
    create(graph, entity("a", "x"), entity("b", "y"))
    relate(graph, link("a", "knows", "b"), link("b", "knows", "a"))
    gone = graph.remove(Removal(entities=("a", "ghost")))
    assert gone == Removed(entities=1, observations=1, relations=2)
    assert shown(graph.read()) == {"b": ["y"]}
    assert edges(graph.read()) == []
    again = graph.remove(Removal(entities=("a",)))
    assert again == Removed(entities=0, observations=0, relations=0)
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
    assert gone == Removed(entities=0, observations=1, relations=1)
    assert shown(graph.read()) == {"a": ["y"], "b": []}
    assert edges(graph.read()) == [("a", "likes", "b")]


def test_adding_what_was_deleted_restores_just_that(graph: Graph) -> None:
    """The entity is there again with what was said of it now, not with all that it once had."""
    create(graph, entity("a", "x", "y", kind="old"), entity("b"))
    relate(graph, link("a", "knows", "b"))
    graph.remove(Removal(entities=("a",)))
    written = graph.write(Batch(entities=(entity("a", "x", kind="new"),)))
    assert written.entities[0].fate is Fate.RESTORED
    assert written.entities[0].entity_type == "new"
    assert written.observations[0].fate is Fate.RESTORED
    assert shown(graph.read()) == {"a": ["x"], "b": []}
    assert relate(graph, link("a", "knows", "b")) == [Fate.RESTORED]


def test_restoring_brings_back_what_a_deletion_took(graph: Graph) -> None:
    """By name or by change; and a second time there is nothing to bring back."""
    create(graph, entity("a", "x", "y"), entity("b"))
    relate(graph, link("a", "knows", "b"))
    graph.remove(Removal(observations=(NewObservations(entity_name="a", contents=("y",)),)))
    graph.remove(Removal(entities=("a",)))
    assert graph.restore(name="a") == Removed(entities=1, observations=1, relations=1)
    assert shown(graph.read()) == {"a": ["x"], "b": []}
    [lost] = [c for c in graph.history("a") if c.what == "observation" and c.action == "deleted"]
    assert lost.id is not None
    assert graph.restore(change=lost.id) == Removed(entities=0, observations=1, relations=0)
    assert shown(graph.read()) == {"a": ["x", "y"], "b": []}
    assert graph.restore(change=lost.id) == Removed(entities=0, observations=0, relations=0)


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
    assert graph.restore(name="a") == Removed(entities=0, observations=0, relations=0)
    with pytest.raises(EntityMissing):
        graph.restore(name="ghost")
    with pytest.raises(InvalidArgument, match="no deletion"):
        graph.restore(change=ChangeId(12345))
    with pytest.raises(InvalidArgument, match="name of an entity or the number"):
        graph.restore()
    graph.remove(Removal(observations=(NewObservations(entity_name="a", contents=("x",)),)))
    graph.remove(Removal(entities=("a",)))
    [part] = [c for c in graph.history("a") if c.what == "observation" and c.action == "deleted"]
    with pytest.raises(Conflict, match="deleted itself"):
        graph.restore(change=part.id)


def test_the_history_tells_everything_newest_first(graph: Graph) -> None:
    """Created, deleted, restored; with who did it."""
    graph.write(Batch(entities=(entity("a", "x"), entity("b"))), Origin(source="one"))
    relate(graph, link("b", "knows", "a"))
    graph.remove(Removal(entities=("a",)), Origin(source="two", run="r"))
    graph.restore(name="a", origin=Origin(source="three"))
    told = graph.history("a")
    assert [(c.action, c.what, c.source) for c in told[:2]] == [
        (Action.RESTORED, "entity", "three"),
        (Action.DELETED, "entity", "two"),
    ]
    assert {(c.action, c.text) for c in told[2:]} == {
        (Action.CREATED, "a"),
        (Action.CREATED, "x"),
        (Action.CREATED, "b knows a"),
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


@pytest.mark.parametrize("cursor", ["", "x", "-1", "\u0661", "9" * 30])
def test_a_cursor_of_nobody_is_refused(graph: Graph, cursor: str) -> None:
    """It says so, and what to do."""
    with pytest.raises(InvalidCursor, match="cursor"):
        graph.read(cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
def test_a_limit_that_is_none_is_refused(graph: Graph, limit: int) -> None:
    """It says what a limit is."""
    with pytest.raises(InvalidArgument, match="limit"):
        graph.read(limit=limit)


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        (Batch(entities=(entity("ok"), entity("  "))), "entities[1].name"),
        (Batch(entities=(entity("a", kind=""),)), "entities[0].entityType"),
        (Batch(entities=(entity("a\0"),)), "entities[0].name"),
        (Batch(entities=(entity("a", "x\0"),)), "entities[0].observations[0]"),
        (Batch(entities=(entity("\ud800"),)), "entities[0].name"),
        (Batch(entities=(entity("a" * (NAME_BYTES_MAX + 1)),)), "entities[0].name"),
        (
            Batch(entities=(entity("a", "x" * (OBSERVATION_BYTES_MAX + 1)),)),
            "entities[0].observations[0]",
        ),
        (Batch(relations=(link("a", "", "b"),)), "relations[0].relationType"),
        (
            Batch(observations=(NewObservations(entity_name="a", contents=("x", "\0")),)),
            "observations[0].contents[1]",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field(
    graph: Graph, batch: Batch, field: str
) -> None:
    """Nothing of the batch is written."""
    with pytest.raises(InvalidArgument) as refused:
        graph.write(batch)
    assert refused.value.context["field"] == field
    assert refused.value.fix
    assert graph.read().entities == ()


def test_a_batch_of_too_many_items_is_refused(graph: Graph) -> None:
    """It says how many there may be."""
    with pytest.raises(InvalidArgument, match="more than"):
        create(graph, entity("a", *("x",) * BATCH_ITEMS_MAX))


def test_long_names_texts_and_odd_characters_are_kept(graph: Graph) -> None:
    """Quotes, backslashes, emoji, right-to-left, a name as long as can be, an empty observation."""
    names = [
        'it\'s "a" \\ name',
        "日本語 🙂",
        "שלום",
        "n" * NAME_BYTES_MAX,
        "' or 1=1 --",
        "%_*?:&|!",
    ]
    create(graph, *(entity(name, name, "") for name in names))
    assert shown(graph.open(names)) == {name: [name, ""] for name in names}
    for name in names[:4]:
        assert name in shown(graph.search(name))


def test_a_batch_of_thousands_is_one_transaction(graph: Graph) -> None:
    """Twenty thousand items in a call are no problem."""
    batch = Batch(entities=tuple(entity(f"n{at}", f"fact {at}") for at in range(5000)))
    assert {each.fate for each in graph.write(batch).entities} == {Fate.CREATED}
    assert graph.counts().observations == 5000


def test_two_who_write_the_same_in_another_order_both_succeed(graph: Graph) -> None:
    """Whoever comes second finds it known; nobody waits for the other for ever."""
    names = [f"n{at}" for at in range(50)]
    fates: list[list[Fate]] = []
    errors: list[BaseException] = []

    def run(order: list[str]) -> None:
        try:
            for _ in range(5):
                made = tuple(entity(name, "one", "two") for name in order)
                relations = tuple(link(name, "is", order[0]) for name in order)
                written = graph.write(Batch(entities=made, relations=relations))
                fates.append([each.fate for each in written.entities])
        except BaseException as exc:  # noqa: BLE001 - shown below
            errors.append(exc)

    threads = [threading.Thread(target=run, args=(order,)) for order in (names, names[::-1]) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(each.count(Fate.CREATED) for each in fates) == 50
    assert {tuple(texts) for texts in shown(graph.read()).values()} == {("one", "two")}


def test_who_deletes_and_who_adds_agree_on_what_is_there(graph: Graph) -> None:
    """Whatever the order, nothing lives on an entity that is deleted."""
    create(graph, entity("hub"), *(entity(f"n{at}") for at in range(10)))
    errors: list[BaseException] = []

    def add(seed: int) -> None:
        for at in range(20):
            try:
                observe(graph, "hub", f"{seed} said {at}")
                relate(graph, link("hub", f"r{seed}", f"n{at % 10}"))
            except EntityMissing:
                continue
            except BaseException as exc:  # noqa: BLE001 - shown below
                errors.append(exc)

    def cut() -> None:
        for _ in range(10):
            try:
                graph.remove(Removal(entities=("hub", "n3")))
                create(graph, entity("hub"), entity("n3"))
            except BaseException as exc:  # noqa: BLE001 - shown below
                errors.append(exc)

    threads = [*(threading.Thread(target=add, args=(seed,)) for seed in range(3))]
    threads += [threading.Thread(target=cut) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


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
    """Whoever catches the refusal and goes on has a whole graph."""
    with ow.transaction():
        create(graph, entity("before"))
        with pytest.raises(EntityMissing):
            graph.write(Batch(entities=(entity("a", "x"),), relations=(link("a", "is", "ghost"),)))
        create(graph, entity("after"))
    assert list(shown(graph.read())) == ["before", "after"]


def test_a_read_sees_one_moment(graph: Graph) -> None:
    """An entity is never seen without the facts that come and go with it."""
    create(graph, entity("a", "x"), entity("b"))
    relate(graph, link("a", "is", "b"))
    stop = threading.Event()

    def toggle() -> None:
        while not stop.is_set():
            graph.remove(Removal(entities=("a",)))
            graph.restore(name="a")

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        for _ in range(150):
            found = graph.open(["a"])
            assert shown(found) in ({}, {"a": ["x"]})
            assert len(found.relations) == len(found.entities)
    finally:
        stop.set()
        thread.join()


def test_many_who_restore_the_same_all_succeed(graph: Graph) -> None:
    """One brings it back, the others find it there, and nobody waits for another for ever."""
    create(graph, entity("hub", "x"), *(entity(f"n{at}") for at in range(5)))
    relate(graph, *(link("hub", "has", f"n{at}") for at in range(5)))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                graph.remove(Removal(entities=("hub",)))
                graph.restore(name="hub")
        except BaseException as exc:  # noqa: BLE001 - shown below
            errors.append(exc)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    graph.restore(name="hub")
    assert len(graph.open(["hub"]).relations) == 5


@pytest.mark.parametrize(
    "origin",
    [Origin(source="a\0"), Origin(source="x" * 501), Origin(run="\ud800"), Origin(run=" ")],
)
def test_an_origin_that_cannot_be_kept_is_refused(graph: Graph, origin: Origin) -> None:
    """As everything else is, by its field."""
    with pytest.raises(InvalidArgument, match="source|run"):
        graph.write(Batch(entities=(entity("a"),)), origin)


def test_odd_questions_are_answered(graph: Graph) -> None:
    """A NUL, half a surrogate pair and numbers beyond all stores are no reason to fail."""
    create(graph, entity("a b"))
    assert list(shown(graph.search("a\0b"))) == ["a b"]
    assert graph.search("\ud800").entities == ()
    assert graph.named("\0\ud800") == ()
    for number in (0, -1, 2**63, 10**30):
        with pytest.raises(InvalidArgument, match="change"):
            graph.restore(change=ChangeId(number))


def test_what_was_stored_with_a_secret_can_be_removed_by_who_knows_it(ow: Onceward) -> None:
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
        Batch(entities=(entity("login hunter2-hunter2", "password=swordfish1 hunter2-hunter2"),)),
        Origin(source="hunter2-hunter2"),
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

"""Graph search: words, prefixes, phrases and filters; best first; equal on both engines."""

from collections.abc import Iterator

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, InvalidCursor
from onceward.memory.graph import Graph, graph_search
from onceward.memory.models import Link, NewEntity, NewObservations, Removal, WriteBatch
from onceward.system.redaction import Redactor

PEOPLE = (
    ("Alice Smith", "person", ("likes green tea", "works on the auth service")),
    ("bob", "person", ("likes coffee", "knows alice well")),
    ("auth-service", "service", ("timeout raised to 30 s", "written in Python 3.11")),
    ("err#module not found: foo", "Error", ("first seen in CI",)),
    ("err#timeout", "Error", ("auth service did not answer",)),
    ("café Zürich", "place", ("Straße 5", "東京 is far away")),
)


@pytest.fixture
def graph(ow: Onceward) -> Iterator[Graph]:
    made = Graph(ow.store, redactor=Redactor())
    entities = tuple(
        NewEntity(name=name, entity_type=kind, observations=observations)
        for name, kind, observations in PEOPLE
    )
    made.write(WriteBatch(entities=entities))
    yield made
    assert made.problems() == []


def found(graph: Graph, query: str) -> list[str]:
    return [each.name for each in graph.search(query).entities]


def test_a_query_finds_what_it_should_in_this_order(graph: Graph) -> None:
    """Names before types before observations, whole words before beginnings, the newest first."""
    for query, names in [
        ("alice", ["Alice Smith", "bob"]),
        ("ALI", ["Alice Smith", "bob"]),
        ("tea", ["Alice Smith"]),
        ("likes", ["bob", "Alice Smith"]),
        ("auth", ["auth-service", "err#timeout", "Alice Smith"]),
        ("aut*", ["auth-service", "err#timeout", "Alice Smith"]),
        ("gre* te*", ["Alice Smith"]),
        ("gre tea", []),
        ("green te", ["Alice Smith"]),
        ("auth timeout", ["err#timeout", "auth-service"]),
        ('"green tea"', ["Alice Smith"]),
        ('"tea green"', []),
        ('"gree"', []),
        ("smith tea", ["Alice Smith"]),
        ("module-not-found", ["err#module not found: foo"]),
        ("3.11", ["auth-service"]),
        ("person", ["bob", "Alice Smith"]),
        ("type:Error", ["err#timeout", "err#module not found: foo"]),
        ("type:error timeout", ["err#timeout"]),
        ("type:person type:place likes", ["bob", "Alice Smith"]),
        ("key:err#", ["err#module not found: foo", "err#timeout"]),
        ("key:err#time*", ["err#timeout"]),
        ("key:bob", ["bob"]),
        ("key:bo", []),
        ('key:"err#module not found: foo"', ["err#module not found: foo"]),
        ("key:err#* answer", ["err#timeout"]),
        ("key:bob key:err#timeout likes", ["bob"]),
        ("cafe zurich", ["café Zürich"]),
        ("strasse", ["café Zürich"]),
        ("東京", ["café Zürich"]),
        ("京", ["café Zürich"]),
        ("err#timeout", ["err#timeout"]),
        ("nothing of the kind", []),
        ("***", []),
        ("#", []),
        ("type:", []),
        ("' \" ) OR ( AND NOT NEAR * : & | ! <-> \\", []),
    ]:
        assert found(graph, query) == names


def test_an_empty_query_is_everything(graph: Graph) -> None:
    """In the order in which it came, as a read is."""
    assert found(graph, "  ") == [name for name, _, _ in PEOPLE]


def test_relations_of_what_was_found_come_along(graph: Graph) -> None:
    """Also those that lead to what was not found."""
    graph.write(
        WriteBatch(relations=(Link(from_name="bob", to_name="Alice Smith", relation_type="knows"),))
    )
    assert [each.to_name for each in graph.search("coffee").relations] == ["Alice Smith"]


def test_what_is_deleted_is_not_found_and_what_is_restored_is(graph: Graph) -> None:
    """The index follows at once, for whole entities and for single observations."""
    tea = NewObservations(entity_name="Alice Smith", contents=("likes green tea",))
    graph.remove(Removal(observations=(tea,)))
    assert found(graph, "tea") == []
    graph.write(WriteBatch(observations=(tea,)))
    assert found(graph, "tea") == ["Alice Smith"]
    graph.remove(Removal(entities=("Alice Smith",)))
    assert found(graph, "tea") == []
    graph.restore(name="Alice Smith")
    assert found(graph, "smith tea") == ["Alice Smith"]


def test_pages_give_everything_once_over_many_blocks(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entity once, whether found by its name or by one of many observations."""
    monkeypatch.setattr(graph_search, "BLOCK_DOCS", 7)
    entities = [
        NewEntity(
            name=f"plum {at}" if at % 3 == 0 else f"node {at}",
            entity_type="fruit",
            observations=tuple(f"plum {at} fact {fact}" for fact in range(at % 5)),
        )
        for at in range(60)
    ]
    graph.write(WriteBatch(entities=tuple(entities)))
    # Late facts about early entities, so that one entity stands in blocks far apart.
    late = [NewObservations(entity_name="node 4", contents=("a late plum",))]
    graph.write(WriteBatch(observations=tuple(late)))
    expected = {each.name for each in entities if each.name[0] == "p" or each.observations}
    for limit in (1, 4, 100):
        names: list[str] = []
        cursor = None
        while True:
            page = graph.search("plum", limit=limit, cursor=cursor)
            names += [each.name for each in page.entities]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(names) == len(set(names))
        assert set(names) == expected
        assert all(name.startswith("plum") for name in names[:20])


def test_pages_of_names_go_on_where_they_stopped(graph: Graph) -> None:
    """By name, through several ranges."""
    first = graph.search("key:err# key:b*", limit=2)
    assert [each.name for each in first.entities] == ["bob", "err#module not found: foo"]
    second = graph.search("key:err# key:b*", limit=2, cursor=first.next_cursor)
    assert [each.name for each in second.entities] == ["err#timeout"]
    assert second.next_cursor is None


def test_an_exact_name_comes_first_whatever_else_matches(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer ones that hold the name do not hide it."""
    monkeypatch.setattr(graph_search, "BLOCK_DOCS", 5)
    graph.write(
        WriteBatch(entities=tuple(NewEntity(name=f"bob {at}", entity_type="x") for at in range(30)))
    )
    names = found(graph, "bob")
    assert names[0] == "bob"
    assert len(names) == len(set(names)) == 31


def test_an_invalid_cursor_is_rejected(graph: Graph) -> None:
    """It says so, and what to do."""
    for cursor in [
        "",
        "x",
        "!!!",
        "WyJhIl0",
        "bnVsbA",
        "W1tbW1tbW1tbW1tbW1tbW1tbW1tb",
        "9" * 5000,
        "日本",
    ]:
        with pytest.raises(InvalidCursor, match="cursor"):
            graph.search("alice", cursor=cursor)


def test_a_cursor_of_another_query_is_refused(graph: Graph) -> None:
    """A place in one answer means nothing in another."""
    cursor = graph.search("likes", limit=1).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor, match="another query"):
        graph.search("alice", cursor=cursor)


def test_a_query_without_end_is_refused(graph: Graph) -> None:
    """And one of many words is cut, not an error."""
    with pytest.raises(InvalidArgument, match="query"):
        graph.search("x" * 5000)
    assert found(graph, "tea " * 400) == ["Alice Smith"]


def test_an_exact_name_is_found_whatever_it_is_made_of(graph: Graph) -> None:
    """Symbols are no words; the name itself is found all the same, and first."""
    for name in [
        "🚀",
        "???",
        "->",
        "*",
        '"',
        "👩‍👩‍👧 🎉",
        "a  b",
        "C++",
        "type:x y",
        "±∞",
        "日本 🗾",
        "#",
        "% _",
    ]:
        others = (NewEntity(name=f"{name} and more", entity_type="thing"),)
        graph.write(WriteBatch(entities=(NewEntity(name=name, entity_type="thing"), *others)))
        assert found(graph, name)[:1] == [name]
        assert found(graph, f" {name} ")[:1] == [name]
        rows, _ = graph.find(name, limit=1)
        assert [row[1] for row in rows] == [name]
        graph.remove(Removal(entities=(name,)))
        assert name not in found(graph, name)

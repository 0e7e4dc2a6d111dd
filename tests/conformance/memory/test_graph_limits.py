"""Graph limits: invalid, unusual and large input, on both engines."""

from typing import Any

import pytest

from onceward.errors import InvalidArgument, InvalidCursor
from onceward.memory.graph import Graph
from onceward.memory.models import (
    BATCH_ITEMS_MAX,
    NAME_BYTES_MAX,
    OBSERVATION_BYTES_MAX,
    ChangeId,
    NewObservations,
    WriteBatch,
    WriteOrigin,
    WriteStatus,
)
from tests.support.graph_writes import create, entity, link, shown


def test_an_invalid_cursor_is_rejected(graph: Graph) -> None:
    """It says so, and what to do."""
    for cursor in ["", "x", "-1", "\u0661", "9" * 30]:
        with pytest.raises(InvalidCursor, match="cursor"):
            graph.read(cursor=cursor)


def test_a_limit_that_is_none_is_refused(graph: Graph) -> None:
    """It says what a limit is."""
    cases: list[Any] = [0, -1, True, 1.5, "3"]
    for limit in cases:
        with pytest.raises(InvalidArgument, match="limit"):
            graph.read(limit=limit)


def test_what_cannot_be_kept_is_refused_by_its_field(graph: Graph) -> None:
    """Nothing of the batch is written."""
    for batch, field in [
        (WriteBatch(entities=(entity("ok"), entity("  "))), "entities[1].name"),
        (WriteBatch(entities=(entity("a", kind=""),)), "entities[0].entityType"),
        (WriteBatch(entities=(entity("a\0"),)), "entities[0].name"),
        (WriteBatch(entities=(entity("a", "x\0"),)), "entities[0].observations[0]"),
        (WriteBatch(entities=(entity("\ud800"),)), "entities[0].name"),
        (WriteBatch(entities=(entity("a" * (NAME_BYTES_MAX + 1)),)), "entities[0].name"),
        (
            WriteBatch(entities=(entity("a", "x" * (OBSERVATION_BYTES_MAX + 1)),)),
            "entities[0].observations[0]",
        ),
        (WriteBatch(relations=(link("a", "", "b"),)), "relations[0].relationType"),
        (
            WriteBatch(observations=(NewObservations(entity_name="a", contents=("x", "\0")),)),
            "observations[0].contents[1]",
        ),
    ]:
        with pytest.raises(InvalidArgument) as refused:
            graph.write(batch)
        assert refused.value.context["field"] == field
        assert refused.value.fix
        assert graph.read().entities == ()


def test_only_an_observation_is_advised_to_go_into_a_file(graph: Graph) -> None:
    """A name or a type that is too long can only be shortened."""
    for given in (entity("n" * 5_000), entity("a", kind="t" * 5_000)):
        with pytest.raises(InvalidArgument, match="the limit is") as refused:
            create(graph, given)
        assert refused.value.fix == "shorten it"
    with pytest.raises(InvalidArgument, match="the limit is") as refused:
        create(graph, entity("a", "x" * 1_000_000))
    assert "in a file" in refused.value.fix


def test_a_batch_of_too_many_items_is_refused(graph: Graph) -> None:
    """It says how many there may be."""
    with pytest.raises(InvalidArgument, match="the limit is"):
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
    batch = WriteBatch(entities=tuple(entity(f"n{at}", f"fact {at}") for at in range(5000)))
    assert {each.status for each in graph.write(batch).entities} == {WriteStatus.CREATED}
    assert graph.counts().observations == 5000


@pytest.mark.parametrize(
    "origin",
    [
        WriteOrigin(source="a\0"),
        WriteOrigin(source="x" * 501),
        WriteOrigin(run="\ud800"),
        WriteOrigin(run=" "),
    ],
)
def test_an_origin_that_cannot_be_kept_is_refused(graph: Graph, origin: WriteOrigin) -> None:
    """As everything else is, by its field."""
    with pytest.raises(InvalidArgument, match="source|run"):
        graph.write(WriteBatch(entities=(entity("a"),)), origin)


def test_odd_questions_are_answered(graph: Graph) -> None:
    """A NUL, an unpaired surrogate and numbers beyond all stores are no reason to fail."""
    create(graph, entity("a b"))
    assert list(shown(graph.search("a\0b"))) == ["a b"]
    assert graph.search("\ud800").entities == ()
    assert graph.find_by_prefix("\0\ud800") == ()
    for number in (0, -1, 2**63, 10**30):
        with pytest.raises(InvalidArgument, match="change"):
            graph.restore(change=ChangeId(number))

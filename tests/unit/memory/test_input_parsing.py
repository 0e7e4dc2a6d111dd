"""Input parsing: all aliases give the same input, and errors name the field."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.errors import InvalidArgument
from onceward.memory import input_parsing
from onceward.memory.models import Link, NewEntity, NewObservations

ADA = NewEntity(name="Ada", entity_type="person", observations=("writes",))
LINK = Link(from_name="a", to_name="b", relation_type="uses")


@pytest.mark.parametrize(
    "item",
    [
        {"name": "Ada", "entityType": "person", "observations": ["writes"]},
        {"name": "Ada", "type": "person", "observations": ["writes"]},
        {"name": "Ada", "type": "entity", "entityType": "person", "observation": "writes"},
        {"name": "Ada", "entityType": "person", "observation": ["writes"], "colour": "red"},
        {"name": "Ada", "entityType": "person", "contents": ["writes"], "type": None},
        ADA,
    ],
)
def test_an_entity_is_understood_in_any_spelling(item: Any) -> None:
    """`type` stands for `entityType`, unless it names the kind of a line of an export."""
    assert input_parsing.entities([item]) == (ADA,)


@pytest.mark.parametrize(
    "item",
    [
        {"from": "a", "to": "b", "relationType": "uses"},
        {"source": "a", "target": "b", "type": "uses"},
        {"type": "relation", "from": "a", "to": "b", "relationType": "uses"},
        {"from": "a", "source": "a", "to": "b", "relationType": "uses"},
        LINK,
    ],
)
def test_a_relation_is_understood_in_any_spelling(item: Any) -> None:
    """`source` and `target` stand for `from` and `to`; the same said twice is no contradiction."""
    assert input_parsing.links([item]) == (LINK,)


@pytest.mark.parametrize(
    "item",
    [
        {"entityName": "a", "contents": ["x", "y"]},
        {"entityName": "a", "observations": ["x", "y"]},
        {"entityName": "a", "observation": ["x", "y"]},
        {"name": "a", "contents": ["x"], "observation": "y"},
    ],
)
def test_observations_are_understood_in_any_spelling(item: Any) -> None:
    """One text or a list, under any of the words."""
    expected = (NewObservations(entity_name="a", contents=("x", "y")),)
    assert input_parsing.observations([item]) == expected


def test_an_envelope_may_be_an_object() -> None:
    """It is kept as the text that it would have been sent as, keys in their order."""
    item = {"entityName": "a", "observation": {"type": "doc.note", "data": {"b": 1, "a": "ä"}}}
    [group] = input_parsing.observations([item])
    assert group.contents == ('{"type":"doc.note","data":{"b":1,"a":"ä"}}',)


def test_deletions_take_the_texts_under_their_own_name() -> None:
    """`observations` is what the tool calls them."""
    [group] = input_parsing.deletions([{"entityName": "a", "observations": ["x"]}])
    assert group == NewObservations(entity_name="a", contents=("x",))


WRONG: list[tuple[Any, object, str]] = [
    (input_parsing.entities, None, "entities"),
    (input_parsing.entities, {"name": "a"}, "entities"),
    (input_parsing.entities, "a", "entities"),
    (input_parsing.entities, [None], "entities[0]"),
    (input_parsing.entities, [ADA, 5], "entities[1]"),
    (input_parsing.entities, [{}], "entities[0].name"),
    (input_parsing.entities, [{"name": 5, "type": "t"}], "entities[0].name"),
    (input_parsing.entities, [{"name": "a"}], "entities[0].entityType"),
    (input_parsing.entities, [{"name": "a", "type": "entity"}], "entities[0].entityType"),
    (input_parsing.entities, [{"name": "a", "type": 1}], "entities[0].type"),
    (
        input_parsing.entities,
        [{"name": "a", "type": "t", "observations": ["x", 5]}],
        "entities[0].observations[1]",
    ),
    (
        input_parsing.entities,
        [{"name": "a", "type": "t", "observations": 5}],
        "entities[0].observations",
    ),
    (input_parsing.links, [{"from": "a", "to": "b"}], "relations[0].relationType"),
    (
        input_parsing.links,
        [{"from": "a", "to": "b", "type": "relation"}],
        "relations[0].relationType",
    ),
    (input_parsing.links, [{"from": "a", "relationType": "r"}], "relations[0].to"),
    (
        input_parsing.links,
        [{"from": "a", "source": "x", "to": "b", "relationType": "r"}],
        "relations[0].from",
    ),
    (input_parsing.observations, [{"entityName": "a"}], "observations[0].contents"),
    (input_parsing.observations, [{"contents": ["x"]}], "observations[0].entityName"),
    (input_parsing.deletions, [{"entityName": "a"}], "deletions[0].observations"),
    (input_parsing.names, ["a", None], "names[1]"),
    (input_parsing.names, "abc", "names"),
]


@pytest.mark.parametrize(("read", "items", "place"), WRONG)
def test_what_is_wrong_is_named_by_its_place(read: Any, items: object, place: str) -> None:
    """The error says where, what, and what to do."""
    with pytest.raises(InvalidArgument) as caught:
        read(items)
    assert caught.value.context["field"] == place
    assert caught.value.message.startswith(f"{place}: ")
    assert caught.value.fix


def test_an_envelope_that_has_no_json_is_refused_by_its_place() -> None:
    """A number that JSON cannot keep is found inside the object."""
    item = {"entityName": "a", "observation": {"data": {"n": float("nan")}}}
    with pytest.raises(InvalidArgument, match=r"observations\[0\]\.observation\.data\.n"):
        input_parsing.observations([item])


@pytest.mark.parametrize(
    ("read", "item"),
    [
        (input_parsing.entities, {"name": "a", "entityType": "t", "colour": "red"}),
        (input_parsing.links, {"from": "a", "to": "b", "relationType": "r", "weight": 5}),
        (input_parsing.observations, {"entityName": "a", "contents": [], "colour": "red"}),
    ],
)
def test_strict_rejects_unknown_fields(read: Any, item: dict[str, object]) -> None:
    """An open memory ignores them; a strict one names them."""
    assert read([item])
    with pytest.raises(InvalidArgument, match="is not a known field"):
        read([item], is_strict=True)

"""Entity types: valid stable keys, their types, and the relations between types."""

from typing import Any

import pytest

from onceward.errors import InvalidArgument
from onceward.keys import command_key, doc_key, error_key, fix_key, fp8, run_key, warning_key
from onceward.memory.entity_names import RELATIONS, TYPES, check_entity, check_relation, type_of

FP8 = fp8(cmd="pytest -q", cwd="/src", exit_code=1)
#: A right name of each type.
NAMES = {
    "Run": run_key("2026-02-06T12:00:00Z", FP8),
    "Command": command_key("pytest  -q # all", FP8),
    "Error": error_key("KeyError: 'x' in /a/b.py:1:2 at 2026-02-06 12:00:00"),
    "Warning": warning_key("Deprecated since v1.2.3"),
    "Dependency": "dep#numpy@2.0",
    "Fix": fix_key(error_key("KeyError: 'x'"), strategy="pin", changes=[]),
    "Doc": doc_key("https://example.org/a"),
    "Concept": "concept#dictionaries",
    "Mode": "mode#debugger",
    "Tool": "tool#@scope/name@1.0",
    "File": "file#src/a b.py",
}


@pytest.mark.parametrize("entity_type", TYPES)
def test_keys_made_by_the_rules_follow_the_grammar(entity_type: str) -> None:
    """What the stable keys make is a name of its type, and of no other."""
    check_entity(NAMES[entity_type], entity_type, "entities[0]")
    assert type_of(NAMES[entity_type]) == entity_type
    with pytest.raises(InvalidArgument) as caught:
        check_entity(NAMES[entity_type], "Thing", "entities[0]")
    assert caught.value.context["field"] == "entities[0].entityType"
    assert entity_type in caught.value.fix


def test_other_names_are_refused_with_what_to_write() -> None:
    """A name outside the grammar is refused whatever its type, with what is wanted."""
    cases: list[Any] = [
        "",
        "numpy",
        "run",
        "run#",
        "thing#x",
        "Run#2026-02-06T12:00:00Z#12345678",
        "run#2026-02-06T12:00:00Z",
        "run#2026-02-06T12:00:00Z#1234567",
        "run#2026-02-06T12:00:00Z#1234567G",
        "run#2026-02-06#12345678",
        "run#2026-02-06#12:00T#12345678",
        "run#yesterday#12345678",
        "cmd#pytest -q",
        "cmd##12345678",
        "cmd#pytest  -q#12345678",
        "cmd# pytest#12345678",
        f"cmd#{'x' * 121}#12345678",
        "cmd#pytest -q#12345678\n",
        "err#KeyError",
        "err# key error",
        "err#in /home/ada/a.py",
        "err#at 2026-02-06t12:00:00z",
        "err#commit 1a2b3c4d5e",
        "err#numpy 1.2.3",
        "err#warn#deprecated",
        "err#err#boom",
        "err#1a2b3c4d5e",
        f"err#{'x' * 2_000}",
        "warn#err#boom",
        "warn#Deprecated",
        "fix#boom#12345678",
        "fix#err#Boom#12345678",
        "fix#err#boom",
        "fix#dep#numpy#12345678",
        "doc#https://example.org",
        f"doc#{'A' * 64}",
        f"doc#{'a' * 63}",
        "dep#numpy@",
        "mode# ",
        "tool#x@",
        "concept#\n",
        "file#  ",
        "err#\ud800",
        "cmd#\ud800#12345678",
    ]
    for name in cases:
        for entity_type in TYPES:
            with pytest.raises(InvalidArgument) as caught:
                check_entity(name, entity_type, "entities[0]")
            assert caught.value.fix


def test_a_message_that_is_not_normalised_is_answered_with_its_name() -> None:
    """The writer of a raw message gets the name to use."""
    with pytest.raises(InvalidArgument) as caught:
        check_entity("err#KeyError in /a/b.py", "Error", "entities[0]")
    assert "err#keyerror in <path>" in caught.value.fix
    check_entity("err#keyerror in <path>", "Error", "entities[0]")


#: The whole vocabulary of the policy, written out.
SENTENCES = {
    ("Run", "EXECUTES", "Command"),
    ("Command", "EMITS", "Error"),
    ("Command", "EMITS", "Warning"),
    ("Error", "CAUSED_BY", "Dependency"),
    ("Fix", "RESOLVES", "Error"),
    ("Fix", "MITIGATES", "Warning"),
    ("Fix", "DERIVED_FROM", "Doc"),
    ("Doc", "REFERENCES", "Concept"),
    ("Error", "ABOUT", "Concept"),
    ("Run", "PERFORMED_BY", "Mode"),
    ("Run", "USES", "Tool"),
    ("Run", "TOUCHES", "File"),
}


def refusal(from_name: str, relation: str, to_name: str) -> InvalidArgument | None:
    try:
        check_relation(from_name, relation, to_name, "relations[2]")
    except InvalidArgument as exc:
        return exc
    return None


@pytest.mark.parametrize("relation", RELATIONS)
def test_relations_hold_between_these_types_in_this_direction_only(relation: str) -> None:
    """Of all pairs of types, a relation takes those of the policy, and no other."""
    pairs = [(source, target) for source in NAMES for target in NAMES]
    refused = {pair: refusal(NAMES[pair[0]], relation, NAMES[pair[1]]) for pair in pairs}
    for error in filter(None, refused.values()):
        assert error.context["field"] in ("relations[2].from", "relations[2].to")
        assert relation in error.message
        assert error.fix
    taken = {(source, relation, target) for source, target in pairs if not refused[source, target]}
    assert taken == {each for each in SENTENCES if each[1] == relation}


@pytest.mark.parametrize("relation", ["executes", "FIXES", "", "EMITS "])
def test_another_verb_is_answered_with_the_vocabulary(relation: str) -> None:
    """An unknown relation is refused with the known ones."""
    with pytest.raises(InvalidArgument) as caught:
        check_relation(NAMES["Run"], relation, NAMES["Command"], "relations[0]")
    assert caught.value.context["field"] == "relations[0].relationType"
    assert all(each in caught.value.fix for each in RELATIONS)


def test_ends_without_a_prefix_are_refused() -> None:
    """Only names that say their type can be related in strict mode."""
    with pytest.raises(InvalidArgument, match="Run to Command"):
        check_relation("pytest", "EXECUTES", NAMES["Command"], "relations[0]")

"""Validation: policy checks its vocabulary, strict checks everything, lenient nothing."""

import json
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument
from onceward.memory import Memory, Validation
from onceward.system.redaction import Redactor

POLICY, STRICT, LENIENT = Validation
FREE = {"name": "Ada", "entityType": "person", "observations": ["likes tea", '{"a": 1}']}
RIGHT = {"name": "err#boom", "entityType": "Error"}
COMMAND = {"name": "cmd#make#00000000", "entityType": "Command"}


def _envelope(kind: str = "command.exec", **data: object) -> str:
    found = {"type": kind, "ts": "2026-02-06T12:00:00Z", "mode": "", "repo": "", "branch": ""}
    return json.dumps({**found, "data": data or {"cmd": "make", "exitCode": 0}})


#: What is sent with which tool, and the field that each validation refuses; nothing if it accepts.
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("create_entities", FREE, "", "entities[0].name"),
    ("create_entities", RIGHT, "", ""),
    ("create_entities", {**RIGHT, "entityType": "bug"}, "entities[0].entityType", "same"),
    ("create_entities", {**RIGHT, "name": "err#Boom"}, "entities[0].name", "same"),
    ("create_entities", {"name": "My bug", "entityType": "Error"}, "entities[0].name", "same"),
    ("create_entities", {"name": "fix#x", "entityType": "Fix"}, "entities[0].name", "same"),
    ("create_entities", {"name": "My bug", "entityType": "error"}, "", "entities[0].name"),
    ("create_entities", {"name": "odd#x", "entityType": "thing"}, "", "entities[0].name"),
    ("create_relations", {"from": "a", "to": "b", "relationType": "likes"}, "",
     "relations[0].relationType"),
    ("create_relations", {"from": "a", "to": "b", "relationType": "USES"}, "relations[0].from",
     "same"),
    ("create_relations",
     {"from": "cmd#make#00000000", "to": "err#boom", "relationType": "EMITS"}, "", ""),
    ("create_relations",
     {"from": "err#boom", "to": "cmd#make#00000000", "relationType": "EMITS"},
     "relations[0].from", "same"),
    ("add_observations", {"entityName": "a", "contents": ["plain"]}, "",
     "observations[0].contents[0]"),
    ("add_observations", {"entityName": "a", "contents": ['{"type": "note", "data": {}}']}, "",
     "observations[0].contents[0].type"),
    ("add_observations", {"entityName": "a", "contents": [_envelope()]}, "", ""),
    ("add_observations", {"entityName": "a", "contents": [_envelope(cmd="make")]},
     "observations[0].contents[0].data.exitCode", "same"),
    ("add_observations", {"entityName": "a", "contents": ['{"type": "fix.apply"}']},
     "observations[0].contents[0].ts", "same"),
]  # fmt: skip
LISTS = {
    "create_entities": "entities",
    "create_relations": "relations",
    "add_observations": "observations",
}


@pytest.mark.parametrize(("tool", "item", "policy", "strict"), CASES)
def test_each_validation_refuses_what_it_says(
    ow: Onceward, tool: str, item: dict[str, Any], policy: str, strict: str
) -> None:
    """A refusal names the field and the fix, and changes nothing."""
    things = [{"name": each, "entityType": "thing"} for each in ("a", "b")]
    Memory(ow, validation=LENIENT).create_entities([*things, RIGHT, COMMAND])
    wanted = {POLICY: policy, STRICT: policy if strict == "same" else strict, LENIENT: ""}
    for validation, field in wanted.items():
        memory = Memory(ow, validation=validation, redactor=Redactor())
        before = memory.graph.counts()
        if not field:
            continue
        with pytest.raises(InvalidArgument) as caught:
            getattr(memory, tool)([item])
        assert caught.value.context["field"] == field, validation
        assert caught.value.fix
        assert memory.graph.counts() == before
    for validation, field in wanted.items():
        if not field:
            getattr(Memory(ow, validation=validation, redactor=Redactor()), tool)([item])


def test_the_default_is_policy(ow: Onceward) -> None:
    """Also by its name as text; another word is refused with those that there are."""
    assert Memory(ow).graph.validation is POLICY
    assert Memory(ow, validation="strict").graph.is_strict
    with pytest.raises(InvalidArgument, match="validation: 'loose'"):
        Memory(ow, validation="loose")


def test_a_record_keeps_its_entity_when_a_relation_is_refused(ow: Onceward) -> None:
    """Relations are best effort under every validation."""
    for number, validation in enumerate(Validation):
        memory = Memory(ow, validation=validation, redactor=Redactor())
        made = memory.record_error(
            f"boom {'x' * number}", kind="E", detector="human", command="cmd#nothing#00000000"
        )
        assert (made["entity"], made["observation"]) == ("created", "created")
        assert [each["status"] for each in made["relations"]] == ["refused"]

"""MCP tools on both engines: every input gets a result or an error with a fix."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument, OncewardError
from onceward.memory import Memory
from onceward.memory.mcp.tool_schemas import Schema
from onceward.memory.mcp.tools import TOOLS, Effect, available_tools, checked_arguments, find

ROUNDS = 80
REFUSALS = ("INVALID_ARGUMENT", "INVALID_CURSOR", "NOT_CANONICAL", "ENTITY_NOT_FOUND")
#: Values that have broken such servers: no text, half a character, NUL, endless, nested, foreign.
ODD: list[object] = [
    None, True, False, 0, -1, 2**63, 10**40, 1.5, float("inf"), float("nan"), "", " ", "a", "err#a",
    "fix#err#a#00000000", "\0", "\ud83d", "x" * 300_000, "'; drop table memory_entities; --", "%",
    '"', "*", "key:", "type:*", "NEAR(", "https://example.test/", "2026-02-06T12:00:00Z", [], {},
    [[]], [None], ["a"], [{"name": "a", "entityType": "t"}], {"name": "a"}, {"a": {"b": {}}},
]  # fmt: skip

LINK = {"from": "a", "to": "b", "relationType": "x"}
THING = {"name": "a", "entityType": "t"}
FACT = {"entityName": "a", "contents": ["x"]}
#: With an envelope as an object, under the name that the list has.
OTHER_FACT = {"entityName": "a", "observations": ["x", {"type": "command.exec", "data": {}}]}


def run(memory: Memory, name: str, arguments: object, *, is_strict: bool = False) -> dict[str, Any]:
    """Do what the server does with a call."""
    tool = find(name, available_tools())
    plain = checked_arguments(tool, arguments, is_strict=is_strict)
    for place in ("mode", "repo", "branch") if tool.is_record else ():
        plain.pop(place, None)
    return tool.handler(memory, plain).data


def some(schema: Schema, chance: random.Random) -> Any:
    """Return a value that meets a schema, or now and then one that does not."""
    if chance.random() < 0.15:
        return chance.choice(ODD)
    kind = schema.get("type", "object")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if kind == "array":
        return [some(schema["items"], chance) for _ in range(chance.randrange(3))]
    if kind == "object":
        required, known = schema.get("required", []), schema.get("properties", {})
        chosen = [name for name in known if name in required or chance.random() < 0.5]
        return {name: some(known[name], chance) for name in chosen if chance.random() < 0.95}
    return {"string": "abc", "integer": 1, "number": 2.5, "boolean": True}[kind]


def test_whatever_is_sent_is_answered_or_refused(ow: Onceward) -> None:
    """Nothing but our own errors comes out, each with a way out; answers are JSON."""
    for tool in TOOLS:
        memory, chance = Memory(ow), random.Random(tool.name)
        memory.create_entities([{"name": name, "type": "t"} for name in ("a", "b")])
        memory.create_entities([{"name": "err#a", "type": "Error"}])
        for _ in range(ROUNDS):
            arguments = some(tool.input_schema, chance)
            refused: OncewardError | None = None
            try:
                data = run(memory, tool.name, arguments, is_strict=chance.random() < 0.2)
            except OncewardError as exc:
                refused = exc
            else:
                assert json.dumps(data)
            if refused is not None:
                assert refused.code in REFUSALS, arguments
                assert refused.fix, arguments
        assert memory.graph.problems() == []


def test_arguments_may_be_spelled_with_underscores(ow: Onceward) -> None:
    """`exit_code` is `exitCode`; null is as good as nothing; what is unknown is ignored."""
    memory = Memory(ow)
    sent = {"cmd": "make", "exit_code": 1, "duration_ms": 5, "cwd": None, "colour": "red"}
    first = run(memory, "record_command", sent)
    again = run(memory, "record_command", {"command": "make", "exitCode": 1, "durationMs": 5})
    assert (first["entity"], again["entity"]) == ("created", "known")
    assert first["name"] == again["name"]


@pytest.mark.parametrize(
    ("name", "sent", "meant"),
    [
        ("create_relations", {"relations": [LINK], "source": "agent"}, [LINK]),
        ("create_relations", {"relations": [], "source": "agent"}, []),
        ("create_relations", LINK, [LINK]),
        ("create_entities", {"entities": [THING], "name": "x"}, [THING]),
        ("create_entities", THING, [THING]),
        ("add_observations", {"observations": [FACT], "entityName": "x"}, [FACT]),
        ("add_observations", FACT, [FACT]),
        ("add_observations", OTHER_FACT, [OTHER_FACT]),
        ("delete_observations", OTHER_FACT, [OTHER_FACT]),
    ],
)
def test_one_object_is_a_list_of_one_and_a_list_is_a_list(
    name: str, sent: dict[str, Any], meant: list[Any]
) -> None:
    """Whatever else was sent with a list, it is not mistaken for an object of its own."""
    tool = find(name, available_tools())
    assert tool.items is not None
    assert checked_arguments(tool, sent)[tool.items] == meant


def test_a_whole_number_may_come_with_a_point(ow: Onceward) -> None:
    """JSON has one kind of number; one that is not whole, or too large to keep, is refused."""
    memory = Memory(ow)
    first = run(memory, "record_command", {"cmd": "make", "exitCode": 1.0, "durationMs": 5.0})
    again = run(memory, "record_command", {"cmd": "make", "exitCode": 1, "durationMs": 5})
    assert (first["entity"], again["entity"], again["observation"]) == ("created", "known", "known")
    assert len(run(memory, "read_graph", {"limit": 5.0})["entities"]) == 1
    for name, value in (("exitCode", 2**70), ("exitCode", 1.5), ("durationMs", 1e300)):
        with pytest.raises(InvalidArgument, match=f"{name}: ") as caught:
            run(memory, "record_command", {"cmd": "make", "exitCode": 1, name: value})
        assert caught.value.context["field"] == name


def test_a_fix_says_which_time_it_is_applied(ow: Onceward) -> None:
    """The first time needs no number; another number is another fact of the same fix."""
    memory = Memory(ow)
    run(memory, "record_error", {"message": "boom", "kind": "k", "detector": "d"})
    sent = {"issue": "boom", "strategy": "again"}
    reported = [
        run(memory, "record_fix", {**sent, **more})
        for more in ({}, {"attempt": 1}, {"attempt": 2.0}, {"attempt": 2})
    ]
    assert [each["observation"] for each in reported] == ["created", "known", "created", "known"]
    assert len({each["name"] for each in reported}) == 1
    with pytest.raises(InvalidArgument, match="attempt: "):
        run(memory, "record_fix", {**sent, "attempt": 0})


def test_strict_rejects_unknown_arguments(ow: Onceward) -> None:
    """An argument that a tool does not have is named, with those that it has."""
    with pytest.raises(InvalidArgument, match="colour: is not an argument of recall"):
        run(Memory(ow), "recall", {"text": "a", "colour": "red"}, is_strict=True)


def test_offers_can_be_narrowed() -> None:
    """Read-only leaves the reads, and without deletion everything else."""
    assert {each.effect for each in available_tools(is_read_only=True).values()} == {Effect.READ}
    assert Effect.DELETE not in {each.effect for each in available_tools(may_delete=False).values()}
    assert len(available_tools()) == len(TOOLS)


@pytest.mark.parametrize(
    ("wrong", "near"), [("create_entity", "create_entities"), ("xyz", "one of")]
)
def test_an_unknown_tool_is_refused_with_one_that_exists(wrong: str, near: str) -> None:
    """The nearest name is proposed, else all of them."""
    with pytest.raises(InvalidArgument) as caught:
        find(wrong, available_tools())
    assert f"call {near}" in caught.value.fix


#: For each argument that a record can have, a value that means something.
EXAMPLES: dict[str, object] = {
    "startedAt": "2026-02-06T12:00:00Z", "ts": "2026-02-06T12:00:00Z", "cmd": "make", "exitCode": 2,
    "summary": "s", "success": True, "durationMs": 5, "cwd": "/w", "stdoutHead": "o",
    "stderrHead": "e", "keyEvents": ["k", {"at": 1}], "tools": ["make@4"], "files": ["a.py"],
    "mode": "m@1", "repo": "me/shop", "branch": "main", "message": "boom", "kind": "E",
    "detector": "human", "isWarning": False, "context": {"line": 1}, "dependency": "numpy@2",
    "concepts": ["c"], "issue": "boom", "strategy": "s", "changes": ["c"], "result": "proposed",
    "docs": ["https://a.test/"], "attempt": 2, "status": "failed", "verificationMethod": "make",
    "durationToVerify": 5, "sideEffects": ["s"], "url": "https://a.test/", "title": "t",
    "site": "s", "author": "a", "publishedAt": "2026-01-01", "accessedAt": "2026-01-02",
    "archiveUrl": "https://b.test/", "excerpt": "x",
}  # fmt: skip


@pytest.mark.parametrize("is_strict", [False, True])
def test_no_argument_of_a_schema_is_always_refused(ow: Onceward, *, is_strict: bool) -> None:
    """Each that a tool offers is taken, alone and with all the others."""
    memory = Memory(ow, validation="strict" if is_strict else "policy")
    given = dict(EXAMPLES)
    for tool in (each for each in TOOLS if each.is_record):
        known, needed = tool.input_schema["properties"], tool.input_schema["required"]
        optional = [name for name in known if name not in needed]
        for more in ([], *([each] for each in optional), optional):
            sent = {name: given[name] for name in (*needed, *more)}
            made = run(memory, tool.name, sent, is_strict=is_strict)
            refused = [each for each in made["relations"] if each["status"] == "refused"]
            assert refused == [], (tool.name, more)
        names = {"record_run": "run", "record_command": "command", "record_fix": "fix"}
        if tool.name in names:
            given[names[tool.name]] = made["name"]


def test_a_page_of_the_graph_is_small_and_the_first_says_how_much_there_is(ow: Onceward) -> None:
    """By default 100 entities or 64 KiB; over all pages each entity and relation is there once."""
    memory = Memory(ow)
    names = [f"n{number}" for number in range(150)]
    memory.create_entities([{**THING, "name": each, "observations": ["o"]} for each in names])
    links = [{**LINK, "from": each, "to": "n0"} for each in names[1:]]
    memory.create_relations(links)
    first = run(memory, "read_graph", {})
    assert first["counts"] == {"entities": 150, "observations": 150, "relations": 149}
    assert len(first["entities"]) == 100
    rest = run(memory, "read_graph", {"cursor": first["nextCursor"]})
    assert "counts" not in rest
    assert [each["name"] for each in first["entities"] + rest["entities"]] == names
    assert sorted(each["from"] for each in first["relations"] + rest["relations"]) == sorted(
        names[1:]
    )
    assert len(run(memory, "read_graph", {"limit": 150})["entities"]) == 150
    memory.add_observations([{"entityName": "n0", "contents": ["x" * 60_000]}])
    memory.add_observations([{"entityName": "n1", "contents": ["x" * 60_000]}])
    assert [each["name"] for each in run(memory, "read_graph", {})["entities"]] == ["n0"]

"""The memory server over stdio, called with the official Python MCP client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_clients import (
    NINE,
    POLICY_TOOLS,
    READS,
    client,
    data,
    entity,
    refusal,
    relation,
    said,
)

ERAS = ["legacy", "auto"]


@pytest.mark.parametrize("mode", ERAS)
def test_nine_tools_answer_in_the_shapes_that_clients_know(
    tmp_path: Path, ow_url: str, mode: str
) -> None:
    """The official client drives all nine, on both engines, in the older and the newer protocol."""

    async def main() -> None:
        async with client(tmp_path, "--store", ow_url, mode=mode) as memory:
            ada, engine = entity("Ada", "writes programs"), entity("Engine", kind="machine")
            made = await data(memory, "create_entities", entities=[ada, engine])
            assert made == {"entities": [ada, engine]}
            link = relation("Ada", "Engine", "programs")
            assert await data(memory, "create_relations", relations=[link]) == {"relations": [link]}
            added = await data(
                memory,
                "add_observations",
                observations=[
                    {"entityName": "Ada", "contents": ["writes programs", "is a countess"]}
                ],
            )
            assert added["results"] == [
                {"entityName": "Ada", "addedObservations": ["is a countess"]}
            ]
            ada["observations"].append("is a countess")
            whole = {"entities": [ada, engine], "relations": [link]}
            assert await data(memory, "read_graph") == whole
            assert await data(memory, "search_nodes", query="countess") == {
                "entities": [ada],
                "relations": [link],
            }
            opened = await data(memory, "open_nodes", names=["Engine", "unknown"])
            assert opened == {"entities": [engine], "relations": [link]}
            gone = {"entityName": "Ada", "observations": ["is a countess"]}
            assert (await data(memory, "delete_observations", deletions=[gone]))["success"]
            assert (await data(memory, "delete_relations", relations=[link]))["success"]
            assert (await data(memory, "delete_entities", entityNames=["Engine"]))["success"]
            ada["observations"].pop()
            assert await data(memory, "read_graph") == {"entities": [ada], "relations": []}

    asyncio.run(main())


def test_every_tool_declares_its_effects_correctly(tmp_path: Path) -> None:
    """Reads are marked as reads, deletions as such, and everything as safe to repeat."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            tools = (await memory.list_tools()).tools
            assert [each.name for each in tools] == NINE + POLICY_TOOLS
            for each in tools:
                hints = each.annotations
                assert hints is not None
                assert hints.read_only_hint is (each.name in READS)
                assert hints.destructive_hint is each.name.startswith("delete_")
                assert hints.idempotent_hint is True
                assert hints.open_world_hint is False
                assert each.description
                assert each.output_schema is not None

    asyncio.run(main())


def test_repeating_any_write_changes_nothing(tmp_path: Path) -> None:
    """The second time every write answers that nothing is new, and the graph stays as it is."""
    writes: list[tuple[str, dict[str, Any]]] = [
        ("create_entities", {"entities": [entity("a", "one"), entity("b")]}),
        ("create_relations", {"relations": [relation("a", "b")]}),
        ("add_observations", {"observations": [{"entityName": "b", "contents": ["two"]}]}),
        (
            "record_error",
            {"message": "TypeError: no", "kind": "TypeError", "detector": "pytest"},
        ),
        ("record_fix", {"issue": "TypeError: no", "strategy": "say yes", "changes": ["a.py"]}),
        ("record_doc", {"url": "https://example.test/yes", "title": "Yes"}),
    ]

    async def main() -> None:
        async with client(tmp_path) as memory:
            for tool, arguments in writes:
                await data(memory, tool, **arguments)
            before = await data(memory, "read_graph")
            for tool, arguments in writes:
                again = await data(memory, tool, **arguments)
                if tool.startswith("record_"):
                    assert (again["entity"], again["observation"]) == ("known", "known")
                elif tool == "add_observations":
                    assert again["results"][0]["addedObservations"] == []
                else:
                    assert again[tool.removeprefix("create_")] == []
            assert await data(memory, "read_graph") == before

    asyncio.run(main())


def test_known_entities_keep_their_type_and_get_the_new_facts(tmp_path: Path) -> None:
    """The answer says which names existed, with the type that they keep, in data and in words."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            await data(memory, "create_entities", entities=[entity("a", "one", kind="person")])
            sent = {"entities": [entity("a", "one", "two", kind="robot")]}
            result = await memory.call_tool("create_entities", sent)
            known = [{"name": "a", "entityType": "person", "addedObservations": ["two"]}]
            assert result.structured_content == {"entities": [], "known": known}
            assert said(result) == "[]"
            assert "Already known" in str(result.content[1])

    asyncio.run(main())


def test_other_spellings_are_understood(tmp_path: Path) -> None:
    """`type`, `source`, `target`, `observation`, one object alone and an envelope as an object."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            await data(memory, "create_entities", entities=[{"name": "a", "type": "thing"}])
            await data(memory, "create_entities", name="b", type="thing", observation="first")
            await data(memory, "create_relations", source="a", target="b", type="uses")
            noted = {"type": "note", "data": {"url": "https://example.test/"}}
            await data(memory, "add_observations", entityName="a", observation=noted)
            graph = await data(memory, "read_graph")
            assert graph["relations"] == [relation("a", "b")]
            assert graph["entities"] == [
                entity("a", '{"type":"note","data":{"url":"https://example.test/"}}'),
                entity("b", "first"),
            ]

    asyncio.run(main())


def test_policy_tools_lead_from_an_error_to_the_fix_that_worked(tmp_path: Path) -> None:
    """A run, its command, the error it emitted, a fix, its outcome; recall then names the fix."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            where = {"repo": "owner/name", "branch": "main", "mode": "debugger@1"}
            run = await data(
                memory,
                "record_run",
                startedAt="2026-02-06T12:00:00Z",
                cmd="make test",
                exitCode=1,
                summary="The tests failed.",
                success=False,
                durationMs=1200,
                tools=["pytest@9"],
                files=["src/app.py"],
                **where,
            )
            assert {each["name"] for each in run["related"]} >= {"tool#pytest@9", "file#src/app.py"}
            command = await data(
                memory, "record_command", cmd="pytest -q", exitCode=1, run=run["name"], **where
            )
            assert command["relations"][0]["status"] == "created"
            message = "ValueError: port 8080 is taken by /tmp/x/9f2c1ab0"
            error = await data(
                memory,
                "record_error",
                message=message,
                kind="ValueError",
                detector="pytest",
                command=command["name"],
                **where,
            )
            fix = await data(
                memory,
                "record_fix",
                issue=error["name"],
                strategy="Ask the system for a free port",
                changes=["src/app.py"],
                docs=["https://example.test/ports"],
                **where,
            )
            outcome = await data(
                memory,
                "record_outcome",
                fix=fix["name"],
                status="verified_successful",
                verificationMethod="pytest -q",
                durationToVerify=900,
                **where,
            )
            assert outcome["observation"] == "created"
            doc = await data(memory, "record_doc", url="https://example.test/ports", title="Ports")
            assert doc["name"].startswith("doc#")
            recalled = await data(memory, "recall", text=message.replace("9f2c1ab0", "77aa00ff"))
            assert recalled["fixes"][0]["name"] == fix["name"]
            assert "Ask the system for a free port" in recalled["text"]
            explained = await data(memory, "explain", name=error["name"])
            assert "mcp:test client" in str(explained)
            assert run["name"] in str(explained)

    asyncio.run(main())


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("create_entities", {}, "entities: is missing"),
    ("create_entities", {"entities": "a"}, "entities: is a string"),
    ("create_entities", {"entities": [entity("a"), {"name": "b"}]}, "entities[1].entityType"),
    ("create_entities", {"entities": [{"name": 5, "entityType": "t"}]}, "entities[0].name"),
    ("create_entities", {"entities": [entity("")]}, "entities[0].name"),
    ("create_relations", {"relations": [{"from": "a", "to": "b"}]}, "relations[0].relationType"),
    ("create_relations", {"relations": [relation("a", "ghost")]}, "'ghost'"),
    ("add_observations", {"observations": [{"entityName": "a"}]}, "observations[0].contents"),
    (
        "add_observations",
        {"observations": [{"entityName": "ghost", "contents": ["x"]}]},
        "'ghost'",
    ),
    ("delete_entities", {"entityNames": [1]}, "entityNames[0]"),
    ("delete_observations", {"deletions": [{"entityName": "a"}]}, "deletions[0].observations"),
    ("read_graph", {"limit": 0}, "limit"),
    ("read_graph", {"cursor": "nonsense"}, "cursor"),
    ("search_nodes", {}, "query"),
    ("search_nodes", {"query": ["a"]}, "query"),
    ("open_nodes", {"names": "a"}, "names"),
    ("record_error", {"message": "x"}, "kind"),
    ("record_run", {"startedAt": "yesterday"}, "is a required property"),
    ("record_outcome", {"fix": "fix#nothing"}, "status"),
    ("recall", {"text": 5}, "text"),
    ("explain", {"name": "ghost"}, "'ghost'"),
    ("forget_everything", {}, "no tool 'forget_everything'"),
    ("create_entity", {}, "call create_entities"),
]


def test_bad_arguments_are_refused_with_the_place_and_the_way_out(tmp_path: Path) -> None:
    """Each refusal is an answer that names the field and says what to do; nothing is written."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            await data(memory, "create_entities", entities=[entity("a")])
            before = await data(memory, "read_graph")
            for tool, arguments, expected in REFUSALS:
                reported = await refusal(memory, tool, **arguments)
                assert expected in reported, (tool, arguments, reported)
                assert "\nfix: " in reported, reported
            assert await data(memory, "read_graph") == before

    asyncio.run(main())


def test_a_refusal_carries_its_code(tmp_path: Path) -> None:
    """Programs find code, message and field beside the text; the output schema is not broken."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            sent = {"relations": [relation("a", "b")]}
            result = await memory.call_tool("create_relations", sent)
            assert result.meta is not None
            error = result.meta["onceward/error"]
            assert error["code"] == "ENTITY_NOT_FOUND"
            assert error["context"]["names"] == ["a", "b"]
            assert result.structured_content is None

    asyncio.run(main())


def test_a_batch_with_one_bad_part_writes_nothing(tmp_path: Path) -> None:
    """All or nothing: the good entity of a refused batch is not there."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            await refusal(memory, "create_entities", entities=[entity("good"), entity("")])
            assert (await data(memory, "read_graph"))["entities"] == []

    asyncio.run(main())

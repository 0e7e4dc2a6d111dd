"""The memory server besides tools: resources, notifications, restricted tools and pages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_types import ResourceUpdatedNotification, TextResourceContents

from onceward.memory import Memory
from tests.support.mcp_clients import (
    GRAPH,
    NINE,
    POLICY_TOOLS,
    READS,
    client,
    data,
    entity,
    refusal,
    relation,
    store_in,
)


def test_resources_hold_the_graph_and_the_policy(tmp_path: Path) -> None:
    """Both are listed and can be read; the policy is also what the server says at the start."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            await data(memory, "create_entities", entities=[entity("a", "one")])
            listed = {str(each.uri) for each in (await memory.list_resources()).resources}
            assert listed == {GRAPH, "memory://policy"}
            [graph] = (await memory.read_resource(GRAPH)).contents
            assert isinstance(graph, TextResourceContents)
            assert graph.mime_type == "application/json"
            assert '"name": "a"' in graph.text
            [policy] = (await memory.read_resource("memory://policy")).contents
            assert isinstance(policy, TextResourceContents)
            assert policy.text == memory.instructions
            assert "record_error" in policy.text
            with pytest.raises(MCPError, match="unknown resource"):
                await memory.read_resource("memory://nothing")

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
def test_subscribers_hear_of_writes_that_change_something(tmp_path: Path) -> None:
    """A repeated write and an unsubscribed client are not worth a word."""
    messages: list[Any] = []

    def heard() -> int:
        return sum(isinstance(each, ResourceUpdatedNotification) for each in messages)

    async def main() -> None:
        async with client(tmp_path, mode="legacy", messages=messages) as memory:
            await data(memory, "create_entities", entities=[entity("a")])
            await memory.subscribe_resource(GRAPH)
            assert heard() == 0
            await data(memory, "create_entities", entities=[entity("b")])
            await data(memory, "create_entities", entities=[entity("b")])
            await data(memory, "delete_entities", entityNames=["unknown"])
            await data(memory, "read_graph")
            assert heard() == 1
            await data(memory, "delete_entities", entityNames=["b"])
            assert heard() == 2
            await memory.unsubscribe_resource(GRAPH)
            await data(memory, "create_entities", entities=[entity("c")])
            await data(memory, "read_graph")
            assert heard() == 2

    asyncio.run(main())


def test_listeners_of_the_newer_protocol_hear_of_changes(tmp_path: Path) -> None:
    """A listening stream gets an event for a write that changed something."""

    async def main() -> None:
        async with (
            client(tmp_path) as memory,
            memory.listen(resource_subscriptions=[GRAPH]) as events,
        ):
            await data(memory, "create_entities", entities=[entity("a")])
            with anyio.fail_after(20):
                event = await anext(aiter(events))
            assert str(getattr(event, "uri", "")) == GRAPH

    asyncio.run(main())


def test_read_only_offers_no_tool_that_changes_anything(tmp_path: Path) -> None:
    """With --read-only writes are neither listed nor callable; with --no-delete no deletion is."""

    async def main() -> None:
        async with client(tmp_path, "--read-only") as memory:
            assert {each.name for each in (await memory.list_tools()).tools} == READS
            error = await refusal(memory, "create_entities", entities=[entity("a")])
            assert "no tool 'create_entities'" in error
            assert await data(memory, "read_graph") == {"entities": [], "relations": []}
        async with client(tmp_path, "--no-delete") as memory:
            names = {each.name for each in (await memory.list_tools()).tools}
            assert names == {*NINE, *POLICY_TOOLS} - {
                each for each in NINE if each.startswith("delete_")
            }
            await data(memory, "create_entities", entities=[entity("a")])

    asyncio.run(main())


def test_strict_takes_nothing_but_the_policy_s_words(tmp_path: Path) -> None:
    """Names, relations and fields that the policy does not know are refused, by their place."""

    async def main() -> None:
        async with client(tmp_path, "--strict") as memory:
            error = await refusal(memory, "create_entities", entities=[entity("anything")])
            assert error.startswith("entities[0].name")
            sent = {**entity("concept#ports", kind="Concept"), "colour": "red"}
            error = await refusal(memory, "create_entities", entities=[sent])
            assert error.startswith("entities[0].colour")
            error = await refusal(memory, "read_graph", colour="red")
            assert error.startswith("colour")
            made = [entity("concept#ports", kind="Concept"), entity("file#a", kind="File")]
            await data(memory, "create_entities", entities=made)
            link = relation("concept#ports", "file#a", "LIKES")
            error = await refusal(memory, "create_relations", relations=[link])
            assert error.startswith("relations[0].relationType")

    asyncio.run(main())


def test_a_large_graph_comes_in_pages_that_fit(tmp_path: Path) -> None:
    """Eight megabytes of facts are read in pages of less than half, and nothing is left out."""
    names = [f"e{number:02}" for number in range(40)]
    with Memory.open(store_in(tmp_path)) as memory:
        memory.create_entities([entity(name, name * 70_000) for name in names])
        memory.create_relations([relation(name, "e00") for name in names])

    async def main() -> None:
        async with client(tmp_path) as memory:
            seen: list[str] = []
            cursor: dict[str, str] = {}
            links = pages = 0
            while True:
                page = await data(memory, "read_graph", **cursor)
                assert len(str(page)) < 4.5 * 1024 * 1024
                seen += [each["name"] for each in page["entities"]]
                links += len(page["relations"])
                pages += 1
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert (seen, links) == (names, len(names))
            assert pages >= 2
            opened = await data(memory, "open_nodes", names=names)
            assert [each["name"] for each in opened["entities"]] == names
            assert opened["isCut"] is True
            assert len(str(opened)) < 4.5 * 1024 * 1024

    asyncio.run(main())


def test_many_calls_at_once_are_all_answered_and_all_kept(tmp_path: Path) -> None:
    """A hundred creates from one client, none of which waits for another."""

    async def main() -> None:
        async with client(tmp_path) as memory:
            names = [f"e{number}" for number in range(100)]
            made = await asyncio.gather(
                *(data(memory, "create_entities", entities=[entity(name)]) for name in names)
            )
            assert [each["entities"][0]["name"] for each in made] == names
            graph = await data(memory, "read_graph")
            assert {each["name"] for each in graph["entities"]} == set(names)

    asyncio.run(main())

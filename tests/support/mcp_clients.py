"""MCP clients for tests of the memory server: the Python SDK, raw pipes, and an HTTP server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.session import IncomingMessage
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Implementation, TextContent

COMMAND = [sys.executable, "-m", "onceward", "memory", "serve"]
GRAPH = "memory://knowledge-graph"
TOKEN = "a-token-that-only-tests-know"
STOP_SECONDS_MAX = 120
NINE = [
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "read_graph",
    "search_nodes",
    "open_nodes",
]
POLICY_TOOLS = [
    "record_run",
    "record_command",
    "record_error",
    "record_fix",
    "record_outcome",
    "record_doc",
    "recall",
    "explain",
]
READS = {"read_graph", "search_nodes", "open_nodes", "recall", "explain"}


def store_in(directory: Path) -> str:
    return f"sqlite:///{directory / 'memory.db'}"


@contextlib.asynccontextmanager
async def client(
    directory: Path, *options: str, mode: str = "auto", messages: list[Any] | None = None
) -> AsyncIterator[Client]:
    """Connect the official client to a server of its own, on a store in this directory."""

    async def keep(message: IncomingMessage) -> None:
        if messages is not None:
            messages.append(message)

    words = [*COMMAND[1:], "--store", store_in(directory), *options]
    server = StdioServerParameters(command=COMMAND[0], args=words, env=dict(os.environ))
    with (directory / "stderr.txt").open("a") as stderr:
        connected = Client(
            stdio_client(server, errlog=stderr),
            mode=mode,
            message_handler=keep,
            client_info=Implementation(name="test client", version="1"),
            read_timeout_seconds=60,
        )
        async with connected:
            yield connected


async def data(connected: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; return its structured answer."""
    result = await connected.call_tool(tool, arguments)
    assert not result.is_error, said(result)
    found: dict[str, Any] = result.structured_content
    return found


async def refusal(connected: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must refuse; return what it said."""
    result = await connected.call_tool(tool, arguments)
    assert result.is_error, result
    return said(result)


def said(result: CallToolResult) -> str:
    [first, *_] = result.content
    assert isinstance(first, TextContent)
    return first.text


def entity(name: str, *observations: str, kind: str = "thing") -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(start: str, end: str, kind: str = "uses") -> dict[str, Any]:
    return {"from": start, "to": end, "relationType": kind}


class Pipe:
    """A server on bare pipes, for what no SDK would send."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--store", store_in(directory), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._number = 0

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> int:
        """Send a request and do not wait for its answer."""
        self._number += 1
        line = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.raw(json.dumps(line).encode() + b"\n")
        return self._number

    def call(self, tool: str, **arguments: Any) -> int:
        return self.request("tools/call", name=tool, arguments=arguments)

    def open(self) -> None:
        """Shake hands."""
        version, info = "2025-06-18", {"name": "pipe", "version": "1"}
        self.request("initialize", protocolVersion=version, capabilities={}, clientInfo=info)
        self.raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        assert self.answer()["result"]["serverInfo"]["name"] == "onceward-memory"

    def answer(self) -> dict[str, Any]:
        """Return the next line; every line must be a message."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert found["jsonrpc"] == "2.0"
        return found

    def end(self, how: signal.Signals | None = None) -> tuple[int, list[dict[str, Any]], str]:
        """Close stdin, or send a signal; return exit code, what was still answered, and stderr."""
        if how is not None:
            self.process.send_signal(how)
            self.process.wait(STOP_SECONDS_MAX)
        out, err = self.process.communicate(timeout=STOP_SECONDS_MAX)
        answers = [json.loads(line) for line in out.splitlines()]
        return self.process.returncode, answers, err.decode()


@contextlib.contextmanager
def pipe(directory: Path, *options: str) -> Iterator[Pipe]:
    made = Pipe(directory, *options)
    with made.process:
        try:
            yield made
        finally:
            made.process.kill()


@contextlib.contextmanager
def http_server(
    directory: Path, *options: str, token: str = TOKEN
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server at an address; give its address and its process."""
    words = [*COMMAND, "--http", "--port", "0", "--json", "--no-open"]
    with subprocess.Popen(
        [*words, "--store", store_in(directory), *options],
        env={**os.environ, "ONCEWARD_MEMORY_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready["sessionId"].startswith("mem_")
            assert ready["mcpUrl"] == f"{ready['url']}/mcp"
            yield ready["url"], process
        finally:
            process.kill()

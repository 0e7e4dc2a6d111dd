"""The memory beside the reference server: one client, the same calls, at growing sizes.

The client itself costs about a millisecond a call, whoever answers; so at small sizes it is most of
what is seen.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.table import Row

SIZES_BOTH, SIZE_ALONE = (1_000, 10_000, 100_000), 1_000_000
CALLS = 30
REFERENCE = Path("tests/npm/node_modules/@modelcontextprotocol/server-memory/dist/index.js")
NOWHERE = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives
Call = tuple[str, dict[str, Any]]


def lines(size: int) -> Iterator[str]:
    """Yield a graph in the form that both servers read."""
    for at in range(size):
        observation = f"fact {at} about {word(at)}"
        made = {"type": "entity", "name": f"entity {at}", "entityType": "thing"}
        yield json.dumps({**made, "observations": [observation]})
    for at in range(0, size, 10):
        ends = {"from": f"entity {at}", "to": f"entity {(at * 31 + 7) % size}"}
        yield json.dumps({"type": "relation", **ends, "relationType": "knows"})


def word(at: int) -> str:
    """Return a word that one entity has, and that is the beginning of no other."""
    return f"word{at:07}"


def reference(file: Path) -> StdioServerParameters:
    environment = {**os.environ, "MEMORY_FILE_PATH": str(file)}
    return StdioServerParameters(command="node", args=[str(REFERENCE)], env=environment)


def ours(store: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "onceward", "memory", "serve", "--store", store],
        env=dict(os.environ),
    )


@asynccontextmanager
async def connected(server: StdioServerParameters) -> AsyncIterator[Client]:
    async with Client(stdio_client(server, errlog=NOWHERE)) as client:
        yield client


async def milliseconds(server: StdioServerParameters, size: int, tag: str) -> dict[str, float]:
    """Return the median time of an add, an open and a search."""
    async with connected(server) as client:

        async def median(work: Callable[[int], Call]) -> float:
            times = []
            for at in range(CALLS):
                tool, arguments = work(at)
                began = time.perf_counter()
                answer = await client.call_tool(tool, arguments)
                times.append((time.perf_counter() - began) * 1000)
                assert not answer.is_error, answer
            return statistics.median(times)

        def add(at: int) -> Call:
            made = {"name": f"new {tag} {at}", "entityType": "thing", "observations": ["hello"]}
            return "create_entities", {"entities": [made]}

        def look(at: int) -> Call:
            return "open_nodes", {"names": [f"entity {at * 997 % size}"]}

        def search(at: int) -> Call:
            return "search_nodes", {"query": word(at * 997 % size)}

        await median(look)
        return {
            "add": await median(add),
            "open": await median(look),
            "search": await median(search),
        }


def rows() -> list[Row]:
    if not REFERENCE.exists():
        print("the reference server is missing; fix: make test installs it", file=sys.stderr)
        return []
    found: dict[int, dict[str, float]] = {}
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        for size in (*SIZES_BOTH, SIZE_ALONE):
            file = Path(directory) / f"{size}.jsonl"
            with file.open("w") as out:
                out.writelines(f"{line}\n" for line in lines(size))
            store = f"sqlite:///{directory}/{size}.db"
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "onceward", "memory", "import", str(file), "--store", store],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            took = time.perf_counter() - began
            print(f"  {size} entities imported in {took:.1f} s", file=sys.stderr, flush=True)
            found[size] = asyncio.run(milliseconds(ours(store), size, "ours"))
            if size in SIZES_BOTH:
                theirs = asyncio.run(milliseconds(reference(file), size, "theirs"))
                table += [compared(work, size, found[size], theirs) for work in theirs]
    for work in ("add", "open", "search"):
        few, many = found[SIZES_BOTH[0]][work], found[SIZE_ALONE][work]
        table.append(
            Row(
                work=f"memory: {work} with {SIZE_ALONE:,} entities, beside {SIZES_BOTH[0]:,}",
                ours=f"{many:.2f} ms",
                peer=f"{few:.2f} ms, ours",
                ratio=many / few,
                goal=1.5,
                better="below",
            )
        )
    return table


GOALS = {
    ("add", 10_000): 15.0,
    ("open", 10_000): 6.0,
    ("search", 10_000): 6.0,
    ("add", 100_000): 100.0,
    ("open", 100_000): 100.0,
    ("search", 100_000): 100.0,
}


def compared(work: str, size: int, mine: dict[str, float], theirs: dict[str, float]) -> Row:
    return Row(
        work=f"memory: {work} with {size:,} entities",
        ours=f"{mine[work]:.2f} ms",
        peer=f"{theirs[work]:.2f} ms, @modelcontextprotocol/server-memory",
        ratio=theirs[work] / mine[work],
        goal=GOALS.get((work, size), 1.0),
    )

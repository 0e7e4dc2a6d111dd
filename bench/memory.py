"""Measure the memory server beside the MCP reference server, with the same calls.

The client itself costs about a millisecond a call with any server; so at small sizes it is most of
what is seen. A server that answers at once, through the same client, is the limit.
"""

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.peer import ROOT
from bench.table import Beside, Row, growth, limit
from bench.timing import Round, Run, Seconds, spread, turns
from bench.units import milli, times

WORKS = ("add", "open", "search")
#: How many times as fast as the reference server, by size.
GOALS = {
    1_000: {"add": 1.0, "open": 1.0, "search": 1.0},
    10_000: {"add": 15.0, "open": 6.0, "search": 6.0},
    100_000: {"add": 100.0, "open": 100.0, "search": 100.0},
}
PACKAGE = ROOT / "tests" / "npm" / "node_modules" / "@modelcontextprotocol" / "server-memory"
NODE = shutil.which("node", path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")
NOWHERE = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives


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


class Server:
    """One server of so many entities, and a client of it."""

    def __init__(self, portal: BlockingPortal, client: Client, size: int) -> None:
        self._portal = portal
        self._client = client
        self._size = size
        self._number = 0

    def round(self, work: str, calls: int) -> Round:
        """Return rounds of one kind of call: the median time of so many."""
        works: dict[str, Callable[[int], Awaitable[Any]]] = {
            "add": self._add,
            "open": self._open,
            "search": self._search,
        }
        return lambda: self._portal.call(self._median, works[work], calls)

    async def _median(self, work: Callable[[int], Awaitable[Any]], calls: int) -> float:
        times = []
        for _ in range(calls):
            self._number += 1
            began = time.perf_counter()
            await work(self._number)
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    async def _add(self, number: int) -> None:
        made = {"name": f"new {number}", "entityType": "thing", "observations": ["hello"]}
        await self._call("create_entities", {"entities": [made]})

    async def _open(self, number: int) -> None:
        await self._call("open_nodes", {"names": [f"entity {number * 997 % self._size}"]})

    async def _search(self, number: int) -> None:
        await self._call("search_nodes", {"query": word(number * 997 % self._size)})

    async def _call(self, tool: str, arguments: dict[str, Any]) -> None:
        answer = await self._client.call_tool(tool, arguments)
        assert not answer.is_error, answer


@contextmanager
def served(command: list[str], size: int, **named: str) -> Iterator[Server]:
    """Start a server, and connect to it."""
    started = StdioServerParameters(
        command=command[0], args=command[1:], env={**os.environ, **named}
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(started, errlog=NOWHERE))) as client,
    ):
        server = Server(portal, client, size)
        server.round("open", 5)()  # Warms up the server.
        yield server


@contextmanager
def ours(directory: Path, size: int) -> Iterator[Server]:
    """Serve a graph of so many entities, imported from a file that the other side reads, too."""
    file, store = directory / f"{size}.jsonl", f"sqlite:///{directory}/{size}.db"
    with file.open("w") as out:
        out.writelines(f"{line}\n" for line in lines(size))
    onceward = [sys.executable, "-m", "onceward", "memory"]
    command = [*onceward, "import", str(file), "--store", store]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - began
    print(f"  {size:,} entities imported in {took:.1f} s", file=sys.stderr, flush=True)
    with served([*onceward, "serve", "--store", store], size) as server:
        yield server


def missing() -> str:
    """Say what the reference server needs and is not there."""
    if NODE is None:
        return "no Node.js for the reference server"
    if not (PACKAGE / "package.json").exists():
        return "the reference server is not installed; fix: npm ci in tests/npm"
    return ""


def reference(seconds: Seconds, goal: float, bare: Seconds) -> Beside:
    absent = missing()
    most = 0.0 if absent else spread(seconds).median / spread(bare).median
    version = "" if absent else json.loads((PACKAGE / "package.json").read_text())["version"]
    return Beside(
        kind="peer",
        name=f"server-memory {version}".strip(),
        seconds=() if absent else seconds,
        goal=goal,
        why=f"A server that does nothing at all would be {times(most)} times as fast.",
        missing=absent,
    )


def beside_reference(run: Run, directory: Path, mine: Server, size: int) -> list[Row]:
    calls = run.size(5 if size >= 100_000 else 20, quick=3)
    with ExitStack() as stack:
        bare = stack.enter_context(served([sys.executable, "-m", "bench.bare_mcp"], size))
        rounds = {work: mine.round(work, run.size(20, quick=3)) for work in WORKS}
        rounds["bare"] = bare.round("open", run.size(20, quick=3))
        if not missing():
            command = [str(NODE), str(PACKAGE / "dist" / "index.js")]
            file = str(directory / f"{size}.jsonl")
            other = stack.enter_context(served(command, size, MEMORY_FILE_PATH=file))
            rounds |= {f"{work}, theirs": other.round(work, calls) for work in WORKS}
        found = turns(rounds, run.repetitions(3 if size >= 100_000 else 5))
    return [
        Row(
            work=f"memory of {size:,} entities: {work}",
            ours=found[work],
            shown=milli,
            besides=(
                reference(found.get(f"{work}, theirs", ()), GOALS[size][work], found["bare"]),
                limit("an MCP server that answers at once", found["bare"]),
            ),
            is_headline=(size, work) == (10_000, "add"),
        )
        for work in WORKS
    ]


def segments(store: Path) -> int:
    """Return of how many parts the index of words is; a search asks each of them."""
    connection = sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)
    # The number of its part stands in the upper bits of a page's id; part 0 is about all of them.
    sql = "select count(distinct id >> 37) from memory_words_data where id >> 37 > 0"
    [(count,)] = connection.execute(sql).fetchall()
    connection.close()
    assert isinstance(count, int)
    return count


def growing(run: Run, few: Server, many: Server, parts: int) -> list[Row]:
    why = (
        "A search asks the index of words four times: for whole words and for their beginnings, in"
        f" names and in contents. Parts of that index after the import, each asked: {parts}."
    )
    calls = run.size(30, quick=3)
    rounds = {f"{work}, few": few.round(work, calls) for work in WORKS}
    rounds |= {f"{work}, many": many.round(work, calls) for work in WORKS}
    found = turns(rounds, run.repetitions(7))
    return [
        Row(
            work=f"memory of 1,000,000 entities: {work}",
            ours=found[f"{work}, many"],
            shown=milli,
            besides=(
                growth("with 1,000", found[f"{work}, few"], 1.5, why if work == "search" else ""),
            ),
            is_headline=work == "search",
        )
        for work in WORKS
    ]


def rows(run: Run) -> list[Row]:
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for size in (1_000,) if run.is_quick else GOALS:
            with ours(directory, size) as mine:
                table += beside_reference(run, directory, mine, size)
        few_place = directory / "few"
        few_place.mkdir()
        many = run.size(1_000_000, quick=2_000)
        with ours(few_place, 1_000) as few, ours(directory, many) as mine:
            table += growing(run, few, mine, segments(directory / f"{many}.db"))
    return table

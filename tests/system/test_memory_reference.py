"""The reference memory server and ours, compared call by call with the npm SDK."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onceward.memory import Memory
from tests.support import memory_reference_differences as differences
from tests.support.mcp_clients import COMMAND, GRAPH, NINE, entity, relation
from tests.support.memory_reference_differences import STEPS, Step, call, names

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "tests" / "npm"
SERVER = PACKAGES / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
DOC = ROOT / "docs" / "reference" / "memory-differences.md"
NODE = shutil.which("node", path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")

pytestmark = pytest.mark.skipif(
    NODE is None or not SERVER.exists(),
    reason="no Node.js or no reference server; fix: make .venv/.npm",
)


def drive(command: list[str], steps: list[Step], **variables: str) -> list[Any]:
    """Let the npm SDK's client do these steps with a server; return what came back."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(PACKAGES / "drive.mjs"), *command],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


def reference(directory: Path, steps: list[Step]) -> list[Any]:
    assert NODE is not None
    file = directory / "memory.jsonl"
    return drive([NODE, str(SERVER)], steps, MEMORY_FILE_PATH=str(file))


def ours(directory: Path, steps: list[Step]) -> list[Any]:
    return drive([*COMMAND, "--store", f"sqlite:///{directory / 'memory.db'}"], steps)


# --- the same ------------------------------------------------------------------------------------

SAME: list[Step] = [
    call("create_entities", entities=[entity("a", "1", "2"), entity("b"), entity("c", "a fact")]),
    call("create_entities", entities=[]),
    call("create_relations", relations=[relation("a", "b"), relation("c", "a")]),
    call("create_relations", relations=[relation("a", "b"), relation("b", "a")]),
    call("create_relations", relations=[relation("a", "a")]),
    call("create_relations", relations=[]),
    call(
        "add_observations",
        observations=[
            {"entityName": "b", "contents": []},
            {"entityName": "a", "contents": ["3", "1"]},
            {"entityName": "b", "contents": ["x"]},
            {"entityName": "a", "contents": ["4", "3"]},
        ],
    ),
    call("add_observations", observations=[]),
    call("read_graph"),
    {"read": GRAPH},
    call("open_nodes", names=["c", "a", "a", "unknown"]),
    call("open_nodes", names=["B", "unknown"]),
    call("open_nodes", names=[]),
    call("search_nodes", query="fact"),
    call("search_nodes", query="A FACT"),
    call("search_nodes", query="nothing like it"),
    call("search_nodes", query=""),
    call("create_entities", entities=[entity("a space ", "x ", " x"), entity("Ä")]),
    call("create_entities", entities=[entity("日本語", "🎉", 'quo"ted', "line\nbreak", "")]),
    call("open_nodes", names=["日本語", "Ä", "a space "]),
    call("read_graph"),
]


def test_the_nine_tools_give_the_same_answers(tmp_path: Path) -> None:
    """Data and text are equal, call by call, as long as no listed difference is touched."""
    expected, found = reference(tmp_path, SAME), ours(tmp_path, SAME)
    for step, theirs, own in zip(SAME, expected, found, strict=True):
        assert own == theirs, step


def test_deletions_leave_the_same_graph(tmp_path: Path) -> None:
    """What is deleted is gone from both, facts, relations, entities; unknown ones are no error."""
    steps = [
        *SAME[:7],
        call("delete_observations", deletions=[
            {"entityName": "a", "observations": ["1", "nope"]},
            {"entityName": "unknown", "observations": ["1"]},
        ]),
        call("delete_relations", relations=[relation("a", "b"), relation("x", "y")]),
        call("delete_entities", entityNames=["b", "unknown"]),
        call("read_graph"),
    ]  # fmt: skip
    expected, found = reference(tmp_path, steps), ours(tmp_path, steps)
    assert found[-1] == expected[-1]
    assert all(each["data"]["success"] for each in (*expected[-4:-1], *found[-4:-1]))


def test_the_nine_tools_take_what_those_of_the_reference_take(tmp_path: Path) -> None:
    """Names and required fields of arguments and answers are the same; what we add is optional."""

    def required(schema: Any) -> Any:
        """Return the fields without which a schema is not met, all the way down."""
        if schema.get("type") == "array":
            return [required(schema["items"])]
        if schema.get("type") != "object":
            return schema["type"]
        return {name: required(schema["properties"][name]) for name in schema.get("required", [])}

    [theirs], [own] = reference(tmp_path, [{"list": "tools"}]), ours(tmp_path, [{"list": "tools"}])
    by_name = {each["name"]: each for each in own}
    assert [each["name"] for each in theirs] == NINE
    for each in theirs:
        for side in ("inputSchema", "outputSchema"):
            assert required(by_name[each["name"]][side]) == required(each[side]), each["name"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Any], list[Any]]]:
    """Do the steps of all differences, once with either server."""
    directory = tmp_path_factory.mktemp("both")
    steps = [step for each in STEPS.values() for step in each]
    with ThreadPoolExecutor() as threads:
        expected = threads.submit(reference, directory, steps)
        found = threads.submit(ours, directory, steps)
        theirs, own = iter(expected.result()), iter(found.result())
    return {
        name: ([next(theirs) for _ in each], [next(own) for _ in each])
        for name, each in STEPS.items()
    }


# --- differences that need more than a few calls --------------------------------------------------


def test_two_processes_share_one_store(tmp_path: Path) -> None:
    """`two-processes`: twenty creates from each of two servers at once are forty entities here."""

    def steps(who: str) -> list[Step]:
        return [call("create_entities", entities=[entity(f"{who}{n}")]) for n in range(20)]

    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda who: ours(tmp_path, steps(who)), "ab"))
    [graph] = ours(tmp_path, [call("read_graph")])
    assert sorted(names(graph)) == sorted(f"{who}{n}" for who in "ab" for n in range(20))
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda who: reference(tmp_path, steps(who)), "ab"))
    [theirs] = reference(tmp_path, [call("read_graph")])
    assert len(names(theirs)) <= 40


def test_a_broken_line_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    """`broken-line`: the reference fails every call on such a file; our import takes the rest."""
    reference(tmp_path, [call("create_entities", entities=[entity("a", "1"), entity("b")])])
    file = tmp_path / "memory.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, '{"type":"entity","name":"cut', *rest]))
    [theirs] = reference(tmp_path, [call("read_graph")])
    assert theirs["isError"]
    store = f"sqlite:///{tmp_path / 'memory.db'}"
    words = [sys.executable, "-m", "onceward", "memory", "import", str(file), "--store", store]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert "line 2: " in done.stderr
    [own] = ours(tmp_path, [call("read_graph")])
    assert own["data"]["entities"] == [entity("a", "1"), entity("b")]


def test_what_was_deleted_can_be_brought_back(tmp_path: Path) -> None:
    """`deleted-for-good`: here a person restores an entity with its facts and relations."""
    steps = [
        call("create_entities", entities=[entity("a", "1"), entity("b")]),
        call("create_relations", relations=[relation("a", "b")]),
        call("read_graph"),
        call("delete_entities", entityNames=["a"]),
    ]
    before = ours(tmp_path, steps)[2]
    store = f"sqlite:///{tmp_path / 'memory.db'}"
    with Memory.open(store) as memory:
        assert [each["name"] for each in memory.read_graph()["entities"]] == ["b"]
    words = [sys.executable, "-m", "onceward", "memory", "restore", "a", "--store", store]
    subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert ours(tmp_path, [call("read_graph")]) == [before]


APART = {"two-processes", "broken-line", "deleted-for-good"}


@pytest.mark.parametrize("name", STEPS)
def test_difference(name: str, both: dict[str, tuple[list[Any], list[Any]]]) -> None:
    """Each listed difference is one: the reference does what the page says, and so do we."""
    check = getattr(differences, name.replace("-", "_"))
    check(*both[name])


def test_the_page_lists_the_differences_that_are_shown() -> None:
    """Every row of the page is exercised here, and nothing is exercised that the page hides."""
    listed = re.findall(r"^\| `([a-z-]+)` \|", DOC.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({*STEPS, *APART})
    source = Path(__file__).read_text()
    assert all(f'"""`{each}`: ' in source for each in APART)

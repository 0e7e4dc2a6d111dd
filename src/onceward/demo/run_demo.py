"""Run demo: run an orchestrator task, kill the orchestrator and an agent, and resume the run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import DemoProcess, DemoProcesses
from onceward.demo.interleaving import Act, Stage, counted
from onceward.errors import OncewardError
from onceward.journal import Record, atomic_file
from onceward.orchestrator.ledger import Ledger
from onceward.system import SystemClock, SystemFiles, process_stat

PART: Final = "run"
AGENTS: Final = ("builder", "reviewer", "spec_maintainer")
#: How long an agent works at a command: long enough for a kill to hit it in the middle.
WORK_SECONDS: Final = 1.0
#: How long to wait for one step of a run.
STEP_SECONDS: Final = 30.0
_TASK: Final = "T-0001"


class RunDemo:
    """The runs of one workspace."""

    def __init__(self, stage: Stage, processes: DemoProcesses, world: DemoWorld) -> None:
        """Start no run yet."""
        self._stage, self._processes = stage, processes
        self._root = world.workspace

    def one(self, task_id: str = _TASK) -> Act:
        """Run a task: kill the orchestrator during the review, resume, kill the builder, finish."""
        before = set(_ledgers(self._root))
        words = ("--workspace", str(self._root))
        process = self._processes.start(PART, "orchestrator", "run", "--task", task_id, *words)
        self._stage.tell(PART, f"three agents start {task_id}: build, review, update the spec")
        reviews = commands(self._root, "reviewer")["started"]

        def is_reviewing() -> bool:
            return commands(self._root, "reviewer")["started"] > reviews

        yield from self._wait(process, is_reviewing)
        path = next((each for each in _ledgers(self._root) if each not in before), None)
        if path is None or process.has_ended:
            return
        self._processes.kill(process)
        steps = counted(len(_kinds(path, "receipt")), "recorded step")
        detail = f"the orchestrator is killed during the review, after {steps}"
        self._stage.tell(PART, detail, is_blow=True)
        # An agent whose input ends finishes its command, keeps the result, and exits.
        yield from self._stage.until(lambda: not _living_agents(path), STEP_SECONDS)
        process = self._processes.start(PART, "orchestrator", "resume", "--run", path.stem, *words)
        yield from self._kill_builder(process, path)
        yield from self._wait(process, lambda: process.has_ended)
        text = f"the run is done: {len(_kinds(path, 'receipt'))} steps, each recorded once"
        yield from self._stage.await_event(PART, text, lambda: _kinds(path, "run.completed"), 1.0)

    def _kill_builder(self, process: DemoProcess, path: Path) -> Act:
        """Kill the builder while it makes the changes that the reviewer requested."""
        begun = len(_kinds(path, "run.resumed"))
        yield from self._wait(process, lambda: len(_kinds(path, "run.resumed")) > begun - 1)
        steps = counted(len(_kinds(path, "receipt")), "recorded step")
        self._stage.tell(PART, f"the run is resumed; {steps} will not be done again")
        builds = commands(self._root, "builder")
        wanted = builds["started"] + 1

        def is_building() -> bool:
            now = commands(self._root, "builder")
            return now["started"] >= wanted and now["started"] > now["completed"]

        yield from self._wait(process, is_building)
        agents = [each for each in _living_agents(path) if each["agent"] == "builder"]
        if not agents or process.has_ended:
            return
        done = builds["completed"]

        def is_too_late() -> bool:
            return commands(self._root, "builder")["completed"] > done

        if self._processes.kill_agent(PART, "builder", agents[-1]["pid"], is_too_late):
            detail = (
                f"the builder (process {agents[-1]['pid']}) is killed; it gets its command again"
            )
            self._stage.tell(PART, detail, is_blow=True)

    def _wait(
        self, process: DemoProcess, condition: Callable[[], object]
    ) -> Generator[None, None, bool]:
        """Wait for a condition, or for the end of the process."""
        return (
            yield from self._stage.until(lambda: condition() or process.has_ended, STEP_SECONDS)
        )


# --- counts -----------------------------------------------------------------------------


def commands(workspace: Path, agent: str) -> Counter[str]:
    """Return how many commands an agent has started and completed, from its own log."""
    return Counter(word for word, _ in noted(workspace, agent))


def noted(workspace: Path, agent: str) -> list[tuple[str, str]]:
    """Return an agent's own log: `started` or `completed`, and the key of the command."""
    path = workspace / "state" / "counts" / f"{agent}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(word, key) for word, _, key in (line.partition(" ") for line in lines)]


def records(workspace: Path) -> list[Record]:
    """Return all records of the ledgers of a workspace."""
    return [each for path in _ledgers(workspace) for each in _read(path)]


def _ledgers(workspace: Path) -> list[Path]:
    return sorted((workspace / "events").glob("run-*.ndjson"))


def _kinds(path: Path, kind: str) -> list[Record]:
    return [each for each in _read(path) if each.get("kind") == kind]


def _read(path: Path) -> list[Record]:
    try:
        return Ledger(path, files=SystemFiles(), clock=SystemClock()).read().records
    except OncewardError:
        return []  # The file is just being written for the first time.


def _living_agents(path: Path) -> list[Record]:
    """Return the agents of a run that are still alive."""
    found = []
    for each in _kinds(path, "agent.started"):
        stat = process_stat(each["pid"])
        is_same = stat is not None and stat.started_ticks == each["started_ticks"]
        if stat is not None and is_same and stat.is_alive:
            found.append(each)
    return found


# --- the workspace -------------------------------------------------------------------------------


def make_workspace(root: Path, tasks: Sequence[str] = (_TASK,)) -> None:
    """Create a workspace with tasks and scripted agents."""
    files = SystemFiles()
    for folder in (root / "agents", root / "tasks", root / "state" / "counts"):
        files.make_directories(folder)
    documents: dict[str, object] = {
        **{f"agents/{kind}.json": _scenario(kind) for kind in AGENTS},
        **{f"tasks/{task_id}.json": _task(task_id) for task_id in tasks},
        "onceward.json": _config(),
    }
    for name, content in documents.items():
        _write(root / name, content)


def add_task(root: Path) -> str:
    """Add a task, and return its id."""
    task_id = f"T-{len(list((root / 'tasks').glob('T-*.json'))) + 1:04}"
    _write(root / "tasks" / f"{task_id}.json", _task(task_id))
    return task_id


def _write(path: Path, content: object) -> None:
    atomic_file.write(path, f"{json.dumps(content, indent=2)}\n".encode())


def _config() -> dict[str, Any]:
    scripted = [sys.executable, "-m", "onceward", "agent", "script", "--type"]
    agents = {kind: {"command": [*scripted, kind, f"agents/{kind}.json"]} for kind in AGENTS}
    return {"schemaVersion": 1, "agents": agents, "limits": {"heartbeat_seconds": 2}}


def _task(task_id: str) -> dict[str, Any]:
    return {
        "id": task_id,
        "goal": "Write the offer to roofers, with a price",
        "inputs": {"niche": "roofing"},
        "expected_outputs": [{"path": f"offers/{task_id}.md", "required": True}],
    }


def _scenario(kind: str) -> dict[str, Any]:
    working: list[dict[str, Any]] = [{"progress": f"{kind} at work"}, {"delay": WORK_SECONDS}]
    written = {"path": "offers/{task_id}.md", "content": ["# Leads for roofers\n", _PRICED]}
    actions: dict[str, Any] = {
        "builder": {
            "implement": [*working, {"write": written}, {"answer": {"tests": "pass"}}],
            "implement_changes": [*working, {"write": written}, {"answer": {"tests": "pass"}}],
        },
        "reviewer": {"review": [*working, {"answer": _VERDICTS}]},
        "spec_maintainer": {"update_spec": [*working, {"answer": {"status": "no_changes_needed"}}]},
    }
    return {"count": f"state/counts/{kind}.txt", "actions": actions[kind]}


_PRICED: Final = "# Leads for roofers\n\nEach lead once, 25 euros.\n"
_VERDICTS: Final = [
    {"status": "changes_requested", "comments": ["say what it costs"]},
    {"status": "approved"},
]

"""A workspace with scripted agents: three tasks, two rounds of review, one of the specification.

The agents count for themselves what they start and complete, so that no report is trusted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from onceward.orchestrator.config import load_config
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.orchestrator.tasks import load_task
from onceward.system import SystemRandomness

#: What `onceward agent script` does, without the command line around it: it starts twice as fast.
#: One start takes the order to die, if there is one. What is kept is counted behind what is done.
AGENT = """
import os, sys
from contextlib import suppress
from pathlib import Path
from onceward.system import crash_points
from onceward.agents.scenarios import read_scenario
from onceward.agents.script_agent import script_agent
name = sys.argv[2]
with suppress(FileNotFoundError):
    taken = Path(f"state/agent-crash-{name}.{os.getpid()}")
    os.rename(f"state/agent-crash-{name}", taken)
    crash_points.arm(taken.read_text())
with os.fdopen(os.dup(1), "wb", buffering=0) as wire:
    agent = script_agent(read_scenario(Path(sys.argv[1])), name, wire=wire)
    agent.version = "1"  # So that what it keeps could be reused, with all its bytes.
    keep = agent.cache.put
    def put(answer, workspace):
        keep(answer, workspace)
        with open(f"state/counts/{name}.txt", "a") as counts:
            counts.write(f"kept {answer.key}\\n")
    agent.cache.put = put
    agent.run()
"""
#: An agent that lives is not taken for dead on a busy machine.
PATIENT = {"heartbeats_missed_max": 60}
TASKS = ("T-1", "T-2", "T-3")
#: What differs between two runs that did the same: names, times, and the number of crashes.
EPHEMERAL = {"at", "asked_at", "completed_at", "message_id", "correlation_id", "deadline"}
EPHEMERAL |= {"occurred_at", "run_id", "sum", "seq", "unsynced", "checksum"}


def build(directory: Path) -> Path:
    """Write the workspace of the story, and return it."""
    workspace = directory / "workspace"
    for name in ("tasks", "agents", "src"):
        (workspace / name).mkdir(parents=True, exist_ok=True)
    (workspace / "src" / "base.txt").write_text("the beginning\n")
    for task in TASKS:
        body = {
            "id": task,
            "goal": f"write src/{task}.txt",
            "expected_outputs": [{"path": f"src/{task}.txt", "required": True}],
        }
        (workspace / "tasks" / f"{task}.json").write_text(json.dumps(body))
    scenarios: dict[str, dict[str, Any]] = {
        "builder": {
            "implement": [{"write": {"path": "src/{task_id}.txt", "content": "first\n"}}],
            "implement_changes": _rounds(
                [{"write": {"path": "src/{task_id}.txt", "content": "first\nsecond\n"}}],
                [{"write": {"path": "src/{task_id}.txt", "content": "first\nsecond\nthird\n"}}],
            ),
        },
        "reviewer": {
            "review": _rounds(
                [{"answer": {"status": "changes_requested", "comments": ["more"]}}],
                [{"answer": {"status": "approved"}}],
            ),
        },
        "spec_maintainer": {
            "update_spec": _rounds(
                [{"answer": {"status": "changes_requested", "comments": ["and more"]}}],
                [
                    {"write": {"path": "SPEC.md", "content": "done up to {task_id}\n"}},
                    {"answer": {"status": "updated", "artifacts": ["SPEC.md"]}},
                ],
            ),
        },
    }
    agents: dict[str, dict[str, Any]] = {}
    for agent, actions in scenarios.items():
        scenario = {"count": f"state/counts/{agent}.txt", "actions": actions}
        (workspace / "agents" / f"{agent}.json").write_text(json.dumps(scenario))
        agents[agent] = {"command": [sys.executable, "-c", AGENT, f"agents/{agent}.json", agent]}
    limits = {"heartbeat_seconds": 1, "restarts_max": 50, **PATIENT}
    config = {"schemaVersion": 1, "agents": agents, "limits": limits}
    (workspace / "onceward.json").write_text(json.dumps(config))
    return workspace


def _rounds(*steps: list[Any]) -> dict[str, Any]:
    return {"rounds": list(steps)}


class Hasty(SystemRandomness):
    """Randomness without any wait before the next attempt."""

    def fraction(self) -> float:
        return 0.0


def orchestrator(workspace: Path) -> Orchestrator:
    return Orchestrator(load_config(workspace / "onceward.json"), randomness=Hasty())


def run(workspace: Path) -> None:
    """Start the story; the calling process may die in it."""
    result = orchestrator(workspace).run([load_task(workspace, each) for each in TASKS])
    assert result.status == "done", result


def order_death(workspace: Path, agent: str, spec: str) -> None:
    """Let the next start of an agent die where a crash point says; no tracked file knows of it."""
    (workspace / "state").mkdir(mode=0o700, exist_ok=True)
    order = workspace / "state" / f"agent-crash-{agent}"
    order.with_suffix(".new").write_text(spec)
    order.with_suffix(".new").replace(order)


def resume(workspace: Path) -> bool:
    """Go on with the story if it has begun, else begin it; say whether it is done."""
    conductor = orchestrator(workspace)
    if not conductor.runs():
        run(workspace)
        return True
    result = conductor.resume()
    assert result.status in ("done", "stopped"), result
    return result.status == "done"


def outcome(workspace: Path) -> dict[str, Any]:
    """Return all that must be the same, however many crashes there were on the way."""
    ours = {"events", "logs", "receipts", "snapshots", "state", "transcripts"}
    files = {
        str(path.relative_to(workspace)): path.read_text()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.relative_to(workspace).parts[0] not in ours
    }
    kinds = {"command", "command.answered", "receipt", "task.started", "task.completed"}
    kinds |= {"run.started", "run.completed"}
    ledger = [_lasting(each) for each in records(workspace) if each["kind"] in kinds]
    receipts = [
        _lasting(json.loads(path.read_text()))
        for path in sorted((workspace / "receipts").rglob("*.json"))
    ]
    return {"files": files, "ledger": ledger, "receipts": receipts}


def counts(workspace: Path) -> dict[str, list[str]]:
    """Return what was done for each key, in order, as the agents wrote it down."""
    done: dict[str, list[str]] = {}
    for path in (workspace / "state" / "counts").glob("*.txt"):
        for line in path.read_text().splitlines():
            what, key = line.split()
            done.setdefault(key, []).append(what)
    return done


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _lasting(each) for name, each in value.items() if name not in EPHEMERAL}
        if "path" in kept and str(kept["path"]).startswith("receipts/"):
            kept["path"] = "receipts"  # It holds the id of the run.
        return kept
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def small(directory: Path, limits: dict[str, Any] | None = None, **scenarios: Any) -> Path:
    """Write a workspace with one task; what an agent does for its actions is given by its name."""
    workspace = directory / "workspace"
    for name in ("tasks", "agents", "src"):
        (workspace / name).mkdir(parents=True, exist_ok=True)
    body = {"id": "T-1", "goal": "write", "expected_outputs": [{"path": "src/T-1.txt"}]}
    (workspace / "tasks" / "T-1.json").write_text(json.dumps(body))
    agents = {}
    for agent in ("builder", "reviewer", "spec_maintainer"):
        scenario = {"count": f"state/counts/{agent}.txt", "actions": scenarios.get(agent, {})}
        (workspace / "agents" / f"{agent}.json").write_text(json.dumps(scenario))
        agents[agent] = {"command": [sys.executable, "-c", AGENT, f"agents/{agent}.json", agent]}
    config = {"schemaVersion": 1, "agents": agents, "limits": {**PATIENT, **(limits or {})}}
    (workspace / "onceward.json").write_text(json.dumps(config))
    return workspace


def ledger_of(workspace: Path) -> Path:
    """Return the ledger of the only run that lived to write its first record."""
    (ledger,) = (each for each in (workspace / "events").iterdir() if b"\n" in each.read_bytes())
    return ledger


def records(workspace: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Return what the only ledger holds, of one kind or all of it."""
    ledger = ledger_of(workspace)
    found = [json.loads(line) for line in ledger.read_text().splitlines()]
    return [each for each in found if kind in (None, each["kind"])]

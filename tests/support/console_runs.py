"""Console runs: a workspace whose agents are functions, its routes, and ledgers line by line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.context import ConsoleContext
from onceward.console.runs_http import runs_router
from onceward.console.workspaces import Workspaces
from onceward.errors import StoreUnavailable
from onceward.orchestrator.ledger import seal_line
from onceward.orchestrator.workspace_registry import workspace_id
from tests.support.console_requests import Asking
from tests.support.function_agents import OrchestratorHarness, SimulatedCrash

RUN = "run-20260101-000000-0000000a"
BASE = "/api/orchestrator"
ROUTES = ("run", "journal", "explain", "verify")


def no_store() -> Onceward:
    raise StoreUnavailable


def context_of(workspaces: Workspaces) -> ConsoleContext:
    return ConsoleContext(
        ow=no_store, store_url="", version="0", actor="ann", workspaces=workspaces
    )


class Site(Asking):
    """The routes of runs, and a workspace whose agents are played."""

    def __init__(self, harness: OrchestratorHarness, home: Path) -> None:
        self.harness, self.root = harness, harness.workspace
        self.workspaces = Workspaces([self.root], home=home)
        super().__init__(runs_router(context_of(self.workspaces)))

    @property
    def place(self) -> dict[str, str]:
        (run,) = [each["run_id"] for each in self.items()]
        return {"workspace": workspace_id(self.root), "run": run}

    def items(self, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body(f"{BASE}/runs", **query)["items"]
        return found

    def look(self, route: str, **query: Any) -> Any:
        return self.body(f"{BASE}/{route}", **{**self.place, **query})

    def die_in(self, action: str, nth: int = 1) -> None:
        """Let the orchestrator die while this command is under way."""
        self.harness.die_at(action, nth)
        with pytest.raises(SimulatedCrash):
            self.harness.run() if not list(self.root.glob("events/*")) else self.harness.resume()

    def write(self, *lines: bytes, run: str = RUN) -> dict[str, str]:
        """Put a ledger there, line by line."""
        path = self.root / "events" / f"{run}.ndjson"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(lines))
        return {"workspace": workspace_id(self.root), "run": run}


def record(seq: int, kind: str = "note", **fields: Any) -> bytes:
    at = f"2026-01-01T00:00:{seq % 60:02}.000Z"
    return seal_line({"seq": seq, "at": at, "kind": kind, **fields})


def forged(text: str) -> bytes:
    """Return the line of what no writer of ours would write, with a checksum that fits."""
    body = text.encode()[:-1]
    return body + f',"sum":"{hashlib.sha256(body).hexdigest()[:16]}"}}\n'.encode()


def started(run: str = RUN) -> bytes:
    task = {"id": "T-1", "goal": "build  it", "inputs": {}, "expected_outputs": []}
    return record(1, "run.started", run_id=run, tasks=[task])

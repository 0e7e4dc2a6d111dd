"""Lab processes: commands that serve the Lab, and a page that is played with HTTP requests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from onceward.journal import Journal
from tests.support.labs import make_run
from tests.support.served_commands import Served, started

COMMAND = [sys.executable, "-m", "onceward"]
STOP_SECONDS_MAX = 120


class Running(Served):
    """A command that serves, and the page that a user has open."""

    def get(self, path: str, **options: Any) -> Any:
        answer = httpx.get(f"{self.url}{path}", trust_env=False, **{"timeout": 60, **options})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: dict[str, Any], request_id: str = "") -> httpx.Response:
        """Do as the page does: fetch the token, send it with a request id."""
        headers = {"x-cm-lab-token": self.get("/api/config")["token"]}
        headers["x-cm-lab-request-id"] = request_id or str(uuid.uuid4())
        url = f"{self.url}{path}"
        return httpx.post(url, json=body, headers=headers, trust_env=False, timeout=60)

    def submit(self, winner: str | None = None, **fields: Any) -> httpx.Response:
        """Decide the comparison that this session is about."""
        experiment = self.get(f"/api/experiments/{self.get('/api/config')['task']['experimentId']}")
        sides = [("baseline", experiment["baselineRunId"])]
        sides += [(each["variantId"], each["runId"]) for each in experiment["variants"]]
        judged = [
            {"runId": run, "variantId": side, "ratings": {"overall": 10 + place}}
            for place, (side, run) in enumerate(sides)
        ]
        chosen = {"winnerVariantId": winner or sides[1][0], "perRun": judged, **fields}
        return self.post(f"/api/experiments/{experiment['experimentId']}/submit", chosen)

    def end(self) -> tuple[int, list[str], str]:
        """Wait for its end: exit code, the rest of stdout by lines, stderr."""
        out, err = self.process.communicate(timeout=STOP_SECONDS_MAX)
        return self.process.returncode, out.splitlines(), err

    def stop(self, how: signal.Signals = signal.SIGINT) -> tuple[int, list[str], str]:
        self.process.send_signal(how)
        return self.end()


class Bench:
    """A working directory with a Lab of its own and runs to judge."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.feedback = directory / "feedback.jsonl"
        self.root = directory / "lab"
        self.environment = {
            **os.environ,
            "CM_LAB_ROOT": str(self.root),
            "CM_FEEDBACK_STORE_PATH": str(self.feedback),
            "NO_COLOR": "1",
        }
        for name in ("a", "b", "c"):
            make_run(directory, name, score={"overall": 0.5})

    @contextlib.contextmanager
    def start(self, *words: str, **options: Any) -> Iterator[Running]:
        place = {"cwd": self.directory, "env": self.environment}
        with started([*COMMAND, *words], **{**place, **options}) as process:
            yield Running(process)

    def lab(self, *words: str) -> contextlib.AbstractContextManager[Running]:
        return self.start("lab", *words, "--port", "0", "--json")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    @property
    def entries(self) -> list[dict[str, Any]]:
        return Journal(self.feedback).read().items

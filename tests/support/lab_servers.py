"""Servers of the Lab under test: started, killed, and started again where they were."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.labs import paths_in

COMMAND = [sys.executable, "-m", "onceward", "lab"]


def environment(directory: Path, **more: str) -> dict[str, str]:
    paths = paths_in(directory)
    ours = {"CM_LAB_ROOT": str(paths.root), "CM_FEEDBACK_STORE_PATH": str(paths.feedback)}
    return {**os.environ, **ours, **more}


class LabServer:
    """One server process after another, all at one address and in one session."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory, self.arguments = directory, arguments
        self.url = self.session_id = self.token = ""
        self.lives = 0
        self.process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(trust_env=False, timeout=70)

    def start(self, crash: str = "") -> None:
        """Start it, at the address it had before, and wait until it answers."""
        port = self.url.rpartition(":")[2] or "0"
        options = ["--port", port, "--json", "--no-open", "--allow-root", str(self.directory)]
        if self.session_id:
            options += ["--session", self.session_id]
        variables = environment(self.directory, **({"ONCEWARD_CRASH": crash} if crash else {}))
        self.process = subprocess.Popen(
            [*COMMAND, *self.arguments, *options],
            stdout=subprocess.PIPE,
            env=variables,
            text=True,
        )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.url, self.session_id = ready["url"], ready["sessionId"]
        self.lives += 1
        self.token = self.get("/api/config").json()["token"]

    def kill(self) -> None:
        """Kill -9, and reap."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._client.get(f"{self.url}{path}", **options)

    def post(self, path: str, body: object, request_id: str | None = None) -> httpx.Response:
        headers = {"x-cm-lab-token": self.token}
        if request_id is not None:
            headers["x-cm-lab-request-id"] = request_id
        return self._client.post(f"{self.url}{path}", json=body, headers=headers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.kill()

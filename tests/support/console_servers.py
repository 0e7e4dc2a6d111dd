"""Servers of the console under test, and the workers beside them: started, frozen and killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

from onceward.client import Onceward
from onceward.testing.zombie import freeze, wake
from tests.support.console_story import ROOT, Home

COMMAND = [sys.executable, "-m", "onceward"]
APP = "tests.support.shop_app:app"
SOON_SECONDS = 60.0
PROBE_SECONDS = 1.0
#: Opens a screen of a console, and waits until it shows its content.
Visit = Callable[..., None]


class Console:
    """One server process after another, all at one address and over one home."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.home, self.arguments = Home(path=path), arguments
        self.url = self.token = ""
        self.process: subprocess.Popen[str] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._client = httpx.Client(trust_env=False, timeout=60)

    def start(self) -> None:
        """Start it, at the address it had before, and wait until it answers."""
        port = self.url.rpartition(":")[2] or "0"
        options = ["--port", port, "--json", "--no-open", "--store", self.home.store]
        self.process = subprocess.Popen(
            [*COMMAND, "up", *options, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.home.environment,
            cwd=ROOT,
            text=True,
        )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.url = ready["url"]
        self.token = self.get("/api/console/config")["token"]

    def kill(self) -> None:
        """Kill -9, and reap."""
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Ask the API."""
        answer = self._client.get(f"{self.url}{path}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, body: object, key: str | None = None) -> httpx.Response:
        """Act through the API, as another person does."""
        headers = {"authorization": f"Bearer {self.token}"}
        if key is not None:
            headers["idempotency-key"] = key
        return self._client.post(f"{self.url}{path}", json=body, headers=headers)

    def open(self) -> Onceward:
        """Open the store itself."""
        return self.home.open()

    def audit(self, action: str) -> list[dict[str, Any]]:
        """Return what the audit says of an action, newest first."""
        items = self.get("/api/console/audit", limit=100)["items"]
        return [each for each in items if each["action"] == action]

    def work(self, **settings: str) -> subprocess.Popen[bytes]:
        """Start a worker of the shop in a process of its own."""
        process = subprocess.Popen(
            [*COMMAND, "worker", APP, "--log", "json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**self.home.environment, **settings},
            cwd=ROOT,
        )
        self.workers.append(process)
        return process

    def freeze(self, worker: subprocess.Popen[bytes]) -> None:
        """Freeze a worker, but not inside a commit: everybody would wait for it on SQLite."""
        with self.open() as ow:
            while True:
                freeze(worker)
                probe = threading.Thread(target=write, args=[ow], daemon=True)
                probe.start()
                probe.join(PROBE_SECONDS)
                if not probe.is_alive():
                    return
                wake(worker)
                probe.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                os.kill(worker.pid, signal.SIGCONT)
                worker.kill()
            worker.wait()
        self._client.close()
        self.kill()


def console_over_copy(seeded: Home, path: Path, *arguments: str) -> Console:
    """Return a console over a copy of a home."""
    shutil.copytree(seeded.path, path)
    return Console(path, "--app", APP, "--allow-root", str(seeded.path), *arguments)


def write(ow: Onceward) -> None:
    """Change nothing, in a transaction that has to wait for its turn as any other."""
    with ow.transaction() as tx:
        tx.execute("delete from leads where 1 = 0")

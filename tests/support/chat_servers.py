"""Servers of conversations under test: started, killed, and started again where they were."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx

from onceward.client import open as open_handle
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import Group, TriggerKind
from tests.support.waiting import until

COMMAND = [sys.executable, "-m", "onceward"]
AGENT = (sys.executable, str(Path(__file__).with_name("chat_agent.py")))
#: What should come soon comes within this, also on a busy machine.
SOON_SECONDS = 60
ROOT = Path(__file__).parent.parent.parent


class ChatServer:
    """One server process after another, all at one address and with one store."""

    def __init__(
        self, directory: Path, *arguments: str, store: str = "", words: str = "dispatch serve"
    ) -> None:
        self.directory, self.arguments, self.words = directory, arguments, words.split()
        self.store = store or f"sqlite:///{directory / 'chat.db'}"
        self.url = self.token = ""
        #: The configuration that the server gave the page, or the error.
        self.config: dict[str, Any] = {}
        #: Where the agent of each group works.
        self.places: dict[str, Path] = {}
        self.process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(trust_env=False, timeout=70)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ONCEWARD_HOME": str(self.directory / "home")}

    def add_group(self, name: str, prefix: str = "") -> None:
        """Add a group with an agent that repeats what it hears, or what begins with the word."""
        place = self.places[name] = self.directory / f"work-{name}"
        place.mkdir(exist_ok=True)
        group = Group(
            name=name,
            channel="chat",
            command=AGENT,
            workdir=str(place),
            trigger=TriggerKind.PREFIX if prefix else TriggerKind.ALWAYS,
            word=prefix,
        )
        with open_handle(self.store) as ow:
            Groups(ow.store).add(group)

    def start(self) -> None:
        """Start it, at the address it had before, and wait until it answers."""
        port = self.url.rpartition(":")[2] or "0"
        options = ["--port", port, "--json", "--no-open", "--store", self.store]
        self.process = subprocess.Popen(
            [*COMMAND, *self.words, *options, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=ROOT,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        self.url = json.loads(line)["url"]
        self.config = self.get("/api/chat/config").json()
        self.token = self.config.get("token", "")

    def kill(self) -> None:
        """Kill -9, and reap."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Ask it to stop; return its exit code, and what else it had to say."""
        assert self.process is not None
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=SOON_SECONDS)
        return self.process.returncode, out, err

    def terminal_token(self) -> str:
        """Return the token that it tells on its terminal only."""
        assert self.process is not None
        assert self.process.stderr is not None
        return self.process.stderr.readline().split()[-1]

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._client.get(f"{self.url}{path}", **options)

    def say(self, group: str, text: str, **fields: Any) -> httpx.Response:
        """Post a message; its id defaults to its text."""
        body = {"id": text, "sender": "tester", "text": text, **fields}
        headers = {"x-cm-lab-token": self.token}
        return self._client.post(
            f"{self.url}/api/chat/{group}/messages", json=body, headers=headers
        )

    def page(self, group: str, **query: Any) -> dict[str, Any]:
        answer = self.get(f"/api/chat/{group}/messages", params=query)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        return page

    def heard(self, group: str) -> list[str]:
        """Return the messages of a group, with `> ` before those of agents."""
        items = self.page(group)["items"]
        return [("> " if each["type"] == "reply" else "") + each["text"] for each in items]

    def until_heard(self, group: str, *texts: str) -> list[str]:
        """Wait until all this was said, and return everything that was."""
        until(lambda: set(texts) <= {*self.heard(group)}, lambda: self.heard(group))
        return self.heard(group)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.stop()
        self._client.close()

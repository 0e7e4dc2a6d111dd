"""A place to run dispatch commands in, with an agent that misbehaves on request."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "onceward"]
PATIENCE_SECONDS = 60
#: Answers each message. `poison` fails for good until it is mended, `half` after
#: some output, `slow` waits for a file; it notes what it begins with.
AGENT = """
import time
from pathlib import Path
from onceward.agents import ChatAgent
from onceward.errors import InvalidArgument

agent = ChatAgent()
here = Path(__file__).parent

@agent.on_message
def answer(chat):
    texts = [each.text for each in chat.messages]
    with (here / "began.txt").open("a") as notes:
        notes.write("".join(f"{text}\\n" for text in texts))
    if "poison" in texts and not (here / "mended").exists():
        raise InvalidArgument("cannot read this")
    if "half" in texts:
        chat.reply("so far")
        raise InvalidArgument("lost the thread")
    while "slow" in texts and not (here / "go").exists():
        time.sleep(0.02)
    for text in texts:
        chat.reply(f"echo: {text}")

agent.run()
"""


class Place:
    """A directory, a store and an agent, and processes that use them."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        (directory / "agent.py").write_text(AGENT)
        #: The environment variables that point commands to this place.
        self.variables = {"ONCEWARD_HOME": str(directory / "home"), "ONCEWARD_STORE": url}
        self.environment = {**os.environ, **self.variables, "NO_COLOR": "1", "COLUMNS": "200"}

    @contextmanager
    def started(self, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
        """Start a command, and kill it at the end of the block if it is still there."""
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        given = {**pipes, "cwd": self.directory, "env": self.environment, "text": True, **options}
        with subprocess.Popen([*COMMAND, *words], **given) as process:
            try:
                yield process
            finally:
                process.kill()

    def serving(self) -> AbstractContextManager[subprocess.Popen[str]]:
        """Start a dispatcher that can be killed."""
        words = ("dispatch", "serve", "--port", "0", "--no-open", "--poll", "0.05", "--json")
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return self.started(*words, **quiet)

    @property
    def agent(self) -> str:
        """The agent's command line."""
        return shlex.join([sys.executable, str(self.directory / "agent.py")])

    def began(self) -> list[str]:
        """Return the messages that the agent has begun with so far."""
        notes = self.directory / "began.txt"
        return notes.read_text().splitlines() if notes.exists() else []

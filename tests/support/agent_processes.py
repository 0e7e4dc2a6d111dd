"""Drive `onceward agent …` as an orchestrator does: a real process, and lines over its pipes."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onceward.agents import protocol
from onceward.errors import InvalidArgument

ANSWER_SECONDS = 120.0
TYPE_OF_ACTION = {
    "implement": "builder",
    "implement_changes": "builder",
    "review": "reviewer",
    "update_spec": "spec_maintainer",
}


def command(  # noqa: PLR0913 - a command has that many fields
    action: str = "implement",
    inputs: Mapping[str, Any] | None = None,
    *,
    task_id: str = "T-0001",
    outputs: Sequence[Mapping[str, Any]] = (),
    seconds: float = 600,
    number: int = 1,
    snapshot_id: str = "snap-000000000001",
) -> dict[str, Any]:
    return protocol.command(
        message_id=f"msg-{number}",
        correlation_id=f"corr-{number}",
        task_id=task_id,
        agent_type=TYPE_OF_ACTION[action],
        action=action,
        inputs=inputs or {"goal": "do it"},
        snapshot_id=snapshot_id,
        deadline=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
        expected_outputs=outputs,
    )


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is more than a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Piped:
    """A program at the other end of two pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        #: Lines that are no messages.
        self.noise: list[bytes] = []
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # The test ended and closed it meanwhile.
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def end(self) -> int:
        """Close its stdin, and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(ANSWER_SECONDS)


class Driven(Piped):
    """An agent that is given commands."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        #: Everything but heartbeats that came before the last answer.
        self.heard: list[dict[str, Any]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.write(protocol.encode(message))

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a command and return the event that ends it."""
        self.send(message)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        self.heard, self.noise = [], []
        while True:
            line = self.lines.get(timeout=ANSWER_SECONDS)
            assert line is not None, f"the agent ended: {self.process.wait()}"
            try:
                found = protocol.decode(line.rstrip(b"\n"))
            except InvalidArgument:
                self.noise.append(line)
                continue
            if found["kind"] == "event" and protocol.is_terminal(found):
                return found
            if found["kind"] != "heartbeat":
                self.heard.append(found)

    def said(self) -> list[str]:
        """Return the messages of progress events and logs before the last answer."""
        return [each.get("message") or each["payload"]["message"] for each in self.heard]


@contextmanager
def piped(
    command: Sequence[str | Path], workspace: Path, env: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program between two pipes, whose errors are in the log; kill it at the end."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=workspace,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def driven(workspace: Path, *words: str | Path, **environ: str) -> Iterator[Driven]:
    """Start `onceward agent WORDS` in a workspace, as an orchestrator would."""
    log = workspace / "state" / "stderr.log"
    log.parent.mkdir(exist_ok=True)
    binaries = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "ONCEWARD_WORKSPACE": str(workspace),
        **environ,
    }
    command = (sys.executable, "-m", "onceward", "agent", *words)
    with piped(command, workspace, env, log) as process:
        yield Driven(process)


def wrapped(
    workspace: Path, program: str, *options: str, **environ: str
) -> AbstractContextManager[Driven]:
    """Start `onceward agent exec` around a Python program, given as text, that builds."""
    line = ("exec", "--type", "builder", *options, "--", sys.executable, "-c", program)
    return driven(workspace, *line, **environ)


def scripted(
    workspace: Path, scenario: Mapping[str, Any], agent: str = "builder", **environ: str
) -> AbstractContextManager[Driven]:
    """Start `onceward agent script` with a scenario."""
    path = workspace / "state" / "scenario.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(scenario))
    return driven(workspace, "script", path, "--type", agent, **environ)

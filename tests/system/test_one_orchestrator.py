"""One orchestrator per workspace: the second is refused or waits, and orphans are ended first."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import AgentFailed
from onceward.journal.process_lock import is_process_lock_held
from onceward.orchestrator import orchestrator as module
from onceward.orchestrator.tasks import load_task
from onceward.orchestrator.workspace import Workspace
from onceward.system import process_stat
from tests.support import scripted_workspace as world
from tests.support.namespaces import pid_namespace, pid_namespace_without_proc
from tests.support.waiting import until

HANG_SECONDS = 120
COMMAND = [sys.executable, "-m", "onceward"]
#: An agent that goes on writing whatever becomes of its orchestrator, once it has a command.
WRITER = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
sys.stdin.readline()
while True:
    with open("src/T-1.txt", "a") as file:
        file.write("still here\\n")
    time.sleep(0.005)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """One task whose reviewer waits until the file `go` is there."""
    write = {"write": {"path": "src/T-1.txt", "content": "built\n"}}
    made = world.small(tmp_path, {"heartbeat_seconds": 1}, builder={"implement": [write]})
    waiting = [sys.executable, "-c", WAITING, "agents/reviewer.json", "reviewer"]
    change(made, "reviewer", waiting)
    return made


#: The scripted agent, once the file `state/go` is there.
WAITING = f"""
import os, time
while not os.path.exists("state/go"):
    time.sleep(0.01)
{world.AGENT}
"""


def change(workspace: Path, agent: str, command: list[str]) -> None:
    path = workspace / "onceward.json"
    config: dict[str, Any] = json.loads(path.read_text())
    config["agents"][agent]["command"] = command
    path.write_text(json.dumps(config))


@contextmanager
def started(workspace: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a workspace, and kill it at the end if it is still there."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *words], cwd=workspace, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def kinds(workspace: Path, kind: str) -> list[dict[str, Any]]:
    """Return the records of a kind in all ledgers; a last line may still be being written."""
    ledgers = sorted((workspace / "events").glob("*.ndjson"))
    lines = [line for each in ledgers for line in each.read_bytes().splitlines(keepends=True)]
    records = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [each for each in records if each["kind"] == kind]


def is_reviewing(workspace: Path) -> bool:
    return any(each["agent"] == "reviewer" for each in kinds(workspace, "agent.started"))


@pytest.mark.parametrize("words", [("run", "--task", "T-1"), ("resume",)])
def test_h70_a_second_orchestrator_is_refused_and_the_holder_named(
    workspace: Path, words: tuple[str, ...]
) -> None:
    """Process, run and time of the first are named; the second starts and writes nothing."""
    with started(workspace, "run", "--task", "T-1") as first:
        until(lambda: is_reviewing(workspace))
        (ledger,) = (workspace / "events").iterdir()
        with started(workspace, *words) as second:
            _, reported = second.communicate(timeout=HANG_SECONDS)
        assert second.returncode == 1
        since = r"since \d{4}-\d\d-\d\dT[0-9:.]+Z"
        assert re.search(
            rf"{ledger.stem} is being worked on by process {first.pid} on .* {since}", reported
        )
        assert "--wait" in reported
        assert [each.name for each in (workspace / "events").iterdir()] == [ledger.name]
        (workspace / "state" / "go").touch()
        assert first.wait(timeout=HANG_SECONDS) == 0
    assert all(acts.count("started") == 1 for acts in world.counts(workspace).values())


def test_h70_a_second_run_waits_with_wait(workspace: Path) -> None:
    """It begins once the first is gone, and both come to their end."""
    with started(workspace, "run", "--task", "T-1") as first:
        until(lambda: is_reviewing(workspace))
        with started(workspace, "run", "--task", "T-1", "--wait") as second:
            assert second.stderr is not None
            assert f"process {first.pid} " in second.stderr.readline()
            assert len(kinds(workspace, "run.started")) == 1
            (workspace / "state" / "go").touch()
            assert second.wait(timeout=HANG_SECONDS) == 0
        assert first.wait(timeout=HANG_SECONDS) == 0
    # By time: the ids of two runs of one second have no order.
    completed = sorted(each["at"] for each in kinds(workspace, "run.completed"))
    begun = sorted(each["at"] for each in kinds(workspace, "run.started"))
    assert (len(completed), len(begun)) == (2, 2)
    assert completed[0] <= begun[1]


def test_h70_a_wait_ends_with_a_signal(workspace: Path) -> None:
    """Ctrl-C while it waits: exit 130, and nothing was started."""
    with started(workspace, "run", "--task", "T-1"):
        until(lambda: is_reviewing(workspace))
        with started(workspace, "run", "--task", "T-1", "--wait") as second:
            assert second.stderr is not None
            second.stderr.readline()
            second.send_signal(signal.SIGINT)
            assert second.wait(timeout=HANG_SECONDS) == 128 + signal.SIGINT
        assert len(kinds(workspace, "run.started")) == 1


def test_h70_a_killed_orchestrator_holds_nothing_and_its_agents_neither(workspace: Path) -> None:
    """Agents do not inherit the lock: the next run begins at once."""
    with started(workspace, "run", "--task", "T-1") as first:
        until(lambda: is_reviewing(workspace))
        first.kill()
        first.wait(timeout=HANG_SECONDS)
        (workspace / "state" / "go").touch()
        with started(workspace, "run", "--task", "T-1") as second:
            _, reported = second.communicate(timeout=HANG_SECONDS)
        assert second.returncode == 0, reported


def test_h70_orphans_of_a_killed_run_end_before_the_next_run_pins_its_snapshot(
    workspace: Path,
) -> None:
    """An agent that outlives its orchestrator writes nothing beside the next run."""
    normal = json.loads((workspace / "onceward.json").read_text())["agents"]["builder"]["command"]
    change(workspace, "builder", [sys.executable, "-c", WRITER])
    path = workspace / "src" / "T-1.txt"
    with started(workspace, "run", "--task", "T-1") as first:
        until(path.exists)
        first.kill()
        first.wait(timeout=HANG_SECONDS)
    (orphan,) = kinds(workspace, "agent.started")
    size = path.stat().st_size
    until(lambda: path.stat().st_size > size)
    change(workspace, "builder", normal)
    (workspace / "state" / "go").touch()
    with started(workspace, "run", "--task", "T-1") as second:
        _, reported = second.communicate(timeout=HANG_SECONDS)
    found = process_stat(orphan["pid"])
    is_gone = found is None or not found.is_alive or found.started_ticks != orphan["started_ticks"]
    if not is_gone:
        os.killpg(orphan["pid"], signal.SIGKILL)
    assert is_gone
    assert second.returncode == 0, reported
    assert path.read_text() == "built\n"


#: A wrapped program that notes its pid and the pids before it that still run, and waits once.
LOOP = """
cat > /dev/null
for pid in $(cat state/begun 2> /dev/null); do
    grep -qs '^State:.[^ZX]' /proc/$pid/status && echo $pid >> state/beside
done
echo $$ >> state/begun
[ -e state/go ] || sleep 100
echo built > src/T-1.txt
"""


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_h70_a_wrapped_program_ends_though_its_leader_was_killed_too(
    workspace: Path, is_wrapped: bool
) -> None:
    """Orchestrator, agent and leader are killed at once; the next builder may wrap no program."""
    normal = json.loads((workspace / "onceward.json").read_text())["agents"]["builder"]["command"]
    exec_line = [*COMMAND, "agent", "exec", "--type", "builder", "--", "/bin/sh", "-c", LOOP]
    change(workspace, "builder", exec_line)
    begun = workspace / "state" / "begun"
    with started(workspace, "run", "--task", "T-1") as first:
        until(lambda: begun.exists() and begun.read_text().endswith("\n"))
        old = int(begun.read_text())
        (agent,) = kinds(workspace, "agent.started")
        leader = os.getpgid(old)
        assert len({leader, agent["pid"], first.pid, old}) == 4
        os.kill(agent["pid"], signal.SIGSTOP)  # It would end the program.
        for pid in (leader, agent["pid"], first.pid):
            os.kill(pid, signal.SIGKILL)
        first.wait(timeout=HANG_SECONDS)
    left = process_stat(old)
    assert left is not None
    assert left.is_alive
    (workspace / "state" / "go").touch()
    if not is_wrapped:
        change(workspace, "builder", normal)
    with started(workspace, "resume") as second:
        _, reported = second.communicate(timeout=HANG_SECONDS)
    assert second.returncode == 0, reported
    left = process_stat(old)
    assert left is None or not left.is_alive
    assert len(begun.read_text().split()) == 1 + is_wrapped
    assert not (workspace / "state" / "beside").exists()


@pytest.mark.usefixtures("elsewhere")
def test_h69_a_live_orphan_is_not_gone_where_proc_shows_another_namespace(
    workspace: Path,
) -> None:
    """In a pid namespace without a /proc of its own neither its group nor its start is seen."""
    normal = json.loads((workspace / "onceward.json").read_text())["agents"]["builder"]["command"]
    change(workspace, "builder", [sys.executable, "-c", WRITER])
    path, go = workspace / "src" / "T-1.txt", workspace / "state" / "go"
    script = """
    ONCEWARD_CRASH=agents.send.after_write:1:kill "$@" run --task T-1
    until [ -e src/T-1.txt ]; do sleep 0.05; done
    cp normal.json onceward.json; touch state/go
    "$@" resume 2> refused; echo $? >> codes
    sed -n 's/.*as process \\([0-9]*\\).*/\\1/p' refused > orphan
    kill -9 $(cat orphan)
    "$@" resume 2> resumed; echo $? >> codes
    """
    changed = (workspace / "onceward.json").read_text()
    change(workspace, "builder", normal)
    (workspace / "normal.json").write_text((workspace / "onceward.json").read_text())
    (workspace / "onceward.json").write_text(changed)
    subprocess.run(
        [*pid_namespace_without_proc(), "sh", "-c", script, "sh", *COMMAND],
        cwd=workspace,
        check=False,
        timeout=HANG_SECONDS,
        stdout=subprocess.DEVNULL,
    )
    refused = (workspace / "refused").read_text()
    assert "its agent still runs" in refused
    assert (workspace / "codes").read_text().split() == ["1", "0"], refused
    assert path.read_text() == "built\n"
    assert go.exists()


@pytest.mark.usefixtures("elsewhere")
def test_h70_a_run_is_refused_while_an_orphan_runs_in_another_container(workspace: Path) -> None:
    """Its pid says nothing here, and it cannot be ended from here; it holds a lock."""
    normal = json.loads((workspace / "onceward.json").read_text())["agents"]["builder"]["command"]
    change(workspace, "builder", [sys.executable, "-c", WRITER])
    path = workspace / "src" / "T-1.txt"
    lock = Workspace(root=workspace).orchestrator_lock()
    killed = {**os.environ, "ONCEWARD_CRASH": "agents.send.after_write:1:kill"}
    stays = ("sh", "-c", '"$@"; sleep 600', "sh", *COMMAND, "run", "--task", "T-1")
    with subprocess.Popen(
        [*pid_namespace(), *stays], cwd=workspace, env=killed, stderr=subprocess.DEVNULL
    ) as container:
        try:
            until(lambda: path.exists() and not is_process_lock_held(lock))
            change(workspace, "builder", normal)
            (workspace / "state" / "go").touch()
            for words in (("run", "--task", "T-1"), ("resume",)):
                with started(workspace, *words) as second:
                    _, held = second.communicate(timeout=HANG_SECONDS)
                assert second.returncode == 1, held
                assert "still runs in another container" in held
            with started(workspace, "run", "--task", "T-1", "--wait") as third:
                assert third.stderr is not None
                assert "still runs in another container" in third.stderr.readline()
                assert len(kinds(workspace, "run.started")) == 1
                container.kill()
                assert third.wait(timeout=HANG_SECONDS) == 0
        finally:
            container.kill()
    assert path.read_text() == "built\n"


def test_h70_a_run_is_refused_while_an_orphan_does_not_end(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is pinned and no run is recorded beside an agent that cannot be ended."""

    def stuck(*_: object, **__: object) -> None:
        message = "the process group 7 does not end"
        raise AgentFailed(message, code="AGENT_STUCK", retryable=True)

    monkeypatch.setattr(module, "end_orphans", stuck)
    with pytest.raises(AgentFailed, match="does not end"):
        world.orchestrator(workspace).run([load_task(workspace, "T-1")])
    assert not (workspace / "events").exists()

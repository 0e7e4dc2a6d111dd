"""Orphans: agent processes of a crashed run are ended, and no other processes are."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from onceward.agents import orphan_processes
from onceward.agents.orphan_processes import AgentRecord, end_group, end_orphans, group_members
from onceward.errors import AgentFailed
from onceward.system import ManualClock, ProcessIdentity, SystemClock, process_stat

#: Leads a group with one more process in it, and says so.
GROUP = """
import os, sys, time
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
if sys.argv[1] == "dies":
    os._exit(0)
time.sleep(60)
"""


def recorded(pid: int, run_id: str | None = None) -> AgentRecord:
    """Return the record of a child of ours."""
    made = AgentRecord.from_fields(ProcessIdentity.of_child(pid).to_fields(), run_id)
    assert made
    return made


class Group:
    """A real process group, as an agent and its child."""

    def __init__(self, mode: str = "stays", **env: str) -> None:
        self.leader = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GROUP, mode],
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=env or {"ONCEWARD_RUN": "run-1"},
        )
        assert self.leader.stdout
        self.child = int(self.leader.stdout.readline())
        self.record = recorded(self.leader.pid, "run-1")

    def is_alive(self) -> bool:
        return any(each.is_alive for each in group_members(self.leader.pid))

    def end(self) -> None:
        end_group(self.leader.pid, clock=SystemClock())
        self.leader.wait()
        assert self.leader.stdout
        self.leader.stdout.close()


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group()
    yield group
    group.end()


def test_a_group_that_outlived_its_run_is_ended(group: Group) -> None:
    """The recorded process and whatever it started are gone when the call returns."""
    assert end_orphans([group.record]) == [group.record]
    assert not group.is_alive()
    child = process_stat(group.child)
    assert child is None or not child.is_alive
    assert end_orphans([group.record]) == []


def test_a_stopped_group_is_ended(group: Group) -> None:
    """A frozen process cannot escape."""
    os.killpg(group.leader.pid, signal.SIGSTOP)
    assert end_orphans([group.record]) == [group.record]
    assert not group.is_alive()


@pytest.mark.parametrize(
    "change",
    [
        {"started_ticks": 1},
        {"boot_id": "another boot"},
        {"pid": 2**22 - 1},
        {"host": "another-host"},
        {"pid_namespace": 1},
    ],
)
def test_another_process_with_the_same_pid_is_left_alone(
    change: dict[str, object], group: Group
) -> None:
    """Another start time, boot, machine or pid namespace is another process."""
    assert end_orphans([replace(group.record, **change)]) == []  # type: ignore[arg-type]
    assert group.is_alive()


def test_a_zombie_is_dead() -> None:
    """A process that is not reaped yet is not waited for, nor reported as ended."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""], start_new_session=True)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    found = process_stat(process.pid)
    assert found
    assert found.state == "Z"
    assert not found.is_alive
    assert end_orphans([recorded(process.pid)]) == []
    process.wait()
    assert process_stat(process.pid) is None


@pytest.mark.parametrize("reaped", [False, True])
def test_children_of_a_dead_agent_are_ended(reaped: bool) -> None:
    """A group whose leader is dead is known by its zombie, or by the run in its environment."""
    group = Group("dies")
    os.waitid(os.P_PID, group.leader.pid, os.WEXITED | os.WNOWAIT)
    if reaped:
        group.leader.wait()
        assert end_orphans([replace(group.record, run_id="run-2")]) == []
        assert end_orphans([replace(group.record, run_id=None)]) == []
        assert group.is_alive()
    assert end_orphans([group.record]) == [group.record]
    assert not group.is_alive()
    group.end()


def test_h70_a_child_with_a_cleaned_environment_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing proves whose it is, so nothing may start beside it; nor is it killed."""
    monkeypatch.setattr(orphan_processes, "GONE_SECONDS_MAX", 0.05)
    group = Group("dies", PATH="/usr/bin")
    group.leader.wait()
    with pytest.raises(AgentFailed, match=f"process group {group.leader.pid} ") as caught:
        end_orphans([group.record])
    assert caught.value.code == "AGENT_STUCK"
    stuck: list[AgentFailed] = []
    assert end_orphans([group.record, group.record, None], on_stuck=stuck.append) == []
    assert [each.code for each in stuck] == ["AGENT_STUCK"] * 2
    assert group.is_alive()
    monkeypatch.undo()
    group.end()
    assert end_orphans([group.record]) == []


def test_a_group_that_does_not_end_is_reported(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What survives SIGKILL hangs in the kernel, and waiting for it has an end."""
    monkeypatch.setattr(orphan_processes, "GONE_SECONDS_MAX", 0.02)
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    with pytest.raises(AgentFailed) as caught:
        end_group(group.leader.pid, clock=ManualClock())
    assert caught.value.code == "AGENT_STUCK"
    monkeypatch.undo()


def test_records_come_from_logged_fields() -> None:
    """What `agent.started` says is a record; with a field missing it names no process."""
    named = {"host": "h", "boot_id": "b", "pid_namespace": 3, "pid": 1, "started_ticks": 2}
    logged = {"agent": "builder", **named}
    assert AgentRecord.from_fields(logged, "run-1") == AgentRecord(**named, run_id="run-1")  # type: ignore[arg-type]
    for name in named:
        assert AgentRecord.from_fields({**logged, name: None}) is None
    assert end_orphans([None]) == []

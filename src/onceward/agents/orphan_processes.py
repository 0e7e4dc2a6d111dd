"""Orphan processes: kill agents that an earlier orchestrator process left running.

Decides which processes belong to a recorded agent, and when a process group is gone (zombies count
as dead). `system.process_identity` identifies recorded processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from onceward.errors import AgentFailed
from onceward.system import (
    FILE_MODE,
    Clock,
    ProcessIdentity,
    ProcessStat,
    SystemClock,
    mapped_os_errors,
    process_stat,
)

#: A group that still exists this long after SIGKILL is stuck in the kernel.
GONE_SECONDS_MAX: Final = 10.0

_POLL_SECONDS: Final = 0.005
_PROC: Final = Path("/proc")
_RUN_VARIABLE: Final = b"ONCEWARD_RUN="
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRecord(ProcessIdentity):
    """An agent as recorded at its start; its pid is also its process group id."""

    #: The run it belongs to, as set in its environment; None if not recorded.
    run_id: str | None = None

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], run_id: str | None = None) -> Self | None:
        """Return the agent of an `agent.started` record; None if it identifies no process."""
        process = ProcessIdentity.from_fields(fields)
        return None if process is None else cls(**process.to_fields(), run_id=run_id)


def end_orphans(
    records: Iterable[AgentRecord | None],
    *,
    clock: Clock | None = None,
    on_stuck: Callable[[AgentFailed], object] | None = None,
) -> list[AgentRecord]:
    """Kill the process groups of these agents, wait until they are gone, and return the agents.

    A process that merely reuses one of the pids is left alone. So are agents of another machine,
    boot or pid namespace, whose pids have no meaning here. A group that does not end, or cannot be
    assigned to a run, raises AgentFailed; `on_stuck` gets the error instead, and the rest is ended.
    """
    clock = clock or SystemClock()
    ended: list[AgentRecord] = []
    for record in records:
        if record is None or not record.is_in_this_namespace():
            continue
        try:
            if _is_orphaned(record, clock):
                end_group(record.pid, clock=clock)
                ended.append(record)
        except AgentFailed as exc:
            if on_stuck is None:
                raise
            on_stuck(exc)
    return ended


@contextlib.contextmanager
def agent_lock(path: Path) -> Iterator[int]:
    """Yield a descriptor with a shared lock on a file, to start an agent with.

    The agent inherits the lock, which ends with it: in another pid namespace nothing else tells.
    """
    with mapped_os_errors(path, "open"):
        descriptor = os.open(path, _LOCK_FLAGS | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield descriptor
    finally:
        os.close(descriptor)


def is_agent_lock_held(path: Path) -> bool:
    """Return whether an agent that was started with this lock still runs, wherever it does."""
    try:
        descriptor = os.open(path, _LOCK_FLAGS)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def end_group(group: int, *, clock: Clock) -> None:
    """Kill every process of a group and return when all of them are dead."""
    until = clock.monotonic() + GONE_SECONDS_MAX
    while True:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            pass  # Some processes belong to another user; the others got the signal.
        if _is_dead(group):
            return
        if clock.monotonic() >= until:
            message = f"process group {group} still exists {GONE_SECONDS_MAX:g} s after SIGKILL"
            fix = f"see what blocks it: ps -o pid,user,stat,wchan,cmd -g {group}; then try again"
            raise AgentFailed(message, code="AGENT_STUCK", retryable=True, fix=fix, group=group)
        clock.sleep(_POLL_SECONDS)


def is_certainly_gone(record: AgentRecord) -> bool:
    """Return whether no process of this agent is left, after `end_orphans`; False if unknown.

    /proc may hide a group, or belong to another pid namespace.
    """
    if not record.is_in_this_namespace():
        return False
    try:
        os.killpg(record.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return bool(group_members(record.pid))


def group_members(group: int) -> list[ProcessStat]:
    """Return the processes of a group, including zombies."""
    found = (process_stat(int(each.name)) for each in _PROC.iterdir() if each.name.isdigit())
    return [each for each in found if each is not None and each.group == group]


def _is_dead(group: int) -> bool:
    """Return whether all processes of a group that got SIGKILL have died, as far as we can see."""
    if process_stat(os.getpid()) is not None:
        return not any(each.is_alive for each in group_members(group))
    # /proc is not ours. A child of ours keeps its group until it is reaped; then ESRCH tells.
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _is_orphaned(record: AgentRecord, clock: Clock) -> bool:
    """Return whether a process of this agent still runs.

    While a group has members, its id is not reused. If the leader exists, its start time identifies
    the group; otherwise the environment of the members names their run.
    """
    until = clock.monotonic() + GONE_SECONDS_MAX
    while True:
        members = [each for each in group_members(record.pid) if each.is_alive]
        leader = process_stat(record.pid)
        if members and leader is not None and record.started_ticks:
            return leader.started_ticks == record.started_ticks
        runs = {_run_of(each) for each in members if each.started_ticks >= record.started_ticks}
        if runs != {None}:
            return record.run_id in runs - {None}
        # The environment of a process that starts or dies is empty for a moment.
        if clock.monotonic() >= until:
            message = f"process group {record.pid} still runs, and nothing shows of which run it is"
            fix = f"see `ps -o pid,user,lstart,cmd -g {record.pid}`; end it, then try again"
            raise AgentFailed(
                message, code="AGENT_STUCK", retryable=True, fix=fix, group=record.pid
            )
        clock.sleep(_POLL_SECONDS)


def _run_of(member: ProcessStat) -> str | None:
    """Return the run in the environment of a process; None if it names none or is unreadable."""
    with contextlib.suppress(OSError):
        environment = (_PROC / str(member.pid) / "environ").read_bytes().split(b"\0")
        found = (each for each in environment if each.startswith(_RUN_VARIABLE))
        if (run := next(found, None)) is not None:
            return run.removeprefix(_RUN_VARIABLE).decode(errors="replace")
    return None

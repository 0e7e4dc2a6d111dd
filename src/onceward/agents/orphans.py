"""Orphans: agents that an earlier life of the orchestrator left behind, and how groups are ended.

Owns which processes belong to a recorded agent, and when a process group is gone (a zombie is
dead). Who a recorded process is, `seams.process_identity` says. Knows neither pipes nor messages.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from onceward.errors import AgentFailed
from onceward.seams import Clock, ProcessIdentity, ProcessStat, SystemClock, process_stat

#: A group that is not gone so long after SIGKILL hangs in the kernel.
GONE_SECONDS_MAX: Final = 10.0

_LOOK_SECONDS: Final = 0.005
_PROC: Final = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRecord(ProcessIdentity):
    """An agent as it was recorded when it was started; its pid is also that of its group."""

    #: The run it belongs to, as its environment says it; None where it was not recorded.
    run_id: str | None = None

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], run_id: str | None = None) -> Self | None:
        """Take what was told with `agent.started`; None if that does not name one process."""
        process = ProcessIdentity.from_fields(fields)
        return None if process is None else cls(**process.to_fields(), run_id=run_id)


def end_orphans(
    records: Iterable[AgentRecord | None], *, clock: Clock | None = None
) -> list[AgentRecord]:
    """End the process groups that these agents lead, wait until they are gone, and name them.

    A process that only has the pid of one of them is left alone, as are agents of another machine,
    boot or pid namespace: their pids mean nothing here.
    """
    clock = clock or SystemClock()
    ended: list[AgentRecord] = []
    for record in records:
        if record and record.is_in_this_namespace() and _is_left_behind(record):
            end_group(record.pid, clock=clock)
            ended.append(record)
    return ended


def end_group(group: int, *, clock: Clock) -> None:
    """Kill every process of a group and return when none of them can do anything any more."""
    until = clock.monotonic() + GONE_SECONDS_MAX
    while True:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            pass  # Some of it is not ours; the rest got the signal.
        if not any(member.is_alive for member in group_members(group)):
            return
        if clock.monotonic() >= until:
            message = f"the process group {group} does not end, {GONE_SECONDS_MAX:g} s after a kill"
            fix = f"see what it hangs on: ps -o pid,stat,wchan,cmd -g {group}"
            raise AgentFailed(message, code="AGENT_STUCK", retryable=True, fix=fix, group=group)
        clock.sleep(_LOOK_SECONDS)


def group_members(group: int) -> list[ProcessStat]:
    """Return the processes of a group, dead ones that nobody has reaped included."""
    found = (process_stat(int(each.name)) for each in _PROC.iterdir() if each.name.isdigit())
    return [each for each in found if each is not None and each.group == group]


def _is_left_behind(record: AgentRecord) -> bool:
    """Say whether something of this agent still runs.

    While a group has members, its number is not given to another process. So if the leader is
    there, the group is its; if only members are, their environment says whose they are.
    """
    members = group_members(record.pid)
    if not any(each.is_alive for each in members):
        return False
    leader = process_stat(record.pid)
    if leader is not None and record.started_ticks:
        return leader.started_ticks == record.started_ticks
    return any(_is_of_run(each, record) for each in members)


def _is_of_run(member: ProcessStat, record: AgentRecord) -> bool:
    if record.run_id is None or member.started_ticks < record.started_ticks:
        return False
    with contextlib.suppress(OSError):
        environment = (_PROC / str(member.pid) / "environ").read_bytes().split(b"\0")
        return f"ONCEWARD_RUN={record.run_id}".encode() in environment
    return False

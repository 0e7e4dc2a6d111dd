"""Supervisor limits: how agents are started, and all timeouts of the supervisor. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onceward.agents.line_reader import LINE_BYTES_MAX

#: A command that starts with this name runs this installation, whatever is on the PATH.
OWN_COMMAND: Final = "onceward"


def command_line(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command line; `onceward` is replaced by this interpreter and installation."""
    if words[0] != OWN_COMMAND:
        return tuple(words)
    # -P prevents imports from the working directory.
    return (sys.executable, "-P", "-m", "onceward", *words[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpec:
    """How an agent is started."""

    #: builder, reviewer or spec_maintainer.
    type: str
    #: Program and arguments; no shell.
    command: tuple[str, ...]
    #: Added to the environment of the orchestrator.
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisorLimits:
    """Heartbeat interval, timeouts and restarts."""

    #: Interval of heartbeats.
    heartbeat_seconds: float = 10.0
    #: An agent is restarted after this many missed heartbeats.
    heartbeats_missed_max: int = 3
    #: Timeout of each action in seconds, restarts included.
    timeout_seconds: Mapping[str, float] = field(
        default_factory=lambda: {
            "implement": 600.0,
            "implement_changes": 600.0,
            "review": 300.0,
            "update_spec": 180.0,
        }
    )
    #: Maximum number of restarts of each agent per process of a run.
    restarts_max: int = 5
    #: Maximum length of a message line.
    line_bytes_max: int = LINE_BYTES_MAX
    #: Minimum time allowed until the first heartbeat of a new process.
    start_seconds: float = 10.0

    @property
    def silence_seconds_max(self) -> float:
        """Return how long heartbeats may be missing."""
        return self.heartbeat_seconds * self.heartbeats_missed_max

"""Limits: how agents are started, and how patient their supervisor is. Pure; knows no process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onceward.agents.lines import LINE_BYTES_MAX

#: The word that means this very installation, wherever it is and whatever the PATH says.
OURSELVES: Final = "onceward"


def command_line(words: Sequence[str]) -> tuple[str, ...]:
    """Return how a command is started: our own not by what the PATH happens to hold."""
    if words[0] != OURSELVES:
        return tuple(words)
    # -P keeps the files of the directory it works in from being imported.
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
class Limits:
    """How patient the supervisor is."""

    #: How often an agent must say that it is alive.
    heartbeat_seconds: float = 10.0
    #: After so many heartbeats that did not come, it is started again.
    heartbeats_missed_max: int = 3
    #: Seconds for each action, restarts included.
    timeout_seconds: Mapping[str, float] = field(
        default_factory=lambda: {
            "implement": 600.0,
            "implement_changes": 600.0,
            "review": 300.0,
            "update_spec": 180.0,
        }
    )
    #: How often each agent may be started again during a run.
    restarts_max: int = 5
    #: A line of a message is no longer.
    line_bytes_max: int = LINE_BYTES_MAX
    #: So long a new process may take to its first heartbeat, if that is longer.
    start_seconds: float = 10.0

    @property
    def silence_seconds_max(self) -> float:
        """Return how long an agent may be silent."""
        return self.heartbeat_seconds * self.heartbeats_missed_max

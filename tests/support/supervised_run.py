"""Supervised run: a workspace in which supervisors of real agents follow one another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onceward.agents.supervisor import AgentSpec, Supervisor, SupervisorLimits
from onceward.system.redaction import Redactor


class ZeroRandomness:
    """Restarts without waiting."""

    def fraction(self) -> float:
        return 0.0

    def hex(self, digits: int) -> str:
        return "0" * digits


class SupervisedRun:
    """A run, its supervisors, and what they tell."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.supervisors: list[Supervisor] = []

    def supervise(
        self,
        command: Sequence[str],
        limits: SupervisorLimits,
        env: dict[str, str],
        secrets: Sequence[str] = (),
    ) -> Supervisor:
        supervisor = Supervisor(
            {"builder": AgentSpec(type="builder", command=tuple(command), env=env)},
            workspace=self.workspace,
            run_id="run-1",
            limits=limits,
            redactor=Redactor(secrets),
            on=lambda kind, fields: self.logged.append((kind, fields)),
            randomness=ZeroRandomness(),
        )
        self.supervisors.append(supervisor)
        return supervisor

    def stop(self) -> None:
        for supervisor in self.supervisors:
            supervisor.stop()

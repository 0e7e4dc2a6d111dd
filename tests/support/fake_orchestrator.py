"""Fake orchestrator: ends as its test scripts it, in place of the real one."""

from collections.abc import Callable, Sequence
from typing import Any

from onceward.orchestrator.config import WorkspaceConfig
from onceward.orchestrator.models import AgentTask, RunResult
from onceward.orchestrator.workspace import Workspace

RUN = "run-20260301-093000-1a2b3c4d"
AT = "2026-03-01T09:30:00.000Z"


class FakeOrchestrator:
    """An orchestrator with a scripted end, which remembers what it was asked."""

    result = RunResult(run_id=RUN, status="done")
    refusal: Exception | None = None
    #: Happens while a run is live.
    during: Callable[["FakeOrchestrator"], None] = staticmethod(lambda _: None)
    asked: list[Any] = []  # noqa: RUF012 - shared on purpose, emptied by the fixture

    def __init__(self, config: WorkspaceConfig, *, watch: Callable[[Any], None]) -> None:
        self.workspace = Workspace(root=config.workspace)
        self.watch = watch
        self.stops = 0

    def run(self, tasks: Sequence[AgentTask], **_: object) -> RunResult:
        self.asked.append([task.id for task in tasks])
        return self._live()

    def resume(
        self,
        run_id: str | None,
        *,
        accept_drift: bool = False,
        redo: bool = False,
        retry: bool,
        **_: object,
    ) -> RunResult:
        self.asked.append((run_id, accept_drift, redo, retry))
        if self.refusal is not None and not (accept_drift or redo):
            raise self.refusal
        return self._live()

    def runs(self) -> list[RunResult]:
        return []

    def stop(self) -> None:
        self.stops += 1

    def _live(self) -> RunResult:
        tasks = [{"id": "T-0001"}]
        self.watch({"seq": 1, "at": AT, "kind": "run.started", "run_id": RUN, "tasks": tasks})
        type(self).during(self)
        if self.stops:
            return RunResult(run_id=RUN, status="stopped", reason="it was asked to stop")
        self.watch({"seq": 2, "at": AT, "kind": "run.completed"})
        return self.result

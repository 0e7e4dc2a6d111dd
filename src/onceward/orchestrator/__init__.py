"""Orchestrator: durable execution of tasks by several agents, with idempotent commands."""

from onceward.orchestrator.config import WorkspaceConfig, load_config
from onceward.orchestrator.models import AgentTask, RunLimits, RunResult, RunView, TaskRunSummary
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.orchestrator.tasks import list_tasks, load_task

__all__ = [
    "AgentTask",
    "Orchestrator",
    "RunLimits",
    "RunResult",
    "RunView",
    "TaskRunSummary",
    "WorkspaceConfig",
    "list_tasks",
    "load_config",
    "load_task",
]

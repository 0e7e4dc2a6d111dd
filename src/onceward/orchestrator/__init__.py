"""Orchestrator: several agents on one task, each command with a key, resumed after any crash."""

from onceward.orchestrator.config import Config, load_config
from onceward.orchestrator.models import RunLimits, RunResult, RunSummary, RunView, Task
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.orchestrator.tasks import list_tasks, load_task

__all__ = [
    "Config",
    "Orchestrator",
    "RunLimits",
    "RunResult",
    "RunSummary",
    "RunView",
    "Task",
    "list_tasks",
    "load_config",
    "load_task",
]

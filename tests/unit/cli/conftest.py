"""Fixtures of the command line: a fake orchestrator, and a workspace to run in."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onceward.orchestrator.scaffold import create_workspace
from tests.support.command_runner import run as run  # noqa: PLC0414 - a fixture, given on
from tests.support.fake_orchestrator import FakeOrchestrator


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[FakeOrchestrator]:
    """Put the played orchestrator in the place of the real one."""

    class Fresh(FakeOrchestrator):
        asked: list[Any] = []  # noqa: RUF012 - the same

    module = ModuleType("onceward.orchestrator.orchestrator")
    module.Orchestrator = Fresh  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return Fresh


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, which is also where the command runs."""
    create_workspace(tmp_path / "demo", example=True)
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"

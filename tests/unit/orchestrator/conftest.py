"""Fixtures of the orchestrator: a workspace whose agents are played."""

from pathlib import Path

import pytest

from tests.support.function_agents import OrchestratorHarness, stage


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OrchestratorHarness:
    """An empty workspace in which everybody approves of everything."""
    return stage(OrchestratorHarness(tmp_path / "workspace"), monkeypatch)

"""Fixtures of the orchestrator: a workspace whose agents are played."""

from pathlib import Path

import pytest

from tests.unit.orchestrator.theatre import Theatre, stage


@pytest.fixture
def theatre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Theatre:
    """An empty workspace in which everybody approves of everything."""
    return stage(Theatre(tmp_path / "workspace"), monkeypatch)

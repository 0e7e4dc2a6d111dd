"""Workspaces that git ignores: their files count for keys and approvals as anywhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.system.test_run_honesty import APPROVES, KEEPS, Place


def test_h71_a_second_run_with_other_files_is_reviewed_in_a_workspace_that_git_ignores(
    tmp_path: Path,
) -> None:
    """The reviewer's kept approval belongs to files that have changed since."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build/work").mkdir(parents=True)
    place = Place(tmp_path / "build/work")
    place.set("builder", f"{APPROVES}; echo built > out.txt")
    place.set("reviewer", KEEPS, "--verdict", "exit")
    for content in ("one", "two"):
        (place.directory / "notes.txt").write_text(content)
        ran = place.onceward("run", "--task", "T-1")
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [each.name for each in sorted((place.directory / "state/prompts").iterdir())] == [
        "review-0",
        "review-1",
    ]
    (place.directory / "notes.txt").write_text("slipped in")
    verified = place.onceward("runs", "verify")
    assert verified.returncode == 1
    assert "delivered files: NOT as approved" in verified.stdout
    assert "notes.txt: it differs from the approved content" in verified.stdout

"""The example of a wrapped coding agent, from end to end, and its transcript in the docs."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "fix_the_test"
PAGE = ROOT / "docs" / "how-to" / "wrap-a-coding-agent.md"
#: What differs from one run to the next, and what stands there instead.
TRIMMED = {
    r"(?m)^\d\d:\d\d:\d\d  ": "",
    r"run-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}": "run-…",
    r"snap-[0-9a-f]{12}": "snap-…",
    r"ik:[0-9a-f]{12}": "ik:…",
    r"(?m) \([0-9.]+ s\)$": "",
    r"in [0-9.]+s": "in …s",
}


def test_a_failing_test_passes_after_a_run_as_the_documentation_shows(tmp_path: Path) -> None:
    """A local fixer, pytest as check and as reviewer, a changelog: all wrapped, all real."""
    place = tmp_path / "fix"
    shutil.copytree(EXAMPLE, place)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "PYTHONDONTWRITEBYTECODE": "1"}

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, check=False
        )

    assert "1 failed, 2 passed" in ran("pytest", "-q").stdout
    reported = ran("onceward", "run", "--task", "T-0001")
    assert reported.returncode == 0, reported.stderr
    assert "3 passed" in ran("pytest", "-q").stdout
    assert (place / "CHANGELOG.md").read_text().startswith("# Changelog\n\n- T-0001: Shipping")
    changed = {path.name for path in EXAMPLE.iterdir() if path.is_file()}
    changed = {name for name in changed if not filecmp.cmp(place / name, EXAMPLE / name)}
    assert changed == {"CHANGELOG.md", "prices.py"}
    assert ran("onceward", "runs", "verify").returncode == 0
    transcript = reported.stdout
    for pattern, instead in TRIMMED.items():
        transcript = re.sub(pattern, instead, transcript)
    assert f"```text\n{transcript}```\n" in PAGE.read_text()

"""Modules run as processes of their own, which tell in JSON what they saw."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

OUTPUT_CHARACTERS_MAX = 20_000


def run_module(name: str, *words: object, seconds_max: float | None = None) -> dict[str, Any]:
    """Return what it saw; when it fails, say why, and how to see it again."""
    command = [sys.executable, "-m", name, *map(str, words)]
    # Files, not pipes: a process that outlives it would hold a pipe open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            ran = subprocess.run(
                command, stdout=out, stderr=err, check=False, timeout=seconds_max
            ).returncode
        except subprocess.TimeoutExpired:
            ran = None
        out.seek(0)
        err.seek(0)
        said, why = out.read(), err.read()
    outcome = "did not end" if ran is None else f"ended with {ran}"
    assert ran == 0, f"{outcome}; REPRO: {' '.join(command)}\n{why[-OUTPUT_CHARACTERS_MAX:]}"
    summary: dict[str, Any] = json.loads(said)
    return summary

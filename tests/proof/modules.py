"""Modules run as processes of their own, which tell in JSON what they saw."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

TOLD_CHARACTERS_MAX = 20_000


def run_module(name: str, *words: object, seconds_max: float | None = None) -> dict[str, Any]:
    """Return what it saw; when it fails, say why, and how to see it again."""
    command = [sys.executable, "-m", name, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds_max)
    why = ran.stderr[-TOLD_CHARACTERS_MAX:]
    assert ran.returncode == 0, f"REPRO: {' '.join(command)}\n{why}"
    summary: dict[str, Any] = json.loads(ran.stdout)
    return summary

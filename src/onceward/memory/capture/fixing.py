"""Fixing: a fix as a person reports it, who does not count how often it was applied."""

from __future__ import annotations

from typing import Any

from onceward.memory.capture.proving import next_attempt
from onceward.memory.client import Memory
from onceward.memory.shapes import Shape


def apply_fix(memory: Memory, **facts: Any) -> Shape:  # noqa: ANN401 - those of record_fix
    """Record a fix, as a new attempt if its issue came back since the last one was judged.

    With the same `ts` a repeated call changes nothing.
    """
    recorded = memory.record_fix(**facts)
    is_applied = facts.get("result", "applied") == "applied"
    attempt = next_attempt(memory.graph, recorded["name"]) if is_applied else None
    return recorded if attempt is None else memory.record_fix(**facts, attempt=attempt)

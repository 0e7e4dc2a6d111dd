"""Reported fix: record a fix reported by a person, and count its attempts."""

from __future__ import annotations

from typing import Any

from onceward.memory.capture.fix_verification import next_attempt
from onceward.memory.client import Memory
from onceward.memory.serialization import JsonObject


def apply_fix(memory: Memory, **facts: Any) -> JsonObject:  # noqa: ANN401 - those of record_fix
    """Record a fix, as a new attempt if its issue recurred since the last outcome.

    Idempotent for the same `ts`.
    """
    recorded = memory.record_fix(**facts)
    is_applied = facts.get("result", "applied") == "applied"
    attempt = next_attempt(memory.graph, recorded["name"]) if is_applied else None
    return recorded if attempt is None else memory.record_fix(**facts, attempt=attempt)

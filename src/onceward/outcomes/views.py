"""Outcome views: outcomes as JSON, for the command line and for HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from onceward.keys.encoding import read_json
from onceward.outcomes.models import EffectRecord, OutcomeRecord


def record_json(record: OutcomeRecord | EffectRecord) -> dict[str, Any]:
    """Return an outcome or a step as plain JSON values."""
    found = {**asdict(record), "has_result": record.result is not None}
    for field in ("result", "note"):
        text = found[field]
        found[field] = None if text is None else read_json(text)
    return found

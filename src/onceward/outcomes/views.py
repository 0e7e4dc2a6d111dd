"""Views: outcomes as JSON, the same on the command line and over HTTP."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from onceward.keys.encoding import read_json
from onceward.outcomes.models import EffectRecord, Record


def plain(record: Record | EffectRecord) -> dict[str, Any]:
    """Return everything known of a key, or of a step, as JSON has it."""
    found = {**asdict(record), "has_result": record.result is not None}
    for field in ("result", "note"):
        text = found[field]
        found[field] = None if text is None else read_json(text)
    return found

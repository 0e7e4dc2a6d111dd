"""Make the reference of crash points: each with the two states that a crash there separates."""

from __future__ import annotations

from collections.abc import Mapping

from docs.make.regions import Maker, code, table
from onceward.system import crash_points


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of crash points."""
    return {"crash points": lambda _: _listed()}


def _listed() -> str:
    rows = [[code(name), *states.split(" | ")] for name, states in crash_points.POINTS.items()]
    return table(["point", "before it", "after it"], rows)

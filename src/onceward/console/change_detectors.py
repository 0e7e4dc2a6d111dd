"""Change detectors: cheap fingerprints that change when an area's data changes.

A change that no fingerprint shows is announced with the next full announcement. A fingerprint
that changes without need costs a page one request. Knows no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceward.console.change_feed import Detector
from onceward.console.context import ConsoleContext

#: Areas of the store, each with a query of its own.
_OF_STORE: Final = (
    *("cursors", "workers", "outcomes", "dead", "alerts", "memory", "dispatch", "audit"),
)
#: Ledgers that are looked at, the latest of each workspace.
_LEDGERS_MAX: Final = 200


def detectors_of(context: ConsoleContext) -> Mapping[str, Detector]:
    """Return the change detector of every area."""
    of_store: dict[str, Detector] = {area: _look(context, area) for area in _OF_STORE}
    # Files first: they are there when the store is away.
    return {"runs": lambda: _runs(context), "lab": lambda: _lab(context), **of_store}


def _look(context: ConsoleContext, area: str) -> Detector:
    return lambda: context.ow().store.read(f"area_change_{area}")


def _runs(context: ConsoleContext) -> object:
    found = []
    for workspace in context.workspaces.list():
        events = workspace / "events"
        try:
            names = sorted(each.name for each in events.iterdir())[-_LEDGERS_MAX:]
        except OSError:
            continue
        found += [_signs(events / name) for name in names]
        found.append(_signs(workspace / "state" / "run.json"))
    return tuple(found)


def _lab(context: ConsoleContext) -> object:
    if context.lab is None:
        return None
    paths = context.lab.paths
    return tuple(_signs(each) for each in (paths.feedback, paths.runs, paths.experiments))


def _signs(path: Path) -> tuple[str, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (str(path), stat.st_size, stat.st_mtime_ns)

"""Change detectors: cheap fingerprints that change when an area's data changes.

A change that no fingerprint shows is announced with the next full announcement. A fingerprint that
changes needlessly costs a page one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceward.console.change_feed import Detector
from onceward.console.context import ConsoleContext

#: Areas of the store, each with its own query.
_OF_STORE: Final = (
    *("cursors", "workers", "outcomes", "dead", "alerts", "memory", "dispatch", "audit"),
)
#: How many of each workspace's latest ledgers are checked.
_LEDGERS_MAX: Final = 200


def detectors_of(context: ConsoleContext) -> Mapping[str, Detector]:
    """Return a change detector for every area."""
    of_store: dict[str, Detector] = {area: _query_fingerprint(context, area) for area in _OF_STORE}
    # Areas in files first, because they are readable while the store is unavailable.
    return {"runs": lambda: _runs(context), "lab": lambda: _lab(context), **of_store}


def _query_fingerprint(context: ConsoleContext, area: str) -> Detector:
    return lambda: context.ow().store.read(f"area_change_{area}")


def _runs(context: ConsoleContext) -> object:
    found = []
    for workspace in context.workspaces.list():
        events = workspace / "events"
        try:
            names = sorted(each.name for each in events.iterdir())[-_LEDGERS_MAX:]
        except OSError:
            continue
        found += [_file_fingerprint(events / name) for name in names]
        found.append(_file_fingerprint(workspace / "state" / "run.json"))
    return tuple(found)


def _lab(context: ConsoleContext) -> object:
    if context.lab is None:
        return None
    paths = context.lab.paths
    return tuple(
        _file_fingerprint(each) for each in (paths.feedback, paths.runs, paths.experiments)
    )


def _file_fingerprint(path: Path) -> tuple[str, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (str(path), stat.st_size, stat.st_mtime_ns)

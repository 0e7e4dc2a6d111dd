"""Looks: what is another when an area of the house has changed; each is cheap, and none is exact.

What a look cannot see, whoever listens is told of after a while anyway; a look that sees one change
too many costs a page a question. Knows nobody who listens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceward.console.house import House
from onceward.console.pulse import Look

#: Areas of the store, each with a query of its own.
_OF_STORE: Final = (
    *("cursors", "workers", "outcomes", "dead", "alerts", "memory", "dispatch", "audit"),
)
#: Ledgers that are looked at, the latest of each workspace.
_LEDGERS_MAX: Final = 200


def looks_of(house: House) -> Mapping[str, Look]:
    """Return how to look at every area."""
    of_store: dict[str, Look] = {area: _look(house, area) for area in _OF_STORE}
    # Files first: they are there when the store is away.
    return {"runs": lambda: _runs(house), "lab": lambda: _lab(house), **of_store}


def _look(house: House, area: str) -> Look:
    return lambda: house.ow().store.read(f"pulse_{area}")


def _runs(house: House) -> object:
    found = []
    for workspace in house.workspaces.list():
        events = workspace / "events"
        try:
            names = sorted(each.name for each in events.iterdir())[-_LEDGERS_MAX:]
        except OSError:
            continue
        found += [_signs(events / name) for name in names]
        found.append(_signs(workspace / "state" / "run.json"))
    return tuple(found)


def _lab(house: House) -> object:
    if house.lab is None:
        return None
    paths = house.lab.paths
    return tuple(_signs(each) for each in (paths.feedback, paths.runs, paths.experiments))


def _signs(path: Path) -> tuple[str, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return (str(path), stat.st_size, stat.st_mtime_ns)

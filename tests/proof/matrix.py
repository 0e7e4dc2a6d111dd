"""The crash matrix: every crash point, every hit, both engines, and crashes in the recovery.

Owns the families of points and their plans; the scenarios are in `tests/support/crash_scenarios/`.
All children are forked from one parent that has everything imported.

    python -m tests.proof.matrix POINT --nth 2 --then POINT --engine postgres
    python -m tests.proof.matrix --family leases --tier slice --engine sqlite
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from onceward.system.crash_points import POINTS
from tests.proof.matrix_stores import MatrixStores
from tests.support.killed_processes import Scenario, Step, play, scenario_for

SEED = 20260206
#: Hits of a point that have a cell each.
NTH_MAX = 3
#: Kills at each point in a soak, and how many of them are in one plan.
SOAK_KILLS, SOAK_PLAN = 200, 5
STORES = ("sqlite", "postgres")
FILES = ("files",)

Plan = tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Points that belong together, and the module in which their scenarios are."""

    module: str
    #: What is killed, for the report.
    what: str
    #: Ids of GUARANTEES.md.
    claims: tuple[str, ...]
    engines: tuple[str, ...] = STORES

    @property
    def scenarios(self) -> dict[str, type[Scenario]]:
        found: dict[str, type[Scenario]] = import_module(
            f"tests.support.crash_scenarios.{self.module}"
        ).SCENARIOS
        return found

    def points(self, engine: str) -> list[str]:
        """Return its own points, and those of others at which its scenarios are killed too."""
        own = [point for point in POINTS if point.startswith(tuple(self.scenarios))]
        own += getattr(import_module(f"tests.support.crash_scenarios.{self.module}"), "ALSO", ())
        return [point for point in own if engine == "sqlite" or not point.startswith("sqlite.")]

    def kind(self, point: str) -> type[Scenario]:
        """Return the scenario that passes a point."""
        scenarios = self.scenarios
        if point.startswith(tuple(scenarios)):
            return scenario_for(point, scenarios)
        return next(iter(scenarios.values()))

    def kinds(self, engine: str) -> dict[type[Scenario], list[str]]:
        """Return its scenarios, and the points of each."""
        found: dict[type[Scenario], list[str]] = {}
        for point in self.points(engine):
            found.setdefault(self.kind(point), []).append(point)
        return found


FAMILIES = {
    "files": Family(module="files", what="journals and files", claims=("D1", "D2"), engines=FILES),
    "leases": Family(module="leases", what="cursors and stores", claims=("D1", "D2", "F2", "C1")),
    "outcomes": Family(module="outcomes", what="outcomes", claims=("D2", "I1", "I3", "I4")),
    "retries": Family(module="retries", what="retries and dual cursors", claims=("D2", "R1", "W1")),
    "workers": Family(module="workers", what="workers", claims=("D2", "W1", "R1")),
    "alerts": Family(module="alerts", what="alerts", claims=("D1", "D2")),
    "memory": Family(module="memory", what="the memory", claims=("D2", "M1", "M2", "M3")),
    "console": Family(module="console", what="the console", claims=("D2", "C1")),
    "dispatch": Family(
        module="dispatch", what="dispatching", claims=("D2", "X1", "X2", "X3", "X4")
    ),
    "lab": Family(module="lab", what="the Lab", claims=("D2", "L1", "L2"), engines=FILES),
    "orchestrator": Family(module="orchestrator", what="runs", claims=("D2", "O1"), engines=FILES),
}


def owner(point: str) -> str:
    """Return the name of the one family that has a point."""
    (found,) = (name for name, each in FAMILIES.items() if point.startswith(tuple(each.scenarios)))
    return found


# --- plans ----------------------------------------------------------------------------------------


def limit(kind: type[Scenario], point: str) -> int:
    return kind.limits.get(point, (kind.passes_max, ""))[0]


def slice_plans(family: Family, engine: str) -> list[Plan]:
    """Return one kill at every point, one after the other in the same place."""
    found = family.kinds(engine).items()
    return [tuple(map(Step, kind.chain(points))) for kind, points in found]


def exact_plans(family: Family, engine: str) -> list[Plan]:
    """Return every point and hit, and pairs."""
    source = random.Random(SEED)
    plans: list[Plan] = []
    for kind, points in family.kinds(engine).items():
        for point in points:
            most = min(NTH_MAX, limit(kind, point))
            plans += [(Step(point, nth),) for nth in range(1, most + 1)]
        plans += [(Step(p), Step(q)) for p, q in kind.pairs(points, source)]
    return plans


def soak_plans(family: Family, engine: str, seed: int) -> list[Plan]:
    """Return many kills at each point, at hits left to chance."""
    source = random.Random(seed)
    plans: list[Plan] = []
    for kind, points in family.kinds(engine).items():
        length = 1 if kind.is_ending else SOAK_PLAN
        for point in points:
            most = min(kind.passes_max, limit(kind, point))
            plans += [
                tuple(Step(point, source.randint(1, most)) for _ in range(length))
                for _ in range(SOAK_KILLS // length)
            ]
    return plans


def seldom(family: Family, engine: str) -> list[dict[str, Any]]:
    """Return the cells that cannot be: hits that no life comes to, and why."""
    return [
        {
            "point": point,
            "nth": nth,
            "then": None,
            "recover_ms": None,
            "repeated": 0,
            "not_reached": kind.limits[point][1],
        }
        for kind, points in family.kinds(engine).items()
        for point in points
        for nth in range(limit(kind, point) + 1, NTH_MAX + 1)
    ]


# --- playing --------------------------------------------------------------------------------------


def completed(kind: type[Scenario], plan: Plan) -> Plan:
    """Return a plan with those in it who have to die first."""
    steps: list[Step] = []
    for step in plan:
        first = kind.before(step, steps[-1] if steps else None)
        steps += [first, step] if first else [step]
    return tuple(steps)


def repro(name: str, engine: str, plan: Plan) -> str:
    """Return the command that plays one plan."""
    first, *rest = plan
    words = [first.point, *(["--nth", str(first.nth)] if first.nth > 1 else [])]
    words += [word for step in rest for word in ("--then", str(step))]
    words += [] if owner(first.point) == name else ["--family", name]
    words += [] if engine == "files" else ["--engine", engine]
    return f"REPRO: python -m tests.proof.matrix {' '.join(words)}"


def run(name: str, places: MatrixStores, plans: Sequence[Plan]) -> dict[str, Any]:
    """Play plans; return their cells, and what was counted."""
    family = FAMILIES[name]
    cells: list[dict[str, Any]] = []
    kills: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for number, plan in enumerate(plans):
        kind = family.kind(plan[0].point)
        whole = completed(kind, plan)
        try:
            with places.one(kind, SEED + number) as place:
                played = play(kind(place), whole)
        except BaseException as error:
            error.add_note(repro(name, places.engine, plan))
            raise
        kills.update(step.point for step in whole)
        total.update(acknowledged=played.acknowledged, repeated=played.repeated)
        cells.append(
            {
                "point": plan[0].point,
                "nth": plan[0].nth,
                "then": " ".join(map(str, plan[1:])) or None,
                "recover_ms": round(played.recover_seconds * 1000, 1),
                "repeated": played.repeated,
            }
        )
    return {"plans": len(plans), "kills": kills, **total, "cells": cells}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.matrix", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("point", nargs="?", help="where the first life dies; else --family")
    parser.add_argument("--nth", type=int, default=1, help="at which of its passes")
    parser.add_argument("--then", action="append", default=[], help="POINT[:NTH], the next life")
    parser.add_argument("--family", choices=FAMILIES, help="all plans of these points")
    parser.add_argument("--tier", choices=("slice", "prove", "soak"), default="prove")
    parser.add_argument("--engine", choices=STORES, default="sqlite")
    parser.add_argument("--url", default="", help="a migrated database to copy, else our own")
    parser.add_argument("--seed", type=int, default=SEED, help="of a soak")
    given = parser.parse_args(words)
    if given.point is None and given.family is None:
        parser.error("which point, or which family?")
    name = given.family or owner(given.point)
    family = FAMILIES[name]
    engine = given.engine if family.engines == STORES else "files"
    if given.point:
        plans = [(Step(given.point, given.nth), *map(Step.parse, given.then))]
    elif given.tier == "soak":
        plans = soak_plans(family, engine, given.seed)
    else:
        plans = (slice_plans if given.tier == "slice" else exact_plans)(family, engine)
    with MatrixStores.made(engine, given.url) as places:
        json.dump(run(name, places, plans), sys.stdout)


if __name__ == "__main__":
    main()

"""The crash matrix: kill -9 at every crash point and hit, on both engines, and in the recovery."""

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from onceward.system.crash_points import POINTS
from tests.proof.matrix import FAMILIES, NTH_MAX, exact_plans, owner, seldom
from tests.support.evidence import Entry, Evidence

CAMPAIGNS = [(name, engine) for name, family in FAMILIES.items() for engine in family.engines]


def matrix(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the matrix in a process that opens nothing before it forks."""
    command = [sys.executable, "-m", "tests.proof.matrix", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(params=CAMPAIGNS, ids="-".join)
def campaign(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """Return a family, an engine, and a database to copy where there are databases."""
    name, engine = request.param
    if engine != "postgres":
        return name, engine, ""
    return name, engine, request.getfixturevalue("postgres_server").database("onceward_template")


@pytest.mark.prove
@pytest.mark.timeout(7200)
def test_kills_lose_and_double_nothing(
    campaign: tuple[str, str, str], prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Killed at every point, and again in the next life, the life after that finds all in order."""
    name, engine, url = campaign
    family = FAMILIES[name]
    tier = "soak" if soak else "prove" if prove else "slice"
    on = ["--engine", engine, "--url", url] if url else []
    ran = matrix("--family", name, "--tier", tier, *on)
    assert ran.returncode == 0, ran.stderr[-8000:]
    reported = json.loads(ran.stdout)
    points = family.points(engine)
    cells = reported["cells"]
    if prove and not soak:
        check_cells(name, engine, cells)
        cells = [*cells, *seldom(family, engine)]
    evidence.record(
        Entry(
            campaign=f"kill -9 at every crash point of {family.what}",
            layer="matrix",
            claims=family.claims,
            engine=engine,
            schedules=reported["plans"],
            faults={"kill": sum(reported["kills"].values())},
            work=reported["acknowledged"],
            repeated=reported["repeated"],
            recovery_seconds=tuple(each["recover_ms"] / 1000 for each in reported["cells"]),
            reached={point: reported["kills"].get(point, 0) for point in points},
            cells=tuple({**each, "engine": engine} for each in cells),
        )
    )


def check_cells(name: str, engine: str, cells: list[dict[str, Any]]) -> None:
    """Find every hit of every point, or the reason why there is none, and pairs with each."""
    family = FAMILIES[name]
    played = [*cells, *seldom(family, engine)]
    alone = Counter((each["point"], each["nth"]) for each in played if each["then"] is None)
    hits = [(point, nth) for point in family.points(engine) for nth in range(1, NTH_MAX + 1)]
    assert alone == Counter(hits)
    paired = {each["point"] for each in cells if each["then"]}
    assert paired == set(family.points(engine))


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_in_one_family(point: str) -> None:
    """Each has one scenario that passes it, and cells on every engine of its family."""
    family = FAMILIES[owner(point)]
    engines = ["sqlite"] if point.startswith("sqlite.") else family.engines
    for engine in engines:
        first = [plan[0].point for plan in exact_plans(family, engine)]
        # At least one kill there, and one more in the life that follows.
        assert first.count(point) >= 2, engine


def test_a_kill_that_does_not_happen_fails_and_says_how_to_repeat_it() -> None:
    """A point that is never passed so often is no cell; one line repeats the failure."""
    point = "migrate.after_one"
    words = [point, "--then", f"{point}:99"]
    ran = matrix(*words)
    assert ran.returncode == 1
    assert f"{point}:99:kill was not reached" in ran.stderr
    (line,) = (line for line in ran.stderr.splitlines() if line.startswith("REPRO: "))
    assert line == f"REPRO: python -m tests.proof.matrix {' '.join(words)} --engine sqlite"


def test_one_cell_can_be_played_by_hand() -> None:
    """The command of a failure needs nothing: it makes its own server."""
    words = ["cursor.checkpoint.after_commit", "--nth", "2"]
    ran = matrix(*words, "--then", "cursor.checkpoint.after_commit:3", "--engine", "postgres")
    assert ran.returncode == 0, ran.stderr
    (cell,) = json.loads(ran.stdout)["cells"]
    assert cell["then"] == "cursor.checkpoint.after_commit:3"
    assert cell["recover_ms"] > 0

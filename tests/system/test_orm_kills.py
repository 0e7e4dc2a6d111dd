"""SQLAlchemy and Django under real kill -9, on both engines."""

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20261117


@pytest.mark.prove
@pytest.mark.parametrize("recipe", ["sqlalchemy", "django"])
def test_h47_kills_leave_the_row_of_an_orm_and_its_outcome_or_neither(
    ow_url: str, recipe: str, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Killed between any two statements, every process finds each row with its outcome."""
    kills = 500 if soak else 50 if prove else 6
    summary = run_module("tests.support.storms.orm", ow_url, recipe, SEED, kills)
    assert summary["kills"] == kills
    evidence.record(
        Entry(
            campaign=f"rows of {recipe} and outcomes in one commit",
            layer="storms",
            claims=("I1", "I3"),
            engine="sqlite" if ow_url.startswith("sqlite") else "postgres",
            schedules=summary["processes"],
            faults={"kill": summary["kills"]},
            work=summary["orders"],
        )
    )

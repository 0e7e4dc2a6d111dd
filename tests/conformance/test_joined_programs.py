"""Joined calls against a model: whatever fails and is caught, only the rest is committed."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward.client import Onceward
from tests.support.evidence import Entry, Evidence
from tests.support.joined_programs import Program, Step, programs
from tests.support.proof_length import examples_for, run_examples

#: What a slice must come to, or it proves nothing.
REACHED = ("block undone", "call undone", "savepoint undone")


@pytest.mark.prove
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_h49_caught_nested_errors_agree_with_the_model(
    ow: Onceward, is_async: bool, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Rows, outcomes and last statements of failed calls are gone, and those of the rest stay."""
    seen: Counter[str] = Counter()
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key)")

    @settings(
        max_examples=examples_for(ow, prove=prove, soak=soak, short=60),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), st.sampled_from([False, False, False, True]))
    def holds(steps: list[Step], is_rolled_back: bool) -> None:
        with ow.transaction() as tx:
            tx.execute("delete from effects")
        program = Program(ow, is_async=is_async, seen=seen)
        program.run(steps, is_rolled_back=is_rolled_back)
        seen["programs"] += 1
        seen["rows"] += len(program.kept.rows)

    run_examples(holds, counts=seen, must_reach=REACHED)
    undone = {what: count for what, count in seen.items() if what.endswith("undone")}
    evidence.record(
        Entry(
            campaign=f"caught nested errors in {'async' if is_async else 'plain'} joined calls",
            layer="simulation",
            claims=("I3",),
            engine=ow.store.engine,
            schedules=seen["programs"],
            faults=undone,
            work=seen["rows"],
            reached={what: seen[what] for what in REACHED},
        )
    )

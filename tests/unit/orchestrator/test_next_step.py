"""Deciding: the next step follows from the ledger alone, so every later life takes the same one."""

from __future__ import annotations

import pytest

from onceward.errors import LedgerDamaged
from onceward.journal import Record
from onceward.orchestrator.ledger_replay import CommandState, replay
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.task_flow import AGENTS, DONE, FLOW, next_stage
from tests.support.simulated_run import SimulatedRun, approving, event, keys, two_rounds

STAGES = ["implement", "review", "update_spec"]


def test_a_task_goes_through_its_stages_and_the_next_one_follows() -> None:
    """Without complaints: three commands a task, in order, then the run is done."""
    state = SimulatedRun().run(approving)
    assert state.status == "done"
    assert [(each.task_id, each.stage) for each in state.commands] == [
        (task, stage) for task in ("T-1", "T-2") for stage in STAGES
    ]
    assert {each.round for each in state.commands} == {1}


def test_changes_lead_to_new_rounds_with_keys_of_their_own() -> None:
    """Review and specification each ask for changes once; every command is different work."""
    state = SimulatedRun().run(two_rounds)
    assert [(each.stage, each.round) for each in state.of_task("T-1")] == [
        ("implement", 1),
        ("review", 1),
        ("implement_changes", 1),
        ("review", 2),
        ("update_spec", 1),
        ("implement_changes", 2),
        ("review", 3),
        ("update_spec", 2),
    ]
    assert len({each.key for each in state.commands}) == len(state.commands)
    asked = state.of_task("T-1")
    assert asked[2].message["inputs"]["changes"] == {"comments": ["name it better"]}
    assert asked[5].message["inputs"]["changes"] == {"comments": ["the spec says otherwise"]}
    assert "round" not in asked[1].message["inputs"]
    assert asked[3].message["inputs"]["round"] == 2
    assert len(asked[3].message["inputs"]["previous"]) == 64


@pytest.mark.parametrize("answers", [approving, two_rounds])
def test_h23_h24_every_prefix_of_a_ledger_leads_to_the_same_run(
    answers: object,
) -> None:
    """Cut after any record and gone on with: the same commands, the same keys, never done early."""
    assert callable(answers)
    whole = SimulatedRun()
    whole.run(answers)
    for length in range(1, len(whole.records)):
        resumed = SimulatedRun(whole.records[:length])
        assert resumed.state.status != "done", length
        ended = resumed.run(answers)
        assert keys(ended) == keys(whole.state), length
        assert ended.status == "done"


def test_h25_the_same_answer_in_the_next_round_is_new_work() -> None:
    """A reviewer who says the same twice is asked a third time with a third key."""

    def stubborn(asked: CommandState) -> Record:
        if asked.stage == "review" and asked.round < 4:
            return event("review.completed", "changes_requested", comments=["again"])
        return approving(asked)

    state = SimulatedRun().run(stubborn)
    reviews = [each.key for each in state.of_task("T-1") if each.stage == "review"]
    assert len(reviews) == len(set(reviews)) == 4
    assert state.status == "done"


def test_rounds_are_limited_and_the_reason_says_so() -> None:
    """A loop that never ends is ended."""

    def never(asked: CommandState) -> Record:
        if asked.stage == "review":
            return event("review.completed", "changes_requested")
        return approving(asked)

    state = SimulatedRun().run(never, RunLimits(rounds_max=3))
    assert state.status == "failed"
    assert state.reason == "review of T-1 would be round 4, and 3 are allowed"


def test_h26_an_error_is_retried_by_policy_then_the_run_fails_with_it() -> None:
    """Retryable ones as often as allowed, with the same key; others at once."""

    def failing(*, retryable: bool, times: int) -> object:
        def answer(asked: CommandState) -> Record:
            if asked.stage == "review" and asked.failures < times:
                return {"code": "BUSY", "message": "try later", "retryable": retryable}
            return approving(asked)

        return answer

    for retryable, times, sent, status in [
        (True, 2, 3, "done"),
        (True, 9, 3, "failed"),
        (False, 9, 1, "failed"),
    ]:
        answers = failing(retryable=retryable, times=times)
        assert callable(answers)
        state = SimulatedRun().run(answers)
        assert state.status == status
        assert state.of_task("T-1")[1].sent == sent
        if status == "failed":
            assert state.reason is not None
            assert state.reason.endswith("BUSY: try later")


def test_a_retry_of_a_failed_run_is_a_new_round() -> None:
    """The failed command is given up; the same stage is asked again, under another key."""

    def broken(asked: CommandState) -> Record:
        if asked.stage == "review":
            return {"code": "BROKEN", "message": "no", "retryable": False}
        return approving(asked)

    paper = SimulatedRun()
    assert paper.run(broken).status == "failed"
    paper.note("run.resumed", retry=True, rounds_granted=5)
    state = paper.run(approving)
    assert state.status == "done"
    failed, again = [each for each in state.of_task("T-1") if each.stage == "review"]
    assert (failed.state, again.round) == ("abandoned", 2)
    assert failed.key != again.key


def test_a_failed_change_is_retried_with_what_was_to_be_changed() -> None:
    """The builder died over the changes; the retry still knows them."""

    def broken(asked: CommandState) -> Record:
        if asked.stage == "implement_changes":
            return {"code": "BROKEN", "message": "no", "retryable": False}
        return two_rounds(asked)

    paper = SimulatedRun()
    paper.run(broken)
    paper.note("run.resumed", retry=True, rounds_granted=5)
    paper.run(two_rounds)
    again = [each for each in paper.state.of_task("T-1") if each.stage == "implement_changes"][1]
    assert again.message["inputs"]["changes"] == {"comments": ["name it better"]}


def test_a_step_whose_artifact_changed_is_done_again_and_only_that() -> None:
    """The others keep their receipts; the run goes on where it was."""
    paper = SimulatedRun()
    paper.run(approving, steps=9)
    done = [each.step for each in paper.state.commands if each.state == "done"]
    paper.note("redo", step=1, path="a.py", problem="gone")
    state = paper.run(approving)
    assert state.status == "done"
    assert state.commands[0].sent == 2
    assert all(each.sent == 1 for each in state.commands[1:])
    assert 1 in done


def test_accepted_drift_pins_what_follows_and_what_was_sent_keeps_its_key() -> None:
    """Commands that were sent are read from the ledger; the next starts from what is there."""
    paper = SimulatedRun()
    paper.run(approving, steps=1)
    paper.note("drift.accepted", **{"from": "snap-T-1", "to": "snap-new"})
    assert "T-1" not in paper.state.pinned  # Without a command, the task starts again.
    paper.run(approving, steps=4)
    assert paper.state.pinned["T-1"] == "snap-T-1"
    sent = keys(paper.state)
    paper.note("drift.accepted", **{"from": "snap-new", "to": "snap-newer"})
    assert paper.state.pinned["T-1"] == "snap-newer"
    assert keys(paper.run(approving))[: len(sent)] == sent


def test_a_missing_record_is_damage() -> None:
    """A gap in the numbers means that something was lost; no run goes on from that."""
    paper = SimulatedRun()
    paper.run(approving)
    with pytest.raises(LedgerDamaged, match="lacks record 4"):
        replay([*paper.records[:3], *paper.records[4:]])


def test_the_flow_is_closed() -> None:
    """Every answer leads to a stage that exists, every stage is reached, every agent is asked."""
    reached = {name for stage in FLOW.values() for name in stage.on.values()}
    assert reached == {*FLOW, DONE} - {"implement"}
    assert {stage.agent for stage in FLOW.values()} == set(AGENTS)
    assert next_stage(FLOW["review"], event("review.completed", "perhaps")) is None
    assert next_stage(FLOW["review"], event("builder.completed")) is None

"""Results: what a handler returns is the right event of its agent, or is refused."""

import pytest

from onceward.agents import messages, results
from onceward.agents.results import Result
from onceward.errors import InvalidArgument
from tests.unit.agents.samples import an_event

ANSWERS = [
    ("builder", results.completed(), "builder.completed", None),
    ("builder", results.completed(tests="fail"), "builder.completed", None),
    ("reviewer", results.approved(), "review.completed", "approved"),
    ("reviewer", results.changes_requested(["a"]), "review.completed", "changes_requested"),
    ("spec_maintainer", results.spec_updated(artifacts=["SPEC.md"]), "spec.updated", None),
    ("spec_maintainer", results.no_changes_needed(), "spec.no_changes_needed", None),
    ("spec_maintainer", results.changes_requested("b"), "spec.changes_requested", None),
]


@pytest.mark.parametrize(("agent", "result", "event", "status"), ANSWERS)
def test_a_result_is_an_event(agent: str, result: Result, event: str, status: str | None) -> None:
    """Each answer of each agent has its event, and that event has a valid shape."""
    assert results.event_of(agent, result) == (event, status)
    messages.check(an_event(event=event, status=status, payload=result.payload, agent_type=agent))


def test_an_agent_cannot_give_the_answer_of_another() -> None:
    """The refusal names the answers that this agent has."""
    with pytest.raises(InvalidArgument) as caught:
        results.event_of("reviewer", results.completed())
    assert caught.value.fix == "answer one of approved, changes_requested"


def test_payloads_carry_what_the_helpers_say() -> None:
    """Tests, allowed failures and comments stand in the payload beside what the caller adds."""
    result = results.completed(tests="fail", allowed_failures=["test_a"], payload={"n": 1})
    assert result.payload == {"n": 1, "tests": {"status": "fail", "allowed_failures": ["test_a"]}}
    assert results.changes_requested("one").payload == {"comments": ["one"]}
    assert results.changes_requested(["a", {"line": 3}]).payload == {"comments": ["a", {"line": 3}]}


def test_one_path_is_no_list_of_paths() -> None:
    """A text in place of a list would be taken for a list of letters."""
    with pytest.raises(InvalidArgument, match="list of paths"):
        results.completed(artifacts="main.py")


def test_failures_are_not_worth_keeping() -> None:
    """An error, and tests that fail unexplained, may be tried again under the same key."""
    assert results.is_success("review.completed", {})
    assert results.is_success("builder.completed", {"tests": {"status": "pass"}})
    allowed = {"status": "fail", "allowed_failures": ["test_a"]}
    assert results.is_success("builder.completed", {"tests": allowed})
    assert not results.is_success("builder.completed", {"tests": {"status": "fail"}})
    assert not results.is_success("error", {})

"""Results: what a handler returns is the right event of its agent, or is refused."""

import pytest

from onceward.agents import handler_results, protocol
from onceward.agents.handler_results import HandlerResult
from onceward.errors import InvalidArgument
from tests.support.agent_messages import an_event

ANSWERS = [
    ("builder", handler_results.completed(), "builder.completed", None),
    ("builder", handler_results.completed(tests="fail"), "builder.completed", None),
    ("reviewer", handler_results.approved(), "review.completed", "approved"),
    ("reviewer", handler_results.changes_requested(["a"]), "review.completed", "changes_requested"),
    ("spec_maintainer", handler_results.spec_updated(artifacts=["SPEC.md"]), "spec.updated", None),
    ("spec_maintainer", handler_results.no_changes_needed(), "spec.no_changes_needed", None),
    ("spec_maintainer", handler_results.changes_requested("b"), "spec.changes_requested", None),
]


@pytest.mark.parametrize(("agent", "result", "event", "status"), ANSWERS)
def test_a_result_is_an_event(
    agent: str, result: HandlerResult, event: str, status: str | None
) -> None:
    """Each answer of each agent has its event, and that event has a valid shape."""
    assert handler_results.event_of(agent, result) == (event, status)
    protocol.check(an_event(event=event, status=status, payload=result.payload, agent_type=agent))


def test_an_agent_cannot_give_the_answer_of_another() -> None:
    """The refusal names the answers that this agent has."""
    with pytest.raises(InvalidArgument) as caught:
        handler_results.event_of("reviewer", handler_results.completed())
    message = "status: a reviewer cannot answer 'completed', only approved or changes_requested"
    assert caught.value.message == message


@pytest.mark.parametrize("name", ["artifacts", "read"])
def test_one_path_is_not_a_list_of_paths(name: str) -> None:
    """A text would be read as a list of its characters."""
    with pytest.raises(InvalidArgument, match=f"^{name}: is one path") as caught:
        HandlerResult(**{"status": "approved", name: "src/a.py"})  # type: ignore[arg-type]
    assert caught.value.fix == f'pass a list, such as {name}=["src/a.py"]'


def test_payloads_carry_what_the_helpers_say() -> None:
    """Tests, allowed failures and comments stand in the payload beside what the caller adds."""
    result = handler_results.completed(tests="fail", allowed_failures=["test_a"], payload={"n": 1})
    assert result.payload == {"n": 1, "tests": {"status": "fail", "allowed_failures": ["test_a"]}}
    assert handler_results.changes_requested("one").payload == {"comments": ["one"]}
    assert handler_results.changes_requested(["a", {"line": 3}]).payload == {
        "comments": ["a", {"line": 3}]
    }


def test_one_path_is_no_list_of_paths() -> None:
    """A text in place of a list would be taken for a list of letters."""
    with pytest.raises(InvalidArgument, match="list of paths"):
        handler_results.completed(artifacts="main.py")


def test_failures_are_not_worth_keeping() -> None:
    """An error, and tests that fail unexplained, may be tried again under the same key."""
    assert handler_results.is_success("review.completed", {})
    assert handler_results.is_success("builder.completed", {"tests": {"status": "pass"}})
    allowed = {"status": "fail", "allowed_failures": ["test_a"]}
    assert handler_results.is_success("builder.completed", {"tests": allowed})
    assert not handler_results.is_success("builder.completed", {"tests": {"status": "fail"}})
    assert not handler_results.is_success("error", {})

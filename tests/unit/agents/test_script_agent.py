"""Scenarios and the agent that plays them: what may be said, and what it does."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import protocol
from onceward.agents.scenarios import parse_scenario, read_scenario
from onceward.agents.script_agent import script_agent
from onceward.errors import FileMissing, InvalidArgument
from tests.support.agent_processes import TYPE_OF_ACTION, command


def play(workspace: Path, scenario: dict[str, Any], *commands: dict[str, Any]) -> list[Any]:
    """Play a scenario in this process and return the answers."""
    asked, output = io.BytesIO(b"".join(map(protocol.encode, commands))), io.BytesIO()
    agent_type = commands[0]["to"]["agent_type"]
    environ = {"ONCEWARD_WORKSPACE": str(workspace)}
    agent = script_agent(parse_scenario(scenario), agent_type, wire=output, environ=environ)
    agent.run(asked, output)
    found = [protocol.decode(line) for line in output.getvalue().splitlines()]
    return [each for each in found if each["kind"] == "event" and protocol.is_terminal(each)]


def rounds(action: str, count: int, **fields: Any) -> list[dict[str, Any]]:
    given: list[dict[str, Any]] = [{"goal": "x"}]
    given += [{"goal": "x", "round": number} for number in range(2, count + 1)]
    return [command(action, inputs, **fields) for inputs in given]


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ([], "scenario must be an object"),
        ({"acts": {}}, "scenario.acts is not known here"),
        ({"actions": []}, "scenario: actions must be an object"),
        ({"actions": {"build": []}}, "scenario: actions.build is not an action"),
        ({"actions": {"review": 3}}, "scenario: actions.review must be a list"),
        ({"actions": {"review": {"rounds": []}}}, "actions.review.rounds is empty"),
        ({"actions": {"review": {"round": []}}}, "actions.review.round is not known here"),
        ({"actions": {"review": {"rounds": [[], 3]}}}, "actions.review.rounds[1] must be a list"),
        ({"actions": {"review": [3]}}, "actions.review[0] must be an object"),
        ({"actions": {"review": [{}]}}, "actions.review[0] must have exactly one step, not 0"),
        ({"actions": {"review": [{"dance": 1}]}}, "actions.review[0].dance is not a step"),
        (
            {"tasks": {"T-1": {"review": [{"delay": -1}]}}},
            "T-1.review[0].delay must be seconds from 0",
        ),
        ({"count": ""}, "scenario: count must be non-empty text"),
    ],
)
def test_a_wrong_scenario_is_refused_by_place(scenario: Any, says: str) -> None:
    """The path in the file, what is wrong, and what would be right."""
    with pytest.raises(InvalidArgument) as caught:
        parse_scenario(scenario)
    assert says in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"answer": []}, "answer is empty"),
        ({"answer": {"status": "fine"}}, "answer.status must be one of approved,"),
        ({"answer": [{}, {"tests": "maybe"}]}, "answer[1].tests must be one of pass, fail"),
        ({"answer": {"payload": []}}, "answer.payload must be an object"),
        ({"answer": {"verdict": "x"}}, "answer.verdict is not known here"),
        ({"write": {"path": "a"}}, "write.content is missing"),
        ({"write": {"path": "a", "content": 3}}, "write.content must be text"),
        ({"delay": "long"}, "delay must be seconds from 0"),
        ({"delay": True}, "delay must be seconds from 0"),
        ({"progress": ""}, "progress must be non-empty text"),
        ({"error": {"code": "E"}}, "error.message is missing"),
        ({"error": {"code": "no code", "message": "x"}}, "error.code must be 1 to 64 capitals"),
        ({"error": {"code": "E", "message": "x", "retryable": 1}}, "error.retryable must be"),
        ({"flood": {"lines": 0, "bytes": 1}}, "flood.lines must be a whole number"),
        ({"flood": {"lines": 1, "bytes": 1, "to": "me"}}, "flood.to must be one of stdout"),
        ({"crash": "exit:300"}, "crash must be kill or exit:0"),
        ({"crash": 9}, "crash must be kill or exit:0"),
        ({"garbage": 1}, "garbage must be text"),
        ({"silence": False}, "silence must be true"),
        ({"oversized": 0}, "oversized must be a whole number"),
        ({"send": []}, "send must be an object"),
        ({"count": 1}, "count must be non-empty text"),
        ({"delay": 1, "progress": "x"}, "must have exactly one step, not 2"),
        ({"delay": 1, "once": "yes"}, "once must be true or false"),
    ],
)
def test_a_wrong_step_is_refused_by_place(step: dict[str, Any], says: str) -> None:
    """Every step says what it takes."""
    with pytest.raises(InvalidArgument) as caught:
        parse_scenario({"actions": {"implement": [step]}})
    assert caught.value.message.startswith("scenario: actions.implement[0]")
    assert says in caught.value.message


def test_a_file_that_is_no_scenario_is_refused(tmp_path: Path) -> None:
    """Missing, or no JSON."""
    with pytest.raises(FileMissing):
        read_scenario(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InvalidArgument, match="bad.json is not valid JSON"):
        read_scenario(tmp_path / "bad.json")
    (tmp_path / "good.json").write_text(json.dumps({"actions": {"review": []}}))
    assert read_scenario(tmp_path / "good.json").actions == {"review": ((),)}


@pytest.mark.parametrize(
    ("action", "event", "status"),
    [
        ("implement", "builder.completed", None),
        ("implement_changes", "builder.completed", None),
        ("review", "review.completed", "approved"),
        ("update_spec", "spec.no_changes_needed", None),
    ],
)
def test_an_empty_scenario_is_content_with_everything(
    tmp_path: Path, action: str, event: str, status: str | None
) -> None:
    """What is not said goes well."""
    (answer,) = play(tmp_path, {}, command(action))
    assert (answer["event"], answer.get("status")) == (event, status)
    assert answer["from"]["agent_type"] == TYPE_OF_ACTION[action]


def test_rounds_have_steps_of_their_own(tmp_path: Path) -> None:
    """The last ones are those of every later round, and contents follow the rounds too."""
    scenario = {
        "actions": {
            "implement_changes": {
                "rounds": [
                    [{"write": {"path": "a.txt", "content": "first"}}],
                    [{"write": {"path": "b.txt", "content": ["1", "2", "3 of {task_id}"]}}],
                ]
            }
        }
    }
    answers = play(tmp_path, scenario, *rounds("implement_changes", 4))
    named = [[each["path"] for each in answer["artifacts"]] for answer in answers]
    assert named == [["a.txt"], ["b.txt"], ["b.txt"], ["b.txt"]]
    assert (tmp_path / "b.txt").read_text() == "3 of T-0001"


def test_a_spec_maintainer_that_writes_has_updated(tmp_path: Path) -> None:
    """Unless its scenario says something else."""
    write = {"write": {"path": "SPEC.md", "content": "v{round}"}}
    first, second = play(
        tmp_path,
        {
            "actions": {
                "update_spec": [
                    write,
                    {"answer": [{}, {"status": "changes_requested", "comments": ["{task_id}!"]}]},
                ]
            }
        },
        *rounds("update_spec", 2),
    )
    assert first["event"] == "spec.updated"
    assert (second["event"], second["payload"]["comments"]) == (
        "spec.changes_requested",
        ["T-0001!"],
    )


def test_answers_of_a_builder(tmp_path: Path) -> None:
    """Tests by word or whole, allowed failures, and artifacts that were there before."""
    (tmp_path / "old.txt").write_text("x")
    answers = [
        {"tests": "fail", "allowed_failures": ["a"], "artifacts": ["old.txt"]},
        {"tests": {"status": "pass", "count": 3}, "payload": {"x": 1}},
        {"artifacts": ["../x"]},
        {"status": "approved"},
    ]
    first, second, third, fourth = play(
        tmp_path,
        {"actions": {"implement": [{"answer": answers}]}},
        *rounds("implement", 4),
    )
    assert first["payload"]["tests"] == {"status": "fail", "allowed_failures": ["a"]}
    assert [each["path"] for each in first["artifacts"]] == ["old.txt"]
    assert second["payload"] == {"x": 1, "tests": {"status": "pass", "count": 3}}
    assert third["payload"]["code"] == "BAD_RESULT"
    assert fourth["payload"]["code"] == "BAD_RESULT"


@pytest.mark.parametrize("path", ["/etc/x", "../x", "link/x", "state/x"])
def test_nothing_is_written_elsewhere(tmp_path: Path, path: str) -> None:
    """A scenario writes the user's files in the workspace and no others."""
    (tmp_path / "link").symlink_to("/tmp")
    scenario = {"actions": {"implement": [{"write": {"path": path, "content": "x"}}]}}
    (answer,) = play(tmp_path, scenario, command())
    assert answer["event"] == "error"


def test_single_steps_can_count(tmp_path: Path) -> None:
    """A file may lie anywhere, such as beside the workspace; failures are not completed."""
    (tmp_path / "work").mkdir()
    path = tmp_path / "counts" / "{task_id}.txt"
    failing = {"error": {"code": "NO", "message": "no"}}
    scenario = {
        "actions": {"implement": [{"count": str(path)}]},
        "tasks": {"T-0002": {"implement": [{"count": str(path)}, failing]}},
    }
    asked = [command(), command(), command(task_id="T-0002")]
    answers = play(tmp_path / "work", scenario, *asked)
    assert [each["event"] for each in answers][-1] == "error"
    keys = [each["idempotency_key"] for each in asked]
    counted = (tmp_path / "counts" / "T-0001.txt").read_text()
    assert counted == f"started {keys[0]}\ncompleted {keys[0]}\n"
    assert (tmp_path / "counts" / "T-0002.txt").read_text() == f"started {keys[2]}\n"


def test_once_is_once_for_each_command(tmp_path: Path) -> None:
    """Another task, or another round, has a first time of its own."""
    failing = {"error": {"code": "NO", "message": "no", "retryable": True}, "once": True}
    scenario = {"actions": {"implement": [failing]}}
    for task_id in ("T-0001", "T-0002"):
        events = [play(tmp_path, scenario, command(task_id=task_id))[0]["event"] for _ in range(2)]
        assert events == ["error", "builder.completed"]

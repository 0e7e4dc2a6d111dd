"""Task files: which are there, what they say, and how a mistake in one is reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import FileMissing, InvalidArgument, InvalidJson, WrongPath
from onceward.orchestrator.models import AgentTask
from onceward.orchestrator.tasks import list_tasks, load_task
from onceward.system.redaction import Redactor

NO_SECRETS = Redactor()


def write(place: Path, name: str = "T-1", **fields: Any) -> Path:
    path = place / "tasks" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    task = {"id": name, "goal": "do it", **fields}
    path.write_text(json.dumps({key: value for key, value in task.items() if value is not ...}))
    return path


def test_a_task_is_read(tmp_path: Path) -> None:
    """Goal, inputs and outputs; an output is required unless it says otherwise."""
    outputs = [{"path": "a.py"}, {"path": "b.py", "required": False, "description": "more"}]
    write(tmp_path, inputs={"n": [1, 2]}, expected_outputs=outputs)
    assert load_task(tmp_path, "T-1", redactor=NO_SECRETS) == AgentTask(
        id="T-1",
        goal="do it",
        inputs={"n": [1, 2]},
        expected_outputs=(
            {"path": "a.py", "required": True},
            {"path": "b.py", "description": "more", "required": False},
        ),
    )


def test_a_goal_is_enough(tmp_path: Path) -> None:
    """The file's name is the id."""
    write(tmp_path, id=...)
    assert load_task(tmp_path, "T-1") == AgentTask(id="T-1", goal="do it")


def test_tasks_lie_where_the_config_says(tmp_path: Path) -> None:
    """The directory has another name if one is given."""
    write(tmp_path)
    (tmp_path / "tasks").rename(tmp_path / "todo")
    assert list_tasks(tmp_path) == []
    assert list_tasks(tmp_path, tasks_dir="todo") == ["T-1"]
    assert load_task(tmp_path, "T-1", tasks_dir="todo").goal == "do it"


def test_listing_names_what_has_a_file(tmp_path: Path) -> None:
    """Sorted; other files, links and directories are no tasks."""
    for name in ("T-2", "T-10", "T-1"):
        write(tmp_path, name)
    (tmp_path / "tasks" / "notes.txt").write_text("x")
    (tmp_path / "tasks" / ".json").write_text("x")
    (tmp_path / "tasks" / "sub.json").mkdir()
    (tmp_path / "tasks" / "link.json").symlink_to("T-1.json")
    assert list_tasks(tmp_path) == ["T-1", "T-10", "T-2"]


def test_tasks_must_be_in_a_directory(tmp_path: Path) -> None:
    """The fix asks for a directory, not for a file."""
    (tmp_path / "tasks").write_text("")
    with pytest.raises(WrongPath, match="tasks") as caught:
        load_task(tmp_path, "T-1")
    assert caught.value.fix == "pass the path of a directory, without symbolic links"


def test_an_unknown_task_error_lists_existing_tasks(tmp_path: Path) -> None:
    """The nearest one is what was probably meant."""
    write(tmp_path, "T-0042")
    write(tmp_path, "other")
    with pytest.raises(FileMissing) as caught:
        load_task(tmp_path, "T-042")
    assert caught.value.message == "there is no task T-042; the tasks are T-0042, other"
    assert caught.value.fix == f"pass T-0042, or write {tmp_path}/tasks/T-042.json"
    with pytest.raises(FileMissing) as caught:
        load_task(tmp_path, "zzz")
    assert caught.value.fix.endswith("tasks/zzz.json")


def test_without_tasks_it_says_where_to_write_one(tmp_path: Path) -> None:
    """Neither an empty nor a missing directory is an error of its own."""
    with pytest.raises(FileMissing, match="has no tasks") as caught:
        load_task(tmp_path, "T-1")
    assert "tasks/T-1.json" in caught.value.fix


def test_many_tasks_are_not_all_named(tmp_path: Path) -> None:
    """A message stays short."""
    for number in range(30):
        write(tmp_path, f"T-{number:04}")
    with pytest.raises(FileMissing, match="and 10 more"):
        load_task(tmp_path, "nothing")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../T-1", "a/b", "-x", "a b", "a\n", "x" * 65, "é", "a\0"]
)
def test_an_id_is_a_plain_name(tmp_path: Path, name: str) -> None:
    """Nothing that leads elsewhere is looked for."""
    with pytest.raises(InvalidArgument, match="is not a task id"):
        load_task(tmp_path, name)


@pytest.mark.parametrize(
    ("fields", "where", "problem", "fix"),
    [
        ({"id": "T-2"}, "id", "is 'T-2', but the file is named T-1.json", "rename"),
        ({"id": 3}, "id", "is 3", '"id": "T-1"'),
        ({"goal": ...}, "goal", "is missing", '"goal": "'),
        ({"goal": ""}, "goal", "must not be empty", '"goal": "'),
        ({"goal": 3}, "goal", "must be text, not a number", '"goal": "'),
        ({"gaol": "x"}, "gaol", "is not known", "'goal'"),
        ({"inputs": []}, "inputs", "must be an object, not a list", '"inputs": {'),
        (
            {"inputs": {"goal": "x"}},
            "inputs.goal",
            "is reserved: every run sets it",
            "beside inputs",
        ),
        (
            {"inputs": {"round": 1}},
            "inputs.round",
            "is reserved: every run sets it",
            "another name",
        ),
        ({"inputs": {"previous": 1}}, "inputs.previous", "is reserved", "another name"),
        ({"inputs": {"changes": 1}}, "inputs.changes", "is reserved", "another name"),
        ({"inputs": {"a": ["\ud800"]}}, "inputs.a[0]", "surrogate", ""),
        ({"expected_outputs": {}}, "expected_outputs", "must be a list", '[{"path"'),
        ({"expected_outputs": ["a"]}, "expected_outputs[0]", "must be an object", '{"path"'),
        ({"expected_outputs": [{}]}, "expected_outputs[0].path", "is missing", '{"path"'),
        (
            {"expected_outputs": [{"path": "a", "require": True}]},
            "expected_outputs[0].require",
            "is not known",
            "'required'",
        ),
        (
            {"expected_outputs": [{"path": "a", "required": "yes"}]},
            "expected_outputs[0].required",
            "must be true or false, not text",
            "true",
        ),
        (
            {"expected_outputs": [{"path": "a"}, {"path": "a"}]},
            "expected_outputs[1].path",
            "a second time",
            "remove it",
        ),
        ({"expected_outputs": [{"path": "a"}] * 1001}, "expected_outputs", "at most 1000", ""),
        *(
            (
                {"expected_outputs": [{"path": path}]},
                "expected_outputs[0].path",
                "",
                "inside the workspace",
            )
            for path in ("/etc/passwd", "../x", "a/../../x", "state/x", ".git/config")
        ),
    ],
)
def test_a_mistake_is_reported_with_its_file_and_field(
    tmp_path: Path, fields: dict[str, Any], where: str, problem: str, fix: str
) -> None:
    """The file, the field, what is wrong there, and what to write."""
    path = write(tmp_path, **fields)
    with pytest.raises(InvalidArgument) as caught:
        load_task(tmp_path, "T-1")
    assert caught.value.message.startswith(f"{path}: {where}: ")
    assert problem in caught.value.message
    assert fix in caught.value.fix


def test_broken_json_is_reported_by_line_and_column(tmp_path: Path) -> None:
    """The file is named, too."""
    path = write(tmp_path)
    path.write_text('{"goal":\n oops}')
    with pytest.raises(InvalidJson, match=f"{path}: not JSON: .* at line 2, column 2"):
        load_task(tmp_path, "T-1")


def test_a_task_that_fits_no_command_is_refused(tmp_path: Path) -> None:
    """Large material is named by its path, not carried in the task."""
    write(tmp_path, inputs={"text": "x" * 200_000})
    with pytest.raises(InvalidArgument, match="larger than 131072 bytes"):
        load_task(tmp_path, "T-1")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither a task nor the directory of tasks leads out of the workspace."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere)
    inside = tmp_path / "inside"
    (inside / "tasks").mkdir(parents=True)
    (inside / "tasks" / "T-1.json").symlink_to(elsewhere / "tasks" / "T-1.json")
    with pytest.raises(InvalidArgument):
        load_task(inside, "T-1")


def test_inputs_that_change_at_every_attempt_are_warned_about(tmp_path: Path) -> None:
    """A timestamp in the inputs gives every run another key."""
    write(tmp_path, inputs={"meta": {"started_at": "2026-03-01T09:30:00Z"}})
    warnings: list[str] = []
    task = load_task(tmp_path, "T-1", warn=warnings.append)
    assert task.inputs["meta"] == {"started_at": "2026-03-01T09:30:00Z"}
    (warning,) = warnings
    assert "tasks/T-1.json: inputs.meta.started_at has a name" in warning


def test_h32_secrets_in_a_task_are_left_out(tmp_path: Path) -> None:
    """What the environment holds as a secret never gets from a task into a ledger."""
    secret = "correct-horse-battery"
    redactor = Redactor.from_environment({"SERVICE_TOKEN": secret})
    write(tmp_path, goal=f"log in with {secret}", inputs={"deep": [{"x": secret}], "y": 1})
    warnings: list[str] = []
    task = load_task(tmp_path, "T-1", redactor=redactor, warn=warnings.append)
    assert secret not in str(task)
    assert task.inputs["y"] == 1
    assert secret not in str(warnings)
    assert len(warnings) == 2
    assert "goal contains a secret" in warnings[0]
    assert "inputs.deep[0].x contains a secret" in warnings[1]
    assert "in its environment instead" in warnings[1]


def test_the_environment_says_what_is_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets are redacted without a redactor from the caller."""
    monkeypatch.setenv("MY_PASSWORD", "open-sesame-1")
    write(tmp_path, inputs={"x": "open-sesame-1"})
    assert load_task(tmp_path, "T-1").inputs == {"x": "[redacted]"}

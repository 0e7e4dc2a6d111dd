"""New workspaces: what is made, what is kept, and that it can be used at once."""

import json
import stat
from pathlib import Path

import pytest

from onceward.agents.scenarios import read_scenario
from onceward.errors import Conflict, StorageError
from onceward.orchestrator.config import check_programs, load_config
from onceward.orchestrator.scaffold import create_workspace
from onceward.orchestrator.tasks import list_tasks, load_task
from onceward.system import crash_points

FILES = (
    "agents/builder.json",
    "agents/reviewer.json",
    "agents/spec_maintainer.json",
    "tasks/T-0001.json",
    ".gitignore",
    "onceward.json",
)


@pytest.mark.parametrize("example", [False, True])
def test_a_new_workspace_is_one_that_we_accept(tmp_path: Path, example: bool) -> None:
    """Its config, tasks and scenarios pass the checks of those who read them."""
    started = create_workspace(tmp_path / "demo", example=example)
    config = load_config(started.workspace)
    check_programs(config)
    warnings: list[str] = []
    for task_id in list_tasks(started.workspace):
        load_task(started.workspace, task_id, warn=warnings.append)
    assert warnings == []
    assert started.task_id in list_tasks(started.workspace)
    for spec in config.agents.values():
        read_scenario(started.workspace / spec.command[-1])


def test_everything_made_is_named(tmp_path: Path) -> None:
    """The list is complete, and the config comes last."""
    started = create_workspace(tmp_path)
    assert started.workspace == tmp_path.resolve()
    assert (started.made, started.kept) == (FILES, ())
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(FILES)
    for name in FILES:
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_the_example_adds_a_task_with_a_second_round(tmp_path: Path) -> None:
    """Its reviewer asks for a change once, then agrees."""
    started = create_workspace(tmp_path, example=True)
    assert started.task_id == "T-0002"
    reviewer = read_scenario(tmp_path / "agents" / "reviewer.json")
    statuses = []
    for number in (1, 2, 3):
        (step,) = reviewer.steps(task_id="T-0002", action="review", round=number)
        statuses.append(step.value["status"])
    assert statuses == ["changes_requested", "approved", "approved"]


def test_a_workspace_is_not_made_twice(tmp_path: Path) -> None:
    """A config that is there is refused, and nothing is touched."""
    (tmp_path / "onceward.json").write_text("mine")
    with pytest.raises(Conflict, match="a workspace already") as caught:
        create_workspace(tmp_path)
    assert caught.value.fix
    assert [path.name for path in tmp_path.iterdir()] == ["onceward.json"]
    assert (tmp_path / "onceward.json").read_text() == "mine"


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    """Files of other people, dangling links too, stay as they are."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "T-0001.json").write_text("mine")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "builder.json").symlink_to("nowhere")
    started = create_workspace(tmp_path)
    assert started.kept == ("agents/builder.json", "tasks/T-0001.json")
    assert (tmp_path / "tasks" / "T-0001.json").read_text() == "mine"
    assert (tmp_path / "agents" / "builder.json").is_symlink()


@pytest.mark.parametrize("before", ["", "build/", "build/\n", "/state/\nlogs\n"])
def test_git_ignores_our_folders(tmp_path: Path, before: str) -> None:
    """Lines are added to a file that is there; those that it has are not repeated."""
    (tmp_path / ".gitignore").write_text(before)
    create_workspace(tmp_path)
    lines = (tmp_path / ".gitignore").read_text().splitlines()
    assert lines[: len(before.splitlines())] == before.splitlines()
    names = [line.strip("/") for line in lines]
    for name in ("state", "events", "receipts", "snapshots", "logs", "transcripts"):
        assert names.count(name) == 1


def test_a_complete_gitignore_is_left_alone(tmp_path: Path) -> None:
    """Nothing to add, nothing written."""
    create_workspace(tmp_path)
    (tmp_path / "onceward.json").unlink()
    before = (tmp_path / ".gitignore").stat().st_ino
    assert create_workspace(tmp_path).made == ("onceward.json",)
    assert (tmp_path / ".gitignore").stat().st_ino == before


def test_an_init_that_died_can_be_repeated(tmp_path: Path) -> None:
    """There is no config before everything else is there."""
    for nth in range(1, 7):
        crash_points.arm(f"atomic.write.after_rename:{nth}:raise")
        try:
            with pytest.raises(crash_points.Crashed):
                create_workspace(tmp_path / str(nth))
        finally:
            crash_points.arm(None)
        if nth < 6:
            assert not (tmp_path / str(nth) / "onceward.json").exists()
            create_workspace(tmp_path / str(nth))
        load_config(tmp_path / str(nth))


def test_a_file_is_no_place_for_a_workspace(tmp_path: Path) -> None:
    """The system's error is raised as a StorageError."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        create_workspace(tmp_path / "file")


def test_what_people_edit_is_readable(tmp_path: Path) -> None:
    """The config shows every limit with its default, one on each line."""
    create_workspace(tmp_path)
    text = (tmp_path / "onceward.json").read_text()
    assert '    "rounds_max": 5,\n' in text
    assert json.loads(text)["limits"]["timeout_seconds"]["review"] == 300

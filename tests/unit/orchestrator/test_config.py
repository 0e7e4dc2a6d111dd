"""The configuration of a workspace: what counts, and how a mistake in it is reported."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import FileMissing, InvalidArgument, InvalidJson
from onceward.orchestrator.config import check_programs, closest_name, load_config
from onceward.orchestrator.models import TIMEOUT_SECONDS, RunLimits

AGENTS = {kind: {"command": ["true"]} for kind in ("builder", "reviewer", "spec_maintainer")}


def write(place: Path, **fields: Any) -> Path:
    config = {"schemaVersion": 1, "agents": AGENTS, **fields}
    kept = {name: value for name, value in config.items() if value is not ...}
    (place / "onceward.json").write_text(json.dumps(kept))
    return place


def agents(**fields: Any) -> dict[str, Any]:
    """Three agents, of which the builder is as given."""
    return {**AGENTS, "builder": {"command": ["true"], **fields}}


def refused(place: Path) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        load_config(place)
    assert caught.value.message.startswith(f"{place / 'onceward.json'}: ")
    assert caught.value.fix
    return caught.value


def test_the_least_config_has_defaults(tmp_path: Path) -> None:
    """Agents are all that must be said."""
    config = load_config(write(tmp_path))
    assert config.workspace == tmp_path.resolve()
    assert config.limits == RunLimits()
    assert config.tasks_dir == "tasks"
    assert list(config.agents) == ["builder", "reviewer", "spec_maintainer"]
    assert config.agents["builder"].command == ("true",)
    assert config.agents["builder"].type == "builder"
    assert load_config(tmp_path / "onceward.json") == config


def test_configured_values_are_used(tmp_path: Path) -> None:
    """Limits, timeouts and the place of tasks; timeouts that are not named keep their default."""
    write(
        tmp_path,
        agents=agents(env={"LANG": "C"}),
        limits={"rounds_max": 2, "heartbeat_seconds": 0.5, "timeout_seconds": {"review": 7}},
        tasks_dir="work/tasks/",
    )
    config = load_config(tmp_path)
    assert config.agents["builder"].env == {"LANG": "C"}
    assert (config.limits.rounds_max, config.limits.heartbeat_seconds) == (2, 0.5)
    assert config.limits.timeout_seconds == {**TIMEOUT_SECONDS, "review": 7.0}
    assert config.limits.attempts_max == RunLimits().attempts_max
    assert config.tasks_dir == "work/tasks"


def test_onceward_means_this_installation(tmp_path: Path) -> None:
    """An agent of ours runs whatever the PATH says, and imports nothing from the workspace."""
    write(tmp_path, agents=agents(command=["onceward", "agent", "script", "a.json"]))
    config = load_config(tmp_path)
    expected = (sys.executable, "-P", "-m", "onceward", "agent", "script", "a.json")
    assert config.agents["builder"].command == expected
    check_programs(config)


@pytest.mark.parametrize(
    ("fields", "where", "problem", "fix"),
    [
        ({"schemaVersion": ...}, "schemaVersion", "is missing", '"schemaVersion": 1'),
        ({"schemaVersion": 2}, "schemaVersion", "must be 1", "newer Onceward"),
        ({"schemaVersion": True}, "schemaVersion", "must be 1", '"schemaVersion": 1'),
        ({"schemaVersion": "1"}, "schemaVersion", "must be 1", '"schemaVersion": 1'),
        ({"agent": {}}, "agent", "is not known; known are schemaVersion, agents", "'agents'"),
        ({"zzzzzz": {}}, "zzzzzz", "is not known", "remove it"),
        ({"agents": ...}, "agents", "is missing", '"builder"'),
        ({"agents": []}, "agents", "must be an object, not a list", '"builder"'),
        ({"agents": {}}, "agents.builder", "is missing", '"builder": {"command"'),
        (
            {"agents": {**AGENTS, "reveiwer": {}}},
            "agents.reveiwer",
            "is not known",
            "'reviewer'",
        ),
        ({"agents": {**AGENTS, "builder": "x"}}, "agents.builder", "must be an object", "{"),
        ({"agents": {**AGENTS, "builder": {}}}, "agents.builder.command", "is missing", "["),
        ({"agents": agents(cmd=["x"])}, "agents.builder.cmd", "is not known", "'command'"),
        (
            {"agents": agents(command="python 'my agent.py'")},
            "agents.builder.command",
            "must be a list of words, not one text",
            'write ["python", "my agent.py"]',
        ),
        ({"agents": agents(command="don't")}, "agents.builder.command", "one text", '["python"'),
        ({"agents": agents(command=3)}, "agents.builder.command", "not a number", '["python"'),
        ({"agents": agents(command=[])}, "agents.builder.command", "1 to 1000 words", '["python"'),
        ({"agents": agents(command=[3])}, "agents.builder.command[0]", "must be text", '"python"'),
        ({"agents": agents(command=[" "])}, "agents.builder.command[0]", "empty", '"python"'),
        (
            {"agents": agents(command=["x", "-n", 3])},
            "agents.builder.command[2]",
            "must be text, not a number",
            'write "3"',
        ),
        ({"agents": agents(command=["x", "\0"])}, "agents.builder.command[1]", "NUL", "remove"),
        (
            {"agents": agents(command=["x", "\ud800"])},
            "agents.builder.command[1]",
            "surrogate",
            "remove",
        ),
        ({"agents": agents(env=["x"])}, "agents.builder.env", "must be an object", '"NAME"'),
        ({"agents": agents(env={"N": 3})}, "agents.builder.env.N", "not a number", "quotes"),
        ({"agents": agents(env={"A=B": "x"})}, 'agents.builder.env["A=B"]', "name", "LANG"),
        ({"limits": 3}, "limits", "must be an object, not a number", "rounds_max"),
        ({"limits": {"round_max": 3}}, "limits.round_max", "is not known", "'rounds_max'"),
        ({"limits": {"rounds_max": 0}}, "limits.rounds_max", "from 1 to 1000", "5"),
        ({"limits": {"rounds_max": "5"}}, "limits.rounds_max", "a whole number", "quotes"),
        ({"limits": {"rounds_max": True}}, "limits.rounds_max", "a whole number", "5"),
        ({"limits": {"rounds_max": 2.0}}, "limits.rounds_max", "a whole number", "5"),
        ({"limits": {"heartbeat_seconds": 0}}, "limits.heartbeat_seconds", "above 0", "600"),
        ({"limits": {"heartbeat_seconds": True}}, "limits.heartbeat_seconds", "above 0", "600"),
        (
            {"limits": {"timeout_seconds": 600}},
            "limits.timeout_seconds",
            "must be an object",
            '{"implement": 600}',
        ),
        (
            {"limits": {"timeout_seconds": {"implment": 6}}},
            "limits.timeout_seconds.implment",
            "is not known",
            "'implement'",
        ),
        (
            {"limits": {"timeout_seconds": {"review": "5 min"}}},
            "limits.timeout_seconds.review",
            "must be seconds above 0",
            "600",
        ),
        ({"tasks_dir": 3}, "tasks_dir", "must be text", '"tasks"'),
        ({"tasks_dir": "/tmp"}, "tasks_dir", "", '"tasks"'),
        ({"tasks_dir": "../tasks"}, "tasks_dir", "", '"tasks"'),
        ({"tasks_dir": "state"}, "tasks_dir", "", '"tasks"'),
    ],
)
def test_a_mistake_is_reported_with_place_and_fix(
    tmp_path: Path, fields: dict[str, Any], where: str, problem: str, fix: str
) -> None:
    """The path in the file, what is wrong there, and what to write."""
    error = refused(write(tmp_path, **fields))
    assert error.context["field"] == where
    assert f": {where}: " in error.message
    assert problem in error.message
    assert fix in error.fix


def test_a_value_that_may_be_a_secret_is_not_repeated(tmp_path: Path) -> None:
    """The environment of an agent is not shown, not even when it is wrong."""
    error = refused(write(tmp_path, agents=agents(env={"API_TOKEN": ["hunter2hunter2"]})))
    assert "hunter2" not in str(error.to_dict())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schemaVersion": 1,\n  "agents" {}}', "at line 2, column 12"),
        ("", "at line 1, column 1"),
        ('{"agents": {}, "agents": {}}', "agents"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_json_is_reported_by_line_and_column(tmp_path: Path, text: str, says: str) -> None:
    """An editor by hand finds the place."""
    (tmp_path / "onceward.json").write_text(text)
    with pytest.raises(InvalidJson, match=r"onceward\.json: ") as caught:
        load_config(tmp_path)
    assert says in caught.value.message


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"'])
def test_a_config_is_an_object(tmp_path: Path, text: str) -> None:
    """Other JSON is refused as such."""
    (tmp_path / "onceward.json").write_text(text)
    assert "must be a JSON object" in refused(tmp_path).message


def test_odd_files_are_refused(tmp_path: Path) -> None:
    """Not UTF-8, too large, a directory, a link: each is reported, none is followed."""
    path = tmp_path / "onceward.json"
    path.write_bytes(b'{"\xff": 1}')
    assert "not UTF-8" in refused(tmp_path).message
    path.write_bytes(b" " * (1024 * 1024 + 1))
    assert "larger than" in refused(tmp_path).message
    path.unlink()
    path.mkdir()
    refused(tmp_path)
    path.rmdir()
    path.symlink_to("/dev/zero")
    refused(tmp_path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Some editors write one."""
    path = write(tmp_path) / "onceward.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    load_config(tmp_path)


def test_no_config_says_how_to_get_one(tmp_path: Path) -> None:
    """A directory that is no workspace is not an error of the file."""
    with pytest.raises(FileMissing, match="there is no onceward.json in") as caught:
        load_config(tmp_path)
    assert "onceward init" in caught.value.fix
    with pytest.raises(FileMissing):
        load_config(tmp_path / "nowhere" / "onceward.json")


@pytest.mark.parametrize(
    ("word", "problem"),
    [("no-such-program", "is not on the PATH"), ("./no-such-file", "does not exist")],
)
def test_a_missing_program_is_reported_before_anything_starts(
    tmp_path: Path, word: str, problem: str
) -> None:
    """The first word of each command can be run, from the workspace."""
    config = load_config(write(tmp_path, agents=agents(command=[word])))
    with pytest.raises(InvalidArgument) as caught:
        check_programs(config)
    assert f"agents.builder.command[0]: the program '{word}' {problem}" in caught.value.message


def test_programs_are_looked_for_as_the_agent_would(tmp_path: Path) -> None:
    """Relative to the workspace, and on the PATH that the agent is given."""
    program = tmp_path / "bin" / "agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    config = load_config(write(tmp_path, agents=agents(command=["bin/agent"])))
    with pytest.raises(InvalidArgument, match="is not executable"):
        check_programs(config)
    program.chmod(0o700)
    check_programs(config)
    env = {"PATH": str(program.parent)}
    check_programs(load_config(write(tmp_path, agents=agents(command=["agent"], env=env))))


def test_the_nearest_name_is_suggested() -> None:
    """Spelling and case are forgiven, guesses are not made."""
    assert closest_name("Reviewer", ["builder", "reviewer"]) == "reviewer"
    assert closest_name("xyz", ["builder", "reviewer"]) is None

"""`onceward keys`."""

import json
from pathlib import Path

import pytest

from onceward import keys
from tests.support.command_runner import Run

IK = ["keys", "ik", "--action", "implement", "--task", "T-0042", "--snapshot", "snap-abc123"]
KNOWN = "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"


def test_ik_gives_the_known_answers(run: Run) -> None:
    """The command line agrees with every other implementation."""
    assert run(*IK, "--inputs", '{"goal":"implement feature X"}').out == KNOWN + "\n"
    words = ["--action", "review", "--task", "T-0042", "--snapshot", "snap-test123"]
    ran = run("keys", "ik", *words, "--inputs", '{"goal":"test goal"}', "--outputs", "[]", "--json")
    assert ran.json["key"] == "ik:a1ad6c69202c31c94f7afebf57c1dd2058181d4b66be7a724052a5e0854ea5e1"


def test_json_arguments_come_from_files_and_stdin(run: Run, tmp_path: Path) -> None:
    """`@file` and `-` stand for JSON that is too long to type."""
    path = tmp_path / "inputs.json"
    path.write_text('{"goal": "implement feature X"}')
    assert run(*IK, "--inputs", f"@{path}").out.strip() == KNOWN
    assert run(*IK, "--inputs", "-", stdin=path.read_bytes()).out.strip() == KNOWN


def test_ik_warns_about_ephemeral_inputs(run: Run) -> None:
    """The key is printed, and the warning goes to stderr."""
    ran = run(*IK, "--inputs", '{"started_at": "2026-02-06T12:00:00Z"}')
    assert ran.code == 0
    assert ran.out.startswith("ik:")
    assert ran.err.startswith("warning: inputs.started_at")


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ("{", "inputs: not JSON"),
        ("[1]", "inputs: must be a JSON object"),
        ("@/nowhere/x.json", "inputs: /nowhere/x.json does not exist"),
        ("@/", "inputs: cannot read /"),
        ('{"a": "\\ud800"}', "inputs.a: contains an unpaired surrogate"),
        ('{"a":1,"a":2}', "inputs: not acceptable JSON: the key 'a' appears twice"),
    ],
)
def test_bad_inputs_are_named(run: Run, inputs: str, says: str) -> None:
    """What is wrong with an argument is reported with its name and a fix."""
    ran = run(*IK, "--inputs", inputs)
    assert ran.code in (1, 2)
    assert ran.err.splitlines()[0].startswith(f"error: {says}")
    assert ran.err.splitlines()[1].startswith("fix: ")


def test_canonical(run: Run) -> None:
    """A value is printed as RFC 8785 writes it."""
    assert (
        run("keys", "canonical", '{"b": 1.0, "a": [true, null]}').out == '{"a":[true,null],"b":1}\n'
    )
    assert run("keys", "canonical", "{}", "--json").json["canonical"] == "{}"


def test_explain_names_the_path(run: Run) -> None:
    """Two commands that differ in one nested input are distinguished by that path."""
    left = {"action": "a", "task_id": "t", "snapshot_id": "s", "inputs": {"items": [{"price": 1}]}}
    right = {**left, "inputs": {"items": [{"price": 2}]}}
    ran = run("keys", "explain", json.dumps(left), json.dumps(right))
    assert ran.code == 0
    assert "inputs.items[0].price: 1 → 2" in ran.out
    found = run("keys", "explain", json.dumps(left), json.dumps(left), "--json").json
    assert found["same"] is True
    assert found["differences"] == []


def test_lint_fails_on_findings(run: Run) -> None:
    """A linter's exit code tells a script."""
    assert run("keys", "lint", '{"goal": "x"}').code == 0
    ran = run("keys", "lint", '{"nonce": 1}', "--json")
    assert ran.code == 1
    assert ran.json["findings"][0]["path"] == "inputs.nonce"


def test_snapshot_lists_files(run: Run, tmp_path: Path) -> None:
    """The id is on the first line, the files below it when asked for."""
    (tmp_path / "a.txt").write_text("one")
    ran = run("keys", "snapshot", str(tmp_path), "--files")
    assert ran.out.splitlines()[0] == keys.snapshot(tmp_path).id
    assert ran.out.splitlines()[1].endswith("a.txt")
    assert run("keys", "snapshot", str(tmp_path / "none")).code == 2


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["error", "ENOENT: /home/me/app.py:12:5"], "err#enoent: <path><pos>"),
        (["warning", "left-pad@1.3.0 is deprecated"], "warn#left-pad@<ver> is deprecated"),
        (["dependency", "orjson", "3.13.0"], "dep#orjson@3.13.0"),
        (["dependency", "orjson"], "dep#orjson"),
        (["mode", "reviewer", "2"], "mode#reviewer@2"),
        (["tool", "ruff"], "tool#ruff"),
        (["file", "src/main.py"], "file#src/main.py"),
        (["concept", "fencing"], "concept#fencing"),
        (["doc", "https://example.com/guide"], keys.doc_key("https://example.com/guide")),
        (
            ["fix", "err#x", "--strategy", '"s"', "--changes", "[]"],
            keys.fix_key("err#x", strategy="s", changes=[]),
        ),
        (
            ["command", "make   test", "--cwd", "/r", "--exit", "2"],
            keys.command_key("make test", keys.fp8(cmd="make   test", cwd="/r", exit_code=2)),
        ),
        (
            ["run", "make", "--started-at", "2026-02-06T12:00:00Z"],
            keys.run_key("2026-02-06T12:00:00Z", keys.fp8(cmd="make", cwd="", exit_code=0)),
        ),
    ],
)
def test_stable_keys(run: Run, words: list[str], key: str) -> None:
    """Each kind of value has a key."""
    assert run("keys", "stable", *words).out == key + "\n"
    assert run("keys", "stable", *words, "--json").json == {"key": key}


@pytest.mark.parametrize(
    ("words", "names", "fix"),
    [
        (["file", "a.py", "--cwd", "/r"], "--cwd", "run, command"),
        (["error", "boom", "--exit", "0"], "--exit", "run, command"),
        (["doc", "https://example.com", "2"], "VERSION", "dependency, mode, tool"),
        (["tool", "ruff", "--changes", "[]"], "--changes", "fix"),
        (["command", "make", "--started-at", "2026-02-06T12:00:00Z"], "--started-at", "run"),
        (["run", "make"], "--started-at", "add --started-at 2026"),
        (["fix", "err#x", "--strategy", "1"], "--changes", "add --changes"),
        (["novel", "x"], "novel", "--help"),
    ],
)
def test_an_option_of_another_kind_is_rejected(
    run: Run, words: list[str], names: str, fix: str
) -> None:
    """The error names the option, and its fix the kinds that take it."""
    ran = run("keys", "stable", *words)
    assert (ran.code, ran.out) == (2, "")
    error, said = ran.err.splitlines()
    assert names in error
    assert fix in said

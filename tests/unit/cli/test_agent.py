"""`onceward agent`: its words, and what is refused before any command comes."""

from pathlib import Path
from typing import Any

from onceward.cli.agent import _template
from tests.support.command_runner import Run


def test_bad_words_are_refused_with_a_fix(run: Run) -> None:
    """What is wrong, what would be right, and nothing on stdout, which is the protocol's."""
    cases: list[Any] = [
        (("exec",), "Missing argument 'PROGRAM"),
        (("exec", "--", "true"), "Missing option '--type'"),
        (("exec", "--type", "tester", "true"), "--type: 'tester' is not a type of agent"),
        (("exec", "--type", "builder", "--verdict", "json", "true"), "a builder gives no verdict"),
        (("exec", "--type", "reviewer", "--verdict", "x", "true"), "'x' is not a verdict format"),
        (("exec", "--type", "reviewer", "--check", "x", "true"), "runs no check"),
        (("exec", "--type", "builder", "--timeout", "0", "true"), "--timeout: must be more than 0"),
        (
            ("exec", "--type", "builder", "--actions", "review", "true"),
            "--actions: 'review' is not an action",
        ),
        (("exec", "--type", "builder", "--actions", ",", "true"), "--actions: is empty"),
        (("exec", "--type", "builder", "--prompt-file", "none", "true"), "none does not exist"),
        (("exec", "--type", "builder", "--prompt-file", "/", "true"), "cannot read /"),
        (
            ("exec", "--type", "builder", "--prompt", "a", "--prompt-file", "b", "true"),
            "exclude each other",
        ),
        (("exec", "--type", "builder", "--bogus", "true"), "No such option"),
        (
            ("exec", "--type", "chat", "--check", "x", "true"),
            "--check: does not apply to --type chat",
        ),
        (
            ("exec", "--type", "chat", "--verdict", "json", "true"),
            "--verdict: does not apply to --type chat",
        ),
        (
            ("exec", "--type", "chat", "--actions", "review", "true"),
            "--actions: does not apply to --type chat",
        ),
        (
            ("exec", "--type", "chat", "--allow-failures", "true"),
            "--allow-failures: does not apply",
        ),
        (("exec", "--type", "chat", "--timeout", "0", "true"), "--timeout: must be more than 0"),
        (("exec", "--type", "chat", ""), "program: is missing"),
        (("script",), "Missing argument"),
        (("script", "none.json", "--type", "builder"), "none.json does not exist"),
        (("script", "none.json", "--type", "tester"), "--type: 'tester' is not a type of agent"),
    ]
    for words, says in cases:
        ran = run("agent", *words)
        assert ran.code in (1, 2)
        assert ran.out == ""
        error, fix = ran.err.splitlines()
        assert says in error
        assert fix.startswith("fix: ")


def test_a_scenario_can_be_checked_alone(run: Run, tmp_path: Path) -> None:
    """Before a run that would take long."""
    path = tmp_path / "scenario.json"
    path.write_text('{"actions": {"review": [{"answer": {"status": "approved"}}]}}')
    ran = run("agent", "script", str(path), "--type", "reviewer", "--check")
    assert (ran.code, ran.out) == (0, f"{path} is valid\n")
    assert run("agent", "script", str(path), "--type", "reviewer", "--check", "--json").json == {
        "ok": True
    }
    path.write_text('{"actions": {"review": [{"answer": {"status": "fine"}}]}}')
    ran = run("agent", "script", str(path), "--type", "reviewer", "--check")
    assert ran.code == 2
    assert "scenario.json: actions.review[0].answer.status must be one of" in ran.err


def test_a_prompt_has_the_line_ends_of_this_machine(tmp_path: Path) -> None:
    """Whatever line ends the file has."""
    path = tmp_path / "prompt.txt"
    path.write_bytes("do\r\nit\rwéll\n".encode())
    assert _template(None, path) == "do\nit\nwéll\n"

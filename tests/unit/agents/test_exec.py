"""Exec: what the end of a program means for the command it was run for."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import protocol
from onceward.agents.exec import exec_agent
from onceward.agents.exec_options import ExecOptions
from onceward.errors import InvalidArgument
from tests.support.agent_processes import command


def ask(
    workspace: Path,
    program: str | tuple[str, ...],
    *commands: dict[str, Any],
    run: str = "",
    **fields: Any,
) -> list[dict[str, Any]]:
    """Answer commands in this process, the program being a real one, and return the ends."""
    line = (sys.executable, "-c", program) if isinstance(program, str) else program
    wrapping = ExecOptions(**{"type": "builder", "program": line, **fields})
    environ = {"ONCEWARD_WORKSPACE": str(workspace), "PATH": "/usr/bin:/bin"}
    environ["ONCEWARD_RUN"] = run
    output = io.BytesIO()
    asked = io.BytesIO(b"".join(map(protocol.encode, commands or (command(),))))
    exec_agent(wrapping, environ=environ).run(asked, output)
    found = [protocol.decode(line) for line in output.getvalue().splitlines()]
    return [each for each in found if each["kind"] == "event" and protocol.is_terminal(each)]


@pytest.mark.parametrize(
    ("check", "options", "tests"),
    [
        ("echo ok; true", (), {"status": "pass", "exit_code": 0, "output": "ok"}),
        ("echo no; exit 3", (), {"status": "fail", "exit_code": 3, "output": "no"}),
        ("kill -9 $$", (), {"status": "fail", "signal": "SIGKILL", "output": ""}),
        (
            "echo 'FAILED a.py::b - no'; exit 1",
            ("--allow-failures",),
            {
                "status": "fail",
                "exit_code": 1,
                "output": "FAILED a.py::b - no",
                "allowed_failures": ["a.py::b"],
            },
        ),
        (
            "false",
            ("--allow-failures",),
            {"status": "fail", "exit_code": 1, "output": "", "allowed_failures": ["false"]},
        ),
    ],
)
def test_a_check_decides_about_the_tests(
    tmp_path: Path, check: str, options: tuple[str, ...], tests: dict[str, Any]
) -> None:
    """Its exit code is the status, the end of its output is kept."""
    changes = "open('file', 'w').close()"
    (answer,) = ask(tmp_path, changes, check=check, allows_failures=bool(options))
    assert answer["payload"]["tests"] == tests


@pytest.mark.parametrize(
    ("program", "code", "retryable", "says"),
    [
        ("import sys; print('no idea'); sys.exit(3)", "PROGRAM_FAILED", False, "exit code 3"),
        ("import sys; sys.exit(75)", "PROGRAM_INTERRUPTED", True, "exit code 75"),
        ("import os; os.kill(os.getpid(), 9)", "PROGRAM_INTERRUPTED", True, "SIGKILL"),
        ("import os; os.kill(os.getppid(), 9)", "PROGRAM_INTERRUPTED", True, "SIGKILL"),
    ],
)
def test_a_program_that_fails_is_an_error(
    tmp_path: Path, program: str, code: str, retryable: bool, says: str
) -> None:
    """Retryable when the program was killed, or says so; then the next attempt runs it."""
    note = f"open('state/runs.txt', 'a').write('x'); {program}"
    (tmp_path / "state").mkdir()
    for number in (1, 2):
        (answer,) = ask(tmp_path, note, command(number=number))
        assert answer["event"] == "error"
        assert answer["payload"]["code"] == code
        assert answer["payload"]["retryable"] is retryable
        assert says in answer["payload"]["message"]
    assert (tmp_path / "state" / "runs.txt").read_text() == "xx"


def test_a_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    """The name is in the message, and no retry helps."""
    (answer,) = ask(tmp_path, ("no-such-program", "x"))
    assert answer["payload"]["code"] == "PROGRAM_REFUSED"
    assert "cannot start no-such-program: No such file" in answer["payload"]["message"]
    assert not answer["payload"]["retryable"]
    long = command(inputs={"goal": "x" * 140_000})
    (answer,) = ask(tmp_path, "pass", long, is_argument=True)
    assert "too long" in answer["payload"]["message"]
    (answer,) = ask(tmp_path, "pass", long)
    assert answer["event"] == "builder.completed"


def test_a_deadline_in_the_past_starts_nothing(tmp_path: Path) -> None:
    """There is no time in which it could be done."""
    (answer,) = ask(tmp_path, "open('begun', 'w')", command(seconds=-1))
    assert answer["payload"]["code"] == "TIMED_OUT"
    assert not (tmp_path / "begun").exists()


def test_links_are_no_artifacts(tmp_path: Path) -> None:
    """They are named apart: the agent does not vouch for content outside the workspace."""
    program = "import os; os.symlink('/etc/passwd', 'link'); open('file', 'w').write('x')"
    (answer,) = ask(tmp_path, program)
    assert [each["path"] for each in answer["artifacts"]] == ["file"]
    assert answer["payload"]["other_changes"] == ["link"]


def test_a_missing_output_fails_the_command(tmp_path: Path) -> None:
    """What is required is an artifact, changed or not."""
    (tmp_path / "there.txt").write_text("x")
    wanted = [{"path": "there.txt", "required": True}, {"path": "no.txt", "required": False}]
    missing = [*wanted, {"path": "missing.txt", "required": True}]
    first, second = ask(tmp_path, "pass", command(outputs=wanted), command(outputs=missing))
    assert [each["path"] for each in first["artifacts"]] == ["there.txt"]
    assert second["payload"]["code"] == "MISSING_OUTPUT"


def test_too_many_files_do_not_break_the_line(tmp_path: Path) -> None:
    """An answer names as many artifacts as there is room for."""
    program = "for n in range(3000): open(f'file-with-a-long-name-{n:05d}.txt', 'w').close()"
    (answer,) = ask(tmp_path, program)
    assert answer["event"] == "builder.completed"
    assert 500 < len(answer["artifacts"]) < 3000
    assert answer["payload"]["other_changes"][-1].endswith(" more")


# --- exec: verdicts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "program", "status", "payload"),
    [
        ("json", 'print(\'{"verdict": "approved"}\')', "approved", {}),
        (
            "json",
            'print(\'{"status": "changes_requested", "comments": ["a"]}\')',
            "changes_requested",
            {"comments": ["a"]},
        ),
        ("text", "print('VERDICT: approved')", "approved", {}),
        ("exit", "pass", "approved", {}),
        (
            "exit",
            "import sys; print('bad', file=sys.stderr); sys.exit(1)",
            "changes_requested",
            {"comments": ["bad"]},
        ),
    ],
)
def test_a_program_becomes_a_reviewer(
    tmp_path: Path, form: str, program: str, status: str, payload: dict[str, Any]
) -> None:
    """Each form of verdict becomes a completed review."""
    (answer,) = ask(tmp_path, program, command("review"), type="reviewer", verdict=form)
    assert (answer["event"], answer["status"]) == ("review.completed", status)
    assert answer["payload"] == payload


@pytest.mark.parametrize(
    ("form", "program", "code"),
    [
        ("json", "print('looks good')", "NO_VERDICT"),
        ("exit", "import sys; sys.exit(2)", "PROGRAM_FAILED"),
        ("json", 'print(\'{"verdict": "approved"}\'); exit(1)', "PROGRAM_FAILED"),
    ],
)
def test_no_verdict_is_no_approval(tmp_path: Path, form: str, program: str, code: str) -> None:
    """A reviewer that breaks down is an error."""
    (answer,) = ask(tmp_path, program, command("review"), type="reviewer", verdict=form)
    assert answer["payload"]["code"] == code


def test_a_program_becomes_a_spec_maintainer(tmp_path: Path) -> None:
    """All is well and a file changed: updated. All is well and none did: nothing to do."""
    program = "import pathlib; pathlib.Path('SPEC.md').write_text('v2')"
    asked = (command("update_spec"), command("update_spec", {"goal": "x", "round": 2}))
    first, second = ask(tmp_path, program, *asked, type="spec_maintainer", verdict="exit")
    assert first["event"] == "spec.updated"
    assert [each["path"] for each in first["artifacts"]] == ["SPEC.md"]
    assert second["event"] == "spec.no_changes_needed"


def test_a_reviewer_gets_the_form_of_the_verdict(tmp_path: Path) -> None:
    """The prompt ends with the form of the verdict that is understood."""
    program = "import sys; assert sys.stdin.read().endswith('VERDICT: approved | changes_requested\\n'); print('VERDICT: approved')"  # noqa: E501
    (answer,) = ask(tmp_path, program, command("review"), type="reviewer", verdict="text")
    assert answer["status"] == "approved"


def test_only_its_own_actions_are_taken(tmp_path: Path) -> None:
    """An agent that implements may leave changes to another."""
    first, second = ask(
        tmp_path, "pass", command(), command("implement_changes"), actions=("implement",)
    )
    assert first["event"] == "builder.completed"
    assert second["payload"]["code"] == "UNKNOWN_ACTION"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"type": "tester"}, "--type: 'tester' is not a type of agent"),
        ({"program": ()}, "program: is missing"),
        ({"type": "reviewer", "verdict": "yes"}, "--verdict: 'yes' is not a verdict format"),
        ({"type": "reviewer", "verdict": "exit", "check": "x"}, "runs no check"),
        ({"verdict": "json"}, "--verdict: a builder gives no verdict"),
        ({"seconds": 0}, "--timeout: must be more than 0, not 0"),
        ({"seconds": float("nan")}, "--timeout: must be more than 0, not nan"),
    ],
)
def test_what_cannot_work_is_refused_at_once(fields: dict[str, Any], says: str) -> None:
    """Before any command comes, naming the option."""
    with pytest.raises(InvalidArgument, match=says) as caught:
        ExecOptions(**{"type": "builder", "program": ("true",), **fields})
    assert caught.value.fix

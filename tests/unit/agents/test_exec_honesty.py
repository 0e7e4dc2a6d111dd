"""Exec: neither a question nor an unchanged tree nor a missing check is reported as passed."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onceward.system import crash_points
from tests.support.agent_processes import command
from tests.unit.agents.test_exec import ask

CHANGES = "echo new > out.txt; echo done"
CHOICE = "Which database should I use?"


def sh(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", f"cat > /dev/null; {script}")


def build(workspace: Path, script: str, **fields: Any) -> dict[str, Any]:
    asked = fields.pop("asked", command())
    (answer,) = ask(workspace, sh(script), asked, **fields)
    return answer


def test_h73_a_builder_without_a_check_is_unchecked(tmp_path: Path) -> None:
    """Files changed and nothing looked at them: that is no passing test."""
    answer = build(tmp_path, CHANGES)
    assert answer["event"] == "builder.completed"
    assert answer["payload"]["tests"] == {"status": "unchecked"}


def test_h73_required_outputs_are_no_passing_test(tmp_path: Path) -> None:
    """They are there, which is said; no check has run, which is said too."""
    outputs = [{"path": "out.txt", "required": True}, {"path": "more.txt", "required": False}]
    answer = build(tmp_path, CHANGES, asked=command(outputs=outputs))
    assert answer["payload"]["tests"] == {"status": "unchecked", "required_outputs": 1}


@pytest.mark.parametrize("check", [None, "true"])
@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (f"echo '{CHOICE}'", CHOICE),
        (f"echo Hello; echo '{CHOICE}'; echo '1. SQLite'; echo '2. PostgreSQL'", "2. PostgreSQL"),
        (f"echo '**{CHOICE}**'; echo 'Let me know.'", CHOICE),
        ("printf 'Overwrite main.py [y/N] '", "Overwrite main.py [y/N]"),
        ("printf 'Overwrite main.py [y/n/a] '", "Overwrite main.py [y/n/a]"),
        ("echo 'SQLite or PostgreSQL??'", "SQLite or PostgreSQL??"),
        ("echo 'May I really delete it?!'", "May I really delete it?!"),
        ("echo 'Quelle base dois-je utiliser ?'", "Quelle base dois-je utiliser ?"),
        ("echo '“Which one?”'", "“Which one?”"),
        ("echo 'May I delete it?' >&2", "May I delete it?"),
        ("""echo '{"type":"result","result":"Shall I go on?"}'""", "Shall I go on?"),
    ],
)
def test_h73_a_program_that_only_asks_fails_with_its_question(
    tmp_path: Path, script: str, shown: str, check: str | None
) -> None:
    """Also when a check passes: it passed before the program ran. No retry answers a question."""
    (tmp_path / "main.py").write_text("print()\n")
    answer = build(tmp_path, script, check=check)
    assert answer["event"] == "error"
    assert answer["payload"]["code"] == "QUESTION_ASKED"
    assert answer["payload"]["retryable"] is False
    assert shown in answer["payload"]["message"]


def test_h73_a_question_is_shown_within_bounds_and_without_secrets(tmp_path: Path) -> None:
    """However long the program talks, and whatever it gives away."""
    script = "echo 'Is token=hunter2hunter2hunter2 right?'; head -c 100000 /dev/zero | tr '\\0' x"
    message = build(tmp_path, script)["payload"]["message"]
    assert "right?" in message
    assert "hunter2" not in message
    assert len(message) < 3000


def test_h73_a_redo_reports_what_it_changed_itself(tmp_path: Path) -> None:
    """The files of its first success were changed since, and others were written after it."""
    script = "[ -e state/idle ] || echo new > out.txt"
    build(tmp_path, script, check="true")
    (tmp_path / "later.txt").write_text("by the next command")
    (tmp_path / "out.txt").unlink()
    redone = build(tmp_path, script, check="true")
    assert [each["path"] for each in redone["artifacts"]] == ["out.txt"]
    (tmp_path / "out.txt").unlink()
    (tmp_path / "state" / "idle").touch()
    idle = build(tmp_path, script, check="true")
    assert idle["payload"]["tests"]["status"] == "unchanged"


@pytest.mark.parametrize("point", ["atomic.write.before_return", "agents.cache.before_store"])
def test_h73_a_redo_that_is_killed_at_its_begin_is_one(tmp_path: Path, point: str) -> None:
    """The tree before it is recorded, then its first answer is dropped; a kill splits neither."""
    build(tmp_path, CHANGES, check="true")
    (tmp_path / "later.txt").write_text("by the next command")
    (tmp_path / "out.txt").unlink()
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            build(tmp_path, CHANGES, check="true")
    finally:
        crash_points.arm(None)
    redone = build(tmp_path, CHANGES, check="true")
    assert [each["path"] for each in redone["artifacts"]] == ["out.txt"]


@pytest.mark.parametrize("script", [f"{CHANGES}; echo 'Anything else?'", "rm old.txt; echo 'Ok?'"])
def test_h73_a_question_beside_changed_files_is_no_failure(tmp_path: Path, script: str) -> None:
    """Programs like to end with one; what they did is there to be checked."""
    (tmp_path / "old.txt").write_text("x")
    assert build(tmp_path, script, check="true")["payload"]["tests"]["status"] == "pass"


@pytest.mark.parametrize("check", ["true", "echo > cache.bin"])
def test_h73_an_unchanged_tree_does_not_pass(tmp_path: Path, check: str) -> None:
    """A check that passes without any change passed before; what it writes itself is no change."""
    tests = build(tmp_path, "echo 'See http://host/?q=1, all is well.'", check=check)["payload"]
    assert tests["tests"] == {"status": "unchanged", "exit_code": 0, "output": ""}
    assert build(tmp_path, "true", asked=command(inputs={"goal": "other"}))["payload"] == {
        "tests": {"status": "unchanged"}
    }


def test_h73_a_failing_check_fails_whatever_changed(tmp_path: Path) -> None:
    """Nothing changed and the check fails: it fails."""
    answer = build(tmp_path, "true", check="echo broken; exit 3")
    assert answer["payload"]["tests"]["status"] == "fail"


def test_h73_a_wanted_file_that_git_ignores_is_a_change(tmp_path: Path) -> None:
    """What is expected counts, though no snapshot holds it."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=environ, check=True)
    (tmp_path / ".gitignore").write_text("dist\nstate\n")
    asked = command(outputs=[{"path": "dist/app", "required": True}])
    script = "mkdir -p dist; echo 1 > dist/app; echo 'Anything else?'"
    assert (
        build(tmp_path, script, asked=asked, check="true")["payload"]["tests"]["status"] == "pass"
    )


def test_h73_a_question_after_an_unfinished_attempt_is_one(tmp_path: Path) -> None:
    """The first attempt left files and may be tried again; the second only asks about them."""
    script = (
        "test -e part.txt && echo 'part.txt exists. Overwrite it?' || { touch part.txt; exit 75; }"
    )
    first = build(tmp_path, script)
    assert (first["event"], first["payload"]["retryable"]) == ("error", True)
    assert build(tmp_path, script)["payload"]["code"] == "QUESTION_ASKED"


def test_h71_a_wrapped_reviewer_says_that_it_only_saw_changes(tmp_path: Path) -> None:
    """It cannot tell its own files from a person's, so the orchestrator must not trust it."""
    options: dict[str, Any] = {"type": "reviewer", "verdict": "exit"}
    answer = build(tmp_path, "echo fine > REVIEW.md", asked=command("review"), **options)
    assert (answer["status"], answer["payload"]["observed"]) == ("approved", True)
    assert [each["path"] for each in answer["artifacts"]] == ["REVIEW.md"]


def test_h72_a_wrapped_builder_says_that_it_only_saw_changes(tmp_path: Path) -> None:
    """A person may have saved one of the files, so the next build needs a copy first."""
    assert build(tmp_path, CHANGES)["payload"]["observed"] is True


@pytest.mark.parametrize("agent", ["reviewer", "spec_maintainer"])
@pytest.mark.parametrize("form", ["exit", "json", "text"])
def test_h73_a_judge_that_only_asks_has_not_judged(tmp_path: Path, agent: str, form: str) -> None:
    """Its exit code 0 says that it ended, and no approval."""
    action = "review" if agent == "reviewer" else "update_spec"
    script = "echo 'I looked at it.'; echo 'Which version do you mean?'"
    answer = build(tmp_path, script, asked=command(action), type=agent, verdict=form)
    assert answer["event"] == "error"
    assert answer["payload"]["code"] == "QUESTION_ASKED"
    assert "Which version do you mean?" in answer["payload"]["message"]


def test_h73_a_linter_may_print_question_marks(tmp_path: Path) -> None:
    """Only a question at the end of an approval counts as a question."""
    script = "echo 'W1: did you mean x?'; echo '1 warning, 0 errors'"
    answer = build(tmp_path, script, asked=command("review"), type="reviewer", verdict="exit")
    assert answer["status"] == "approved"


def test_h73_a_claimed_update_without_a_change_is_marked(tmp_path: Path) -> None:
    """The specification may lie where no snapshot looks; that it changed is then a claim only."""
    said = """echo '{"verdict": "updated"}'"""
    options: dict[str, Any] = {"type": "spec_maintainer", "verdict": "json"}
    answer = build(tmp_path, said, asked=command("update_spec"), **options)
    assert (answer["event"], answer["payload"]) == ("spec.updated", {"unchanged": True})
    other = command("update_spec", {"goal": "other"})
    answer = build(tmp_path, f"echo 2 > SPEC.md; {said}", asked=other, **options)
    assert (answer["event"], answer["payload"]) == ("spec.updated", {})

"""The examples: small programs a user would write, executed."""

import subprocess
import sys
from pathlib import Path

import pytest

from onceward.journal import Journal

EXAMPLES = Path(__file__).parent.parent / "examples"
#: The last two have tests beside what they show.
TESTED = {
    *("command_keys.py", "durable_poller.py", "lab_agent.py"),
    *("charge_once.py", "fastapi_idempotent.py"),
}


def run(example: str, *words: str | Path) -> str:
    command = [sys.executable, "-W", "error", EXAMPLES / example, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_example_is_tested() -> None:
    """An example that no test runs is not known to work."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == TESTED


def test_durable_poller_gives_each_record_once(tmp_path: Path) -> None:
    """Run, append, run again: what was printed before is not printed again."""
    path = tmp_path / "feedback.jsonl"
    Journal(path).append({"id": "fb_1"}, {"id": "fb_2"})
    assert run("durable_poller.py", path) == "fb_1\nfb_2\n"
    assert run("durable_poller.py", path) == ""
    Journal(path).append({"id": "fb_3"})
    assert run("durable_poller.py", path) == "fb_3\n"


def test_lab_agent_gives_each_judgement_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, judge, run again; when the file was replaced in between, the agent says so."""
    path, cursor = tmp_path / "feedback.jsonl", tmp_path / "agent.cursor"
    monkeypatch.setenv("CM_FEEDBACK_STORE_PATH", str(path))
    entry = {"id": "fb_1", "createdAt": "2026-01-01T00:00:00.000Z", "notes": "a better hook"}
    Journal(path).append(entry, {**entry, "id": "fb_2", "ratings": {"overall": 80}})
    assert run("lab_agent.py", cursor).splitlines() == [
        "fb_1: not rated: a better hook",
        "fb_2: 80: a better hook",
    ]
    assert run("lab_agent.py", cursor) == ""
    path.unlink()
    Journal(path).append({**entry, "id": "fb_3"})
    assert run("lab_agent.py", cursor) == ""
    assert run("lab_agent.py", cursor) == "fb_3: not rated: a better hook\n"


def test_command_keys_distinguishes_a_retry_from_a_second_round() -> None:
    """The retry is the same work; the second round is not, and the example says where."""
    lines = run("command_keys.py").splitlines()
    assert lines[0] == "retry is the same work: True"
    assert "second round differs in inputs.round" in lines
    assert lines[-1].startswith("careful: inputs.request_id")

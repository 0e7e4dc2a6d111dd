"""`onceward init`, `run`, `resume` and `runs` as processes, with agents that are processes too."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.orchestrator.scaffold import create_workspace

COMMAND = [sys.executable, "-m", "onceward"]
END_SECONDS_MAX = 120
SECRET = "correct-horse-battery"


class Place:
    """A workspace, and commands that run in it."""

    #: What the last run of a finished workspace said.
    ran: subprocess.CompletedProcess[str]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=self.directory,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_SECONDS_MAX,
        )

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**pipes, "text": True, "cwd": self.directory, "env": self.environment, **options}
        return subprocess.Popen([*COMMAND, *words], **given)

    def json(self, *words: str) -> Any:
        ran = self.run(*words, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    def change(self, name: str, action: str, *steps: dict[str, Any]) -> None:
        """Put steps before what an agent does for an action."""
        path = self.directory / "agents" / f"{name}.json"
        scenario = json.loads(path.read_text())
        scenario["actions"][action][:0] = steps
        path.write_text(json.dumps(scenario))

    @property
    def ledger(self) -> list[dict[str, Any]]:
        (path,) = (self.directory / "events").iterdir()
        return [json.loads(line) for line in path.read_text().splitlines()]

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.ledger if record["kind"] == kind]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace that was just made, with a task of two rounds."""
    return Place(create_workspace(tmp_path / "demo", example=True).workspace)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workspace in which one run was done, by what init and run say; a secret was in its task."""
    made = Place(tmp_path_factory.mktemp("finished"))
    ran = made.run("init", "demo", "--json")
    assert ran.returncode == 0, ran.stderr
    made.directory /= "demo"
    path = made.directory / "tasks" / "T-0001.json"
    path.write_text(path.read_text().replace("English", SECRET))
    made.ran = made.run(*json.loads(ran.stdout)["next"].split()[4:], MY_TOKEN=SECRET)
    return made


def wait_for(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read lines until one holds this text."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError((lines, process.communicate()))


def test_a_new_workspace_runs_at_once(finished: Place) -> None:
    """Init, run: the file is there, the transcript tells it, everything verifies."""
    place, ran = finished, finished.ran
    assert ran.returncode == 0, ran.stderr
    assert (place.directory / "greeting.txt").read_text() == "Hello!\n"
    reported = [line[10:].split(" (")[0] for line in ran.stdout.splitlines()]
    assert reported[1:] == [
        reported[1],
        "T-0001    implement · builder is asked",
        "T-0001    implement · builder is working: writing greeting.txt",
        "T-0001    implement · builder is done, tests pass, 1 file",
        "T-0001    review · reviewer is asked",
        "T-0001    review · reviewer approves",
        "T-0001    update_spec · spec_maintainer is asked",
        "T-0001    update_spec · spec_maintainer needs no change of the spec",
        "T-0001    done",
        "          run done: 1 task",
    ]
    (transcript,) = (place.directory / "transcripts").iterdir()
    assert transcript.read_text() == ran.stdout
    assert place.run("runs", "verify").returncode == 0
    assert "done" in place.run("runs", "list").stdout
    shown = place.json("runs", "show")
    assert [each["state"] for each in shown["commands"]] == ["done"] * 3
    assert "it has a receipt, so a resume does not send it" in place.run("runs", "explain").stdout


def test_json_lines_are_the_ledger(place: Place) -> None:
    """What is streamed is what is recorded, both rounds of it, and the result comes last."""
    ran = place.run("run", "--task", "T-0002", "--json")
    assert ran.returncode == 0, ran.stderr
    *records, result = map(json.loads, ran.stdout.splitlines())
    kept = [{name: value for name, value in each.items() if name != "sum"} for each in place.ledger]
    assert records == kept
    assert (result["kind"], result["status"], result["next"]) == ("result", "done", None)
    stages = [(each["stage"], each["round"]) for each in records if each["kind"] == "command"]
    assert stages == [
        ("implement", 1),
        ("review", 1),
        ("implement_changes", 1),
        ("review", 2),
        ("update_spec", 1),
    ]
    assert (place.directory / "farewell.txt").read_text() == "Goodbye from Ada!\n"


def test_a_killed_run_is_resumed_and_a_complete_one_is_left_alone(place: Place) -> None:
    """What was answered is not sent again; then there is nothing to do."""
    point = "orchestrator.receipt.after_record:1:kill"
    killed = place.run("run", "--task", "T-0001", ONCEWARD_CRASH=point)
    assert killed.returncode == -signal.SIGKILL
    resumed = place.run("resume")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert "implement ·" not in resumed.stdout
    assert resumed.stdout.splitlines()[-1][10:].strip().startswith("run done: 1 task")
    assert [each["stage"] for each in place.kinds("command")] == [
        "implement",
        "review",
        "update_spec",
    ]
    again = place.run("resume")
    assert again.returncode == 0
    assert "is complete; there is nothing to do" in again.stdout
    assert place.json("runs", "list")["runs"][0]["resumed"] == 1


def test_h29_a_run_that_is_held_is_refused_and_ctrl_c_stops_it_cleanly(place: Place) -> None:
    """A second process is shown who holds it; a stopped run says how to go on, exit 130."""
    place.change("builder", "implement", {"progress": "slow"}, {"delay": 60, "once": True})
    process = place.start("run", "--task", "T-0001")
    try:
        wait_for(process, "slow")
        refused = place.run("resume")
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=END_SECONDS_MAX)
    assert refused.returncode == 1
    assert f"process {process.pid} on {os.uname().nodename}" in refused.stderr
    assert not place.kinds("run.resumed")
    assert process.returncode == 130
    last = err.splitlines()[-1]
    assert last.startswith("stopped; resume with `onceward resume --run run-")
    assert place.kinds("run.stopped")
    assert place.run(*last.split("`")[1].split()[1:]).returncode == 0


def test_a_second_ctrl_c_kills(place: Place) -> None:
    """Whatever the run waits for; a resume cleans up and goes on."""
    place.change("builder", "implement", {"progress": "slow"}, {"delay": 60, "once": True})
    process = place.start("run", "--task", "T-0001")
    wait_for(process, "slow")
    process.send_signal(signal.SIGSTOP)  # So that both signals wait for it.
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=END_SECONDS_MAX)
    assert process.returncode in (-signal.SIGINT, -signal.SIGTERM)
    assert place.run("resume").returncode == 0


def on_a_terminal(place: Place, *words: str, answer: bytes = b"") -> tuple[int, str]:
    """Run a command on a terminal of its own, type an answer once it asks."""
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with place.start(*words, text=False, **streams) as process:
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], END_SECONDS_MAX)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # The other side is closed.
                break
            seen += chunk
            if answer and b"or stop?" in seen:
                os.write(ours, answer)
                answer = b""
        process.wait(timeout=END_SECONDS_MAX)
    os.close(ours)
    return process.returncode, seen.decode(errors="replace")


def test_drift_is_listed_and_the_operator_decides(place: Place) -> None:
    """Refused without a terminal and by a stop, with an exit code of its own; else it goes on."""
    point = "orchestrator.receipt.after_record:1:kill"
    place.run("run", "--task", "T-0001", ONCEWARD_CRASH=point)
    (place.directory / "notes.txt").write_text("as I would have it\n")
    refused = place.run("resume")
    assert refused.returncode == 3
    assert "  added notes.txt\n" in refused.stderr
    assert "--accept-drift" in refused.stderr
    for answer, code in ((b"stop\n", 3), (b"keep\n", 0)):
        ended, seen = on_a_terminal(place, "resume", answer=answer)
        assert ended == code, seen
        assert "added notes.txt" in seen
        assert "+as I would have it" in seen
    assert place.kinds("drift.accepted")


def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    """A progress line below the transcript, gone at the end."""
    # A busy machine may show nothing for a second or two; then the review takes longer.
    for seconds in (1.2, 5.0, 20.0):
        place = Place(create_workspace(tmp_path / f"for-{seconds:.0f}", example=True).workspace)
        place.change("reviewer", "review", {"delay": seconds})
        code, seen = on_a_terminal(place, "run", "--task", "T-0001")
        assert code == 0, seen
        assert "review · reviewer approves" in seen
        if re.search(r"task 1/1 · review · 0:(0[1-9]|[1-5]\d)", seen):
            return
    raise AssertionError(seen)


def test_a_failed_run_says_why_and_can_be_retried(place: Place) -> None:
    """Resume alone repeats the reason; --retry does the step as new work."""
    path = place.directory / "agents" / "reviewer.json"
    failure = {"error": {"code": "NO_IDEA", "message": "I do not know how"}}
    path.write_text(json.dumps({"actions": {"review": {"rounds": [[failure], []]}}}))
    failed = place.run("run", "--task", "T-0001")
    assert failed.returncode == 1
    assert "failed: review of T-0001 failed: NO_IDEA: I do not know how" in failed.stderr
    again = place.run("resume")
    assert again.returncode == 1
    assert "NO_IDEA" in again.stderr
    assert "--retry`" in again.stderr
    retried = place.run("resume", "--retry")
    assert retried.returncode == 0, retried.stderr
    keys = {each["command"]["idempotency_key"] for each in place.kinds("command")}
    assert len(keys) == len(place.kinds("command")) == 4


def test_an_unknown_run_names_those_that_exist(finished: Place) -> None:
    """Bad input, exit 2."""
    (path,) = (finished.directory / "events").iterdir()
    for words in (("resume", "--run"), ("runs", "show")):
        ran = finished.run(*words, "run-20200101-000000-00000000")
        assert ran.returncode == 2
        assert path.stem in ran.stderr
    assert finished.run("runs", "show", "../../etc/passwd").returncode == 2


def test_verify_finds_what_was_changed_afterwards(finished: Place) -> None:
    """An artifact that is not what the receipt says."""
    path = finished.directory / "greeting.txt"
    before = path.read_text()
    path.write_text("Hullo!\n")
    ran = finished.run("runs", "verify")
    path.write_text(before)
    assert ran.returncode == 1
    assert "greeting.txt has other content" in ran.stdout


def test_h32_a_secret_in_a_task_reaches_no_file_of_a_run(finished: Place) -> None:
    """The warning says where it belongs; ledger, receipts and transcripts do not have it."""
    assert "inputs.language contains a secret" in finished.ran.stderr
    assert SECRET not in finished.ran.stdout + finished.ran.stderr
    for path in finished.directory.rglob("*"):
        if path.is_file() and path.parent.name != "tasks":
            assert SECRET.encode() not in path.read_bytes(), path


def test_a_reader_that_leaves_does_not_end_the_run(place: Place) -> None:
    """`| head -1` sees one line; the run is done all the same."""
    process = place.start("run", "--task", "T-0001")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=END_SECONDS_MAX) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert place.kinds("run.completed")

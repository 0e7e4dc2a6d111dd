"""`onceward init`, `run` and `resume`: their words, what they print, and their exit codes."""

import json
import os
import signal
from pathlib import Path

import pytest

from onceward.errors import RunHeld, RunMissing
from onceward.orchestrator.models import RunResult
from tests.support.command_runner import Run
from tests.support.fake_orchestrator import AT, RUN, FakeOrchestrator

# --- init ----------------------------------------------------------------------------------------


def test_init_says_what_it_made_and_what_comes_next(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a file, then the command to type."""
    monkeypatch.chdir(tmp_path)
    ran = run("init", "my demo")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[-2:] == ["made onceward.json", "next: cd 'my demo' && onceward run --task T-0001"]
    assert (tmp_path / "my demo" / "onceward.json").is_file()


def test_init_here_needs_no_way(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory it is this one; a file that is there is named as kept."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "T-0001.json").write_text("{}")
    ran = run("init", "--example")
    assert "kept the existing tasks/T-0001.json" in ran.out
    assert ran.out.endswith("next: onceward run --task T-0002\n")


def test_init_refuses_to_overwrite(run: Run, workspace: Path) -> None:
    """A second init changes nothing and says why."""
    ran = run("init")
    assert (ran.code, ran.out) == (1, "")
    assert f"{workspace / 'onceward.json'} exists" in ran.err
    assert "fix: " in ran.err


def test_init_speaks_json(run: Run, tmp_path: Path) -> None:
    """For machines: where, what was made, what was kept, what comes next."""
    made = run("init", str(tmp_path / "x"), "--json").json
    assert list(made) == ["workspace", "made", "kept", "next"]
    assert made["made"][-1] == "onceward.json"


# --- run -----------------------------------------------------------------------------------------


def test_run_prints_the_run_and_exits_0(
    run: Run, workspace: Path, played: type[FakeOrchestrator]
) -> None:
    """A line for each record, and success."""
    ran = run("run", "--task", "T-0002", "--task", "T-0001")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"09:30:00            {RUN} begins: T-0001",
        "09:30:00            run done: 1 task (0.0 s)",
    ]
    assert played.asked == [["T-0002", "T-0001"]]
    assert workspace.is_dir()


def test_run_elsewhere(
    run: Run,
    workspace: Path,
    played: type[FakeOrchestrator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The workspace may be named, and is named again in the command to go on."""
    monkeypatch.chdir(tmp_path)
    played.result = RunResult(run_id=RUN, status="failed", reason="no")
    ran = run("run", "--task", "T-0001", "--workspace", "demo")
    assert f"onceward resume --run {RUN} --workspace demo --retry" in ran.err
    assert workspace.is_dir()


@pytest.mark.usefixtures("workspace")
def test_run_as_json_lines(run: Run, played: type[FakeOrchestrator]) -> None:
    """Every record as it is, then the result."""
    played.result = RunResult(run_id=RUN, status="failed", reason="why")
    ran = run("run", "--task", "T-0001", "--json")
    assert (ran.code, ran.err) == (1, "")
    first, second, last = map(json.loads, ran.out.splitlines())
    assert (first["kind"], second["kind"]) == ("run.started", "run.completed")
    assert last == {
        "kind": "result",
        "run_id": RUN,
        "status": "failed",
        "reason": "why",
        "was_complete": False,
        "next": f"onceward resume --run {RUN} --retry",
        "unchecked": [],
    }


@pytest.mark.usefixtures("workspace")
def test_a_failed_run_says_why_and_how_to_go_on(run: Run, played: type[FakeOrchestrator]) -> None:
    """Exit 1, the reason, and the command that tries again."""
    played.result = RunResult(run_id=RUN, status="failed", reason="review failed: X: no")
    ran = run("run", "--task", "T-0001")
    assert ran.code == 1
    error, fix = ran.err.splitlines()
    assert error == f"error: {RUN} failed: review failed: X: no"
    assert fix.startswith("fix: ")
    assert f"`onceward resume --run {RUN} --retry`" in fix


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "TERM"]
)
def test_a_signal_stops_cleanly_and_says_how_to_resume(
    run: Run, played: type[FakeOrchestrator], how: signal.Signals, code: int
) -> None:
    """The run is asked to stop, once; handlers are as they were afterwards."""
    before = signal.getsignal(how)
    played.during = staticmethod(lambda _: os.kill(os.getpid(), how))
    ran = run("run", "--task", "T-0001")
    assert ran.code == code
    assert ran.err.splitlines()[-1] == f"stopped; resume with `onceward resume --run {RUN}`"
    assert signal.getsignal(how) is before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task", "T-002"), "there is no task T-002; the tasks are T-0001, T-0002"),
        (("--task", "T-0001", "--task", "T-0001"), "--task T-0001 was passed twice"),
        (("--task", "../x"), "is not a task id"),
        ((), "Missing option '--task'"),
        (("--task", "T-0001", "--workspace", "nowhere"), "there is no onceward.json"),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_bad_input_is_exit_2_before_anything_starts(
    run: Run, played: type[FakeOrchestrator], words: tuple[str, ...], says: str
) -> None:
    """What is wrong and what would be right; nothing runs."""
    ran = run("run", *words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert "fix: " in ran.err
    assert played.asked == []


def test_a_broken_config_is_exit_2(
    run: Run, workspace: Path, played: type[FakeOrchestrator]
) -> None:
    """The path in the file is named, for a program that is missing as well."""
    path = workspace / "onceward.json"
    config = json.loads(path.read_text())
    config["agents"]["builder"]["command"] = ["no-such-program"]
    path.write_text(json.dumps(config))
    ran = run("run", "--task", "T-0001")
    assert (ran.code, played.asked) == (2, [])
    assert "agents.builder.command[0]: the program 'no-such-program' is not on the PATH" in ran.err


def test_warnings_do_not_stop_a_run(
    run: Run, workspace: Path, played: type[FakeOrchestrator]
) -> None:
    """Inputs that look ephemeral are named on stderr."""
    task = {"goal": "x", "inputs": {"nonce": 7}}
    (workspace / "tasks" / "T-0003.json").write_text(json.dumps(task))
    ran = run("run", "--task", "T-0003")
    assert (ran.code, played.asked) == (0, [["T-0003"]])
    assert ran.err.startswith("warning: ")
    assert "inputs.nonce" in ran.err


def test_secrets_of_agents_are_left_out_too(
    run: Run, workspace: Path, played: type[FakeOrchestrator]
) -> None:
    """What an agent is given as a secret does not belong into a task either."""
    path = workspace / "onceward.json"
    config = json.loads(path.read_text())
    config["agents"]["builder"]["env"] = {"TOKEN": "open-sesame-1"}
    path.write_text(json.dumps(config))
    task = {"goal": "say open-sesame-1"}
    (workspace / "tasks" / "T-0003.json").write_text(json.dumps(task))
    ran = run("run", "--task", "T-0003")
    assert (ran.code, played.asked) == (0, [["T-0003"]])
    assert "goal contains a secret, which is redacted" in ran.err


@pytest.mark.usefixtures("workspace")
def test_json_lines_stay_json_when_stopped(run: Run, played: type[FakeOrchestrator]) -> None:
    """What is said to people goes to stderr."""
    played.during = staticmethod(lambda _: os.kill(os.getpid(), signal.SIGINT))
    ran = run("run", "--task", "T-0001", "--json")
    assert ran.code == 130
    assert json.loads(ran.out.splitlines()[-1])["status"] == "stopped"
    assert ran.err.startswith("stopping")


# --- resume --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("workspace")
def test_resume_goes_on_with_the_latest_or_the_one_named(
    run: Run, played: type[FakeOrchestrator]
) -> None:
    """Options reach the run as they are."""
    assert run("resume").code == 0
    assert run("resume", "--run", RUN, "--retry", "--accept-drift").code == 0
    assert run("resume", "--redo").code == 0
    wanted = [(None, False, False, False), (RUN, True, False, True), (None, False, True, False)]
    assert played.asked == wanted
    both = run("resume", "--redo", "--accept-drift")
    assert (both.code, played.asked) == (2, wanted)


@pytest.mark.usefixtures("workspace")
def test_a_complete_run_is_not_an_error(run: Run, played: type[FakeOrchestrator]) -> None:
    """It says so, and that is all."""
    played.result = RunResult(run_id=RUN, status="done", was_complete=True)
    ran = run("resume")
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == f"{RUN} is complete; there is nothing to do"


@pytest.mark.usefixtures("workspace")
def test_h29_a_run_that_is_held_names_its_holder(run: Run, played: type[FakeOrchestrator]) -> None:
    """The second process gets an error that names the holder."""
    played.refusal = RunHeld(f"{RUN} is held by process 4711 on elsewhere since {AT}")
    ran = run("resume")
    assert ran.code == 1
    assert "process 4711 on elsewhere" in ran.err


@pytest.mark.usefixtures("workspace")
def test_a_reader_that_leaves_does_not_end_the_run(
    run: Run, played: type[FakeOrchestrator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed pipe silences the transcript and nothing else."""
    calls: list[int] = []

    def refuse(_: object) -> None:
        calls.append(1)
        raise BrokenPipeError

    monkeypatch.setattr("onceward.cli.run_output.print_json", refuse)
    monkeypatch.setattr("onceward.cli.run_output._discard_stdout", lambda: None)
    assert run("run", "--task", "T-0001", "--json").code == 0
    assert played.asked == [["T-0001"]]
    assert calls == [1]


@pytest.mark.usefixtures("workspace")
def test_an_unknown_run_is_bad_input(run: Run, played: type[FakeOrchestrator]) -> None:
    """Exit 2, with the runs to choose from."""
    played.refusal = RunMissing(f"there is no run {RUN}", fix="choose one of: …")
    ran = run("resume", "--run", RUN)
    assert (ran.code, ran.out) == (2, "")
    assert "fix: choose one of" in ran.err

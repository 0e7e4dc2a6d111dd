"""`onceward runs`: what people and machines are shown of runs."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onceward.errors import RunMissing
from onceward.orchestrator.config import WorkspaceConfig
from onceward.orchestrator.models import (
    CommandExplanation,
    CommandView,
    RunVerification,
    RunView,
    TaskRunSummary,
    VerificationFinding,
)
from onceward.orchestrator.scaffold import create_workspace
from tests.support.command_runner import Run

RUN = "run-20260301-093000-1a2b3c4d"
KEY = "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"
SUMMARY: dict[str, Any] = {
    "run_id": RUN,
    "status": "failed",
    "reason": "review of T-1 failed:\x1b[31m NO",
    "tasks": ("T-1", "T-2"),
    "task_id": "T-1",
    "stage": "review",
    "round": 2,
    "steps": 3,
    "started_at": "2026-03-01T09:30:00.000Z",
    "updated_at": "2026-03-01T09:31:05.000Z",
    "resumed": 2,
}
COMMAND: dict[str, Any] = {
    "step": 4,
    "task_id": "T-1",
    "stage": "review",
    "round": 2,
    "agent": "reviewer",
    "idempotency_key": KEY,
    "state": "failed",
    "attempts": 3,
    "sent": 4,
    "asked_at": "2026-03-01T09:30:00.000Z",
    "answered_at": "2026-03-01T09:30:02.500Z",
    "event": "review.completed",
    "status": "approved",
    "artifacts": ({"path": "a.py", "sha256": "ab" * 32, "size": 7},),
    "problem": "BAD_ARTIFACT: a.py has other content",
}
STORY = CommandExplanation(
    step=4,
    task_id="T-1",
    stage="review",
    round=2,
    idempotency_key=KEY,
    why=("step 3 answered builder.completed", "it has a receipt, so a resume does not send it"),
    components={
        "action": "review",
        "task_id": "T-1",
        "snapshot_id": "snap-1",
        "inputs": {"goal": "x", "round": 2},
        "expected_outputs": [{"path": "a.py", "required": True}],
    },
)


class Played:
    """An orchestrator that knows the runs it is given."""

    known: Sequence[TaskRunSummary] = (TaskRunSummary(**SUMMARY),)
    findings: tuple[VerificationFinding, ...] = ()

    def __init__(self, config: WorkspaceConfig) -> None:
        self.config = config

    def runs(self) -> list[TaskRunSummary]:
        return list(self.known)

    def show(self, run_id: str) -> RunView:
        self._check(run_id)
        return RunView(summary=self.known[0], commands=(CommandView(**COMMAND),))

    def verify(self, run_id: str) -> RunVerification:
        self._check(run_id)
        return RunVerification(
            run_id=run_id, findings=self.findings, records=9, receipts=3, artifacts=2
        )

    def explain(self, run_id: str) -> list[CommandExplanation]:
        self._check(run_id)
        return [STORY, STORY]

    def _check(self, run_id: str) -> None:
        if run_id != RUN:
            message = f"there is no run {run_id}"
            raise RunMissing(message, fix=f"choose one of: {RUN}")


@pytest.fixture(autouse=True)
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    """A workspace whose runs are played."""

    class Fresh(Played):
        pass

    module = ModuleType("onceward.orchestrator.orchestrator")
    module.Orchestrator = Fresh  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("COLUMNS", "120")
    create_workspace(tmp_path)
    (tmp_path / "events").mkdir()
    for name in ("run-20260228-235959-ffffffff", RUN):
        (tmp_path / "events" / f"{name}.ndjson").touch()
    monkeypatch.chdir(tmp_path)
    return Fresh


def test_list_is_a_table(run: Run) -> None:
    """One row a run: what, how it ended, when, how long, how often resumed."""
    ran = run("runs", "list")
    assert ran.code == 0
    titles, _, row = (line for line in ran.out.splitlines() if line.strip())
    assert titles.split() == ["run", "status", "tasks", "steps", "started", "took", "resumed"]
    assert row.split()[0] == RUN
    for part in ("failed", "T-1, T-2", "3", "2026-03-01 09:30:00", "1 min 5 s", "twice"):
        assert part in row


def test_no_runs_yet(run: Run, tmp_path: Path, played: type[Played]) -> None:
    """An empty list says how to start one; what needs a run is bad input."""
    played.known = ()
    for path in (tmp_path / "events").iterdir():
        path.unlink()
    assert "no runs yet; start one with `onceward run" in run("runs", "list").out
    assert run("runs", "list", "--json").json == {"runs": []}
    for word in ("show", "verify", "explain"):
        ran = run("runs", word)
        assert (ran.code, ran.out) == (2, "")
        assert "there are no runs" in ran.err


def test_show_prints_each_command(run: Run) -> None:
    """Key, stage, round, attempts, agent, duration, artifacts; the latest run if none is named."""
    ran = run("runs", "show")
    assert ran.out.splitlines() == [
        f"{RUN}: failed: review of T-1 failed: [31m NO",
        "tasks    T-1, T-2",
        "at       T-1 review round 2",
        "started  2026-03-01T09:30:00.000Z, took 1 min 5 s",
        "resumed  twice",
        "",
        "4. T-1 review round 2 · reviewer · failed",
        f"   key       {KEY}",
        "   attempts  3, given to the agent 4 times",
        "   answer    review.completed approved after 2.5 s",
        "   artifact  a.py (7 bytes, abababababab)",
        "   problem   BAD_ARTIFACT: a.py has other content",
    ]


def test_damage_is_named(run: Run, played: type[Played]) -> None:
    """Lines of a ledger that are lost are not passed over in silence."""
    played.known = (TaskRunSummary(**{**SUMMARY, "damaged": 2}),)
    assert "failed, damaged" in run("runs", "list").out
    assert f"2 lines of the ledger; see `onceward runs verify {RUN}`" in run("runs", "show").out


def test_a_run_whose_beginning_is_lost_is_listed_as_damaged(run: Run, played: type[Played]) -> None:
    """Its start is unknown; it hides none of the other runs."""
    lost = {**SUMMARY, "started_at": "", "updated_at": "", "tasks": ()}
    played.known = (TaskRunSummary(**lost), TaskRunSummary(**SUMMARY))
    ran = run("runs", "list")
    assert ran.code == 0
    assert ran.out.count("failed, damaged") == 1
    assert ran.out.count(RUN) == 2
    shown = run("runs", "show")
    assert shown.code == 0
    assert "started  unknown\n" in shown.out
    assert f"damaged  its beginning is lost; see `onceward runs verify {RUN}`" in shown.out


def test_verify_says_that_all_is_well(run: Run) -> None:
    """Counts what was looked at."""
    ran = run("runs", "verify", RUN)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"{RUN}: 9 records, 3 receipts, 2 artifacts: all as recorded",
        "delivered files: unknown whether as approved",
    ]


def test_verify_names_what_is_wrong(run: Run, played: type[Played]) -> None:
    """Exit 1, and each file with its problem."""
    played.findings = (VerificationFinding(path="a.py", problem="has other content"),)
    ran = run("runs", "verify")
    assert ran.code == 1
    assert ran.out.splitlines()[2:] == ["  a.py: has other content"]
    ran = run("runs", "verify", "--json")
    assert (ran.code, ran.json["ok"]) == (1, False)
    assert ran.json["findings"] == [{"path": "a.py", "problem": "has other content"}]


def test_explain_gives_reasons_and_components(run: Run) -> None:
    """Why each command was sent, replayed or skipped, and what its key is made of."""
    ran = run("runs", "explain")
    assert ran.out.split("\n\n")[0].splitlines() == [
        "4. T-1 review round 2",
        "   step 3 answered builder.completed",
        "   it has a receipt, so a resume does not send it",
        f"   {KEY} is made of",
        "     action           review",
        "     task_id          T-1",
        "     snapshot_id      snap-1",
        '     inputs           {"goal":"x","round":2}',
        '     expected_outputs [{"path":"a.py","required":true}]',
    ]


def test_machines_get_everything(run: Run) -> None:
    """The JSON of a run, its commands and their stories is complete."""
    assert run("runs", "list", "--json").json["runs"][0]["run_id"] == RUN
    shown = run("runs", "show", RUN, "--json").json
    assert shown["summary"]["resumed"] == 2
    assert shown["commands"][0]["idempotency_key"] == KEY
    story = run("runs", "explain", RUN, "--json").json["commands"][0]
    assert story["components"]["inputs"] == {"goal": "x", "round": 2}


@pytest.mark.parametrize("word", ["show", "verify", "explain"])
def test_an_unknown_run_is_bad_input_and_names_those_that_exist(run: Run, word: str) -> None:
    """Exit 2, with the runs to choose from."""
    ran = run("runs", word, "run-20200101-000000-00000000")
    assert (ran.code, ran.out) == (2, "")
    assert f"choose one of: {RUN}" in ran.err


def test_a_workspace_elsewhere(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named with --workspace; without one it says how to make it."""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert run("runs", "list").code == 2
    assert run("runs", "list", "--workspace", "..").code == 0

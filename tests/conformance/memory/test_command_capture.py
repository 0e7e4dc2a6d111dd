"""Command capture: one run is one write, with the outcomes of fixes that it verifies."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import EntityMissing, StoreUnavailable
from onceward.memory import Entity, Memory
from onceward.memory.capture.command_capture import Captured, CommandContext, capture
from onceward.memory.capture.fix_verification import verify_fixes
from onceward.memory.capture.run_command import CommandResult
from onceward.memory.envelope import parse
from onceward.system import ManualClock, crash_points, timestamp
from onceward.system.redaction import Redactor
from tests.support.lost_commit_answers import unreliable

FAILING = (
    "___ test_sum ___\n>   assert add(1, 1) == 2\nE       assert 0 == 2\nwarning: add is old\n"
)
ISSUE = "err#assert 0 == 2"
SECRET = "correct-horse-battery"


class World:
    """A shop's directory, a command in it, and what is remembered of it."""

    def __init__(self, memory: Memory, clock: ManualClock) -> None:
        self.memory, self.clock = memory, clock
        self.place = CommandContext(
            cwd="/srv/shop", mode="debugger", repo="acme/shop", branch="main"
        )

    def passed(
        self, *, exit_code: int, stdout: str = "", cmd: str = "pytest -q", took: float = 2.0
    ) -> CommandResult:
        started = self.clock.now()
        self.clock.advance(seconds=took)
        return CommandResult(
            cmd=cmd,
            exit_code=exit_code,
            started_at=timestamp(started),
            ended_at=timestamp(started + timedelta(seconds=took)),
            duration_ms=round(took * 1000),
            stdout=stdout,
            stderr="",
        )

    def run(self, exit_code: int, stdout: str = "", **changed: Any) -> Captured:
        place = replace(self.place, **{k: changed.pop(k) for k in ("cwd", "repo") if k in changed})
        found = capture(
            self.memory, self.passed(exit_code=exit_code, stdout=stdout, **changed), place
        )
        self.clock.advance(seconds=10)
        return found

    def fail(self, **changed: Any) -> Captured:
        return self.run(1, FAILING, **changed)

    def fix(self, strategy: str = "add, not subtract", **changed: Any) -> str:
        name = str(self.memory.record_fix(ISSUE, strategy=strategy, **changed)["name"])
        self.clock.advance(seconds=10)
        return name

    def outcomes(self, name: str) -> list[str]:
        facts = [parse(each.content) for each in self.entity(name).observations]
        return [str(each.data["status"]) for each in facts if each and each.kind == "fix.outcome"]

    def entity(self, name: str) -> Entity:
        (found,) = self.memory.graph.open([name]).entities
        return found


@pytest.fixture
def world(ow: Onceward, clock: ManualClock) -> World:
    memory = Memory(ow, clock=clock, redactor=Redactor([SECRET]), repo="acme/shop", source="test")
    return World(memory, clock)


def test_a_run_is_recorded_with_all_that_it_showed(world: World) -> None:
    """Run, command, error and warning, each in its envelope, related as the policy says."""
    found = world.fail()
    assert [(each.name, each.is_new) for each in found.issues] == [
        (ISSUE, True),
        ("warn#add is old", True),
    ]
    graph = world.memory.graph.read()
    assert [each.entity_type for each in graph.entities] == [
        *("Run", "Mode", "Tool", "Command", "Error", "Warning")
    ]
    assert {(each.from_name, each.relation_type, each.to_name) for each in graph.relations} == {
        (found.run, "PERFORMED_BY", "mode#debugger"),
        (found.run, "USES", "tool#pytest"),
        (found.run, "EXECUTES", found.command),
        (found.command, "EMITS", ISSUE),
        (found.command, "EMITS", "warn#add is old"),
    }
    assert found.run.startswith("run#2026-01-01T00:00:00.000Z#")
    assert found.command.startswith("cmd#pytest -q#")
    summary = parse(world.entity(found.run).observations[0].content)
    assert summary is not None
    assert summary.ts == "2026-01-01T00:00:02.000Z"
    assert summary.data == {
        "summary": "pytest -q: exit code 1, 1 error, 1 warning",
        "keyEvents": ["assert 0 == 2", "add is old"],
        "success": False,
        "durationMs": 2000,
    }
    command = parse(world.entity(found.command).observations[0].content)
    assert command is not None
    assert command.data == {
        "cmd": "pytest -q",
        "cwd": "/srv/shop",
        "exitCode": 1,
        "stdoutHead": FAILING,
    }
    error = parse(world.entity(ISSUE).observations[0].content)
    assert error is not None
    assert (error.repo, error.branch, error.mode) == ("acme/shop", "main", "debugger")
    assert error.data["context"] == "test_sum"
    assert {(each.source, each.run) for each in graph.entities} == {("capture", found.run)}


def test_recording_a_run_again_changes_nothing(world: World) -> None:
    """A client that does not know whether the run was recorded records it again."""
    world.fail()
    fix = world.fix()
    passed = world.passed(exit_code=0, stdout="1 passed")
    first = capture(world.memory, passed, world.place)
    before = world.memory.graph.read()
    again = capture(world.memory, passed, world.place)
    assert world.memory.graph.read() == before
    assert again == first
    assert [each.fix for each in again.verdicts] == [fix]
    assert world.outcomes(fix) == ["verified_successful"]


def test_the_same_result_again_is_one_command(world: World) -> None:
    """Two runs with the same output share the command; nothing is observed twice."""
    first, second = world.fail(), world.fail(took=7.5)
    assert first.run != second.run
    assert first.command == second.command
    assert len(world.entity(first.command).observations) == 1
    assert len(world.entity(ISSUE).observations) == 1
    assert [each.is_new for each in second.issues] == [False, False]


# --- evidence ------------------------------------------------------------------------------------


def test_a_fix_is_proven_when_the_command_succeeds_without_the_issue(world: World) -> None:
    """Afterwards recall names the fix and its evidence, when the issue is back."""
    world.fail()
    fix = world.fix()
    (verdict,) = world.run(0, "1 passed").verdicts
    assert (verdict.fix, verdict.issue, verdict.status) == (fix, ISSUE, "verified_successful")
    fact = parse(world.entity(fix).observations[-1].content)
    assert fact is not None
    assert fact.data == {
        "fixId": fix,
        "status": "verified_successful",
        "verificationMethod": "command: pytest -q",
        "durationToVerify": 12_000,
        "sideEffects": [],
    }
    again = world.fail()
    assert again.verdicts == ()
    known = again.issues[0].known
    assert known is not None
    assert known["fixes"][0]["name"] == fix
    assert "verified 1 of 1" in known["text"]


def test_a_fix_has_failed_when_the_issue_is_back_before_it_was_seen_to_work(world: World) -> None:
    """The next run shows the issue still: that is evidence, once."""
    world.fail()
    fix = world.fix()
    (verdict,) = world.fail().verdicts
    assert (verdict.fix, verdict.status) == (fix, "failed")
    assert world.fail().verdicts == ()
    assert world.run(0, "1 passed").verdicts == ()
    assert world.outcomes(fix) == ["failed"]


def test_each_fix_of_an_issue_is_judged_for_itself(world: World) -> None:
    """The one that did not help has failed, the next one is proven."""
    world.fail()
    bad = world.fix("subtract twice")
    world.fail()
    good = world.fix("add")
    world.run(0, "1 passed")
    assert world.outcomes(bad) == ["failed"]
    assert world.outcomes(good) == ["verified_successful"]


def test_a_fix_of_a_warning_is_proven_too(world: World) -> None:
    """What is mitigated is gone as well."""
    world.fail()
    recorded = world.memory.record_fix("warn#add is old", strategy="use the new one")
    world.clock.advance(seconds=1)
    (verdict,) = world.run(0).verdicts
    assert (verdict.fix, verdict.issue) == (recorded["name"], "warn#add is old")


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda world: world.run(1, "error: something else"), "the command failed otherwise"),
        (lambda world: world.run(0, cmd="pytest -q tests"), "it is another command"),
        (lambda world: world.run(0, cwd="/srv/other"), "it ran elsewhere"),
        (lambda world: world.run(0, repo="acme/other"), "it is another repository"),
        (lambda world: world.fail(cwd="/srv/other"), "the issue is elsewhere"),
    ],
)
def test_what_proves_nothing_is_no_evidence(
    world: World, act: Callable[[World], Captured], why: str
) -> None:
    """Only the same command, in the same place, that succeeds or shows the issue, counts."""
    world.fail()
    fix = world.fix()
    assert act(world).verdicts == (), why
    assert world.outcomes(fix) == []


def test_a_proposal_is_not_judged(world: World) -> None:
    """It has not been tried."""
    world.fail()
    fix = world.fix(result="proposed")
    world.fail()
    world.run(0)
    assert world.outcomes(fix) == []


def test_a_fix_that_was_applied_while_the_command_ran_is_not_judged(world: World) -> None:
    """The run began without it; the next one counts."""
    world.fail()
    passed = world.passed(exit_code=1, stdout=FAILING, took=60)
    world.memory.record_fix(ISSUE, strategy="late", ts=timestamp(world.clock.now()))
    assert capture(world.memory, passed, world.place).verdicts == ()
    world.clock.advance(seconds=1)
    assert [each.status for each in world.run(0).verdicts] == ["verified_successful"]


def test_a_fix_that_is_deleted_meanwhile_does_not_cost_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client deletes it between reading and writing: the run is recorded all the same."""
    world.fail()
    fix = world.fix()

    def judged(*args: Any) -> Any:
        found = verify_fixes(*args)
        world.memory.delete_entities([fix])
        return found

    monkeypatch.setattr("onceward.memory.capture.command_capture.verify_fixes", judged)
    found = world.run(0, "1 passed")
    assert found.verdicts == ()
    assert world.entity(found.run).name == found.run


def test_work_for_evidence_is_bounded(world: World) -> None:
    """Of a command with many results and issues only the newest are looked at."""
    for number in range(60):
        world.run(1, f"error: trouble {'x' * (number + 1)}")
    old = world.memory.record_fix("trouble x", strategy="old")["name"]
    new = world.memory.record_fix(f"trouble {'x' * 60}", strategy="new")["name"]
    world.clock.advance(seconds=1)
    assert [each.fix for each in world.run(0).verdicts] == [new]
    assert world.outcomes(old) == []


# --- what is known -------------------------------------------------------------------------------


def test_a_new_issue_gets_the_fix_of_a_similar_one(world: World) -> None:
    """The closest match with a fix is shown, as such."""
    world.run(1, "ModuleNotFoundError: No module named 'requests'")
    world.memory.record_fix(
        "ModuleNotFoundError: No module named 'requests'", strategy="pip install it"
    )
    (issue,) = world.run(1, "ModuleNotFoundError: No module named 'yaml'").issues
    assert issue.is_new
    assert issue.known is not None
    assert "closest match" in issue.known["text"]
    assert "pip install it" in issue.known["text"]
    (stranger,) = world.run(1, "error: something altogether unheard of").issues
    assert stranger.known is None


def test_h32_secrets_of_a_command_never_reach_the_memory(world: World) -> None:
    """Neither by its words, nor by its output, nor by the names made of them."""
    output = f"error: cannot log in with {SECRET}\npassword={SECRET}-x\n" + "x" * 9_000 + SECRET
    world.run(1, output, cmd=f"login --token {SECRET}", cwd=f"/srv/{SECRET}")
    kept = repr(world.memory.graph.read())
    assert SECRET not in kept
    assert "cannot log in with [redacted]" in kept


def test_a_secret_at_the_edge_of_what_is_kept_is_not_cut_in_half(world: World) -> None:
    """It is taken out before heads and messages are cut."""
    output = "error: " + "a b " * 70 + SECRET + "\n" + "x" * (8 * 1024 - 295) + SECRET
    world.run(1, output)
    kept = repr(world.memory.graph.read())
    assert not any(SECRET[:size] in kept for size in range(8, len(SECRET)))


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point", ["after_entities", "after_observations", "before_commit", "after_commit"]
)
def test_a_crash_keeps_all_of_a_run_or_nothing(world: World, point: str) -> None:
    """There is no run without its errors, and no evidence without its run."""
    world.fail()
    fix = world.fix()
    before = world.memory.graph.read()
    crash_points.arm(f"memory.write.{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            world.run(0, "1 passed")
    finally:
        crash_points.arm(None)
    if point != "after_commit":
        assert world.memory.graph.read() == before
        world.clock.advance(seconds=1)
        world.run(0, "1 passed")
    assert world.outcomes(fix) == ["verified_successful"]
    assert world.memory.graph.problems() == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_lost_answer_does_not_double_anything(
    ow_url: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock, kept: bool
) -> None:
    """Whether the lost commit happened or not: everything is there once, evidence too."""
    with unreliable(ow_url, monkeypatch) as (url, lose), open_handle(url) as ow:
        world = World(Memory(ow, clock=clock, redactor=Redactor()), clock)
        world.fail()
        fix = world.fix()
        lose(kept)
        world.run(0, "1 passed")
        assert world.outcomes(fix) == ["verified_successful"]
        assert world.memory.graph.counts().entities == 9


def test_a_store_that_is_gone_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three attempts the caller learns that nothing was recorded."""
    attempts: list[object] = []

    def gone(*args: object, **_: object) -> None:
        attempts.append(args)
        raise StoreUnavailable

    monkeypatch.setattr(world.memory.graph.store, "write", gone)
    with pytest.raises(StoreUnavailable):
        world.fail()
    assert len(attempts) == 3


def test_an_unknown_fix_is_an_error_of_the_caller(world: World) -> None:
    """Only what was recorded can be fixed."""
    with pytest.raises(EntityMissing):
        world.fix()


def test_a_directory_is_named_by_its_repository(tmp_path: Path) -> None:
    """By its home if it has one, by its path if not, and not at all outside of any."""
    import subprocess

    from onceward.memory.capture.command_capture import Checkout, checkout_of

    assert checkout_of(tmp_path) == Checkout()
    for words in (["init", "-q", "-b", "topic"], ["config", "user.name", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert checkout_of(tmp_path) == Checkout(repo=str(tmp_path.resolve()), branch="topic")
    for address in (
        "git@code.example:acme/shop.git",
        "https://user:pw@code.example/acme/shop",
        "ssh://git@code.example:22/acme/shop.git/",
    ):
        for words in (["remote", "remove", "origin"], ["remote", "add", "origin", address]):
            subprocess.run(["git", *words], cwd=tmp_path, check=False, stderr=subprocess.DEVNULL)
        assert checkout_of(tmp_path).repo == "acme/shop", address

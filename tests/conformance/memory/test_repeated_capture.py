"""Repeated capture: each attempt of a fix counts, and optional steps never cost the record."""

from dataclasses import replace
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import InvalidArgument, StoreBusy
from onceward.memory import Memory
from onceward.memory.capture.command_capture import Captured, capture
from onceward.memory.capture.fix_verification import next_attempt
from onceward.memory.envelope import parse
from onceward.system import ManualClock
from onceward.system.redaction import Redactor
from tests.conformance.memory.test_command_capture import FAILING, ISSUE, World
from tests.support.lost_commit_answers import unreliable


@pytest.fixture
def world(ow: Onceward) -> World:
    clock = ManualClock()
    return World(Memory(ow, clock=clock, redactor=Redactor(), repo="acme/shop"), clock)


def statuses(found: Captured) -> list[str]:
    return [each.status for each in found.verdicts]


def tell(world: World) -> str:
    return str(world.memory.recall(ISSUE)["text"])


# --- attempts ------------------------------------------------------------------------------------


def test_a_fix_that_is_applied_again_is_judged_again(world: World) -> None:
    """The issue comes back, the same fix helps again: that is more evidence than before."""
    world.fail()
    fix = world.fix()
    assert statuses(world.run(0, "1 passed")) == ["verified_successful"]
    assert statuses(world.fail()) == []
    assert next_attempt(world.memory.graph, fix) == 2
    assert world.fix(attempt=2) == fix
    assert world.fix(attempt=2) == fix
    assert next_attempt(world.memory.graph, fix) is None
    assert statuses(world.run(0, "1 passed")) == ["verified_successful"]
    assert "verified 2 of 2" in tell(world)
    facts = [parse(each.content) for each in world.entity(fix).observations]
    assert [(each.kind, each.data.get("attempt")) for each in facts if each] == [
        ("fix.apply", None),
        ("fix.outcome", None),
        ("fix.apply", 2),
        ("fix.outcome", None),
    ]
    assert world.memory.recall(ISSUE)["fixes"][0]["verifiedBy"] == "command: pytest -q, attempt 2"


def test_a_fix_that_is_applied_again_may_fail_then(world: World) -> None:
    """It helped once, and the next time it did not."""
    world.fail()
    world.fix()
    world.run(0, "1 passed")
    world.fail()
    world.fix(attempt=2)
    assert statuses(world.fail()) == ["failed"]
    assert statuses(world.fail()) == []
    assert "verified 1 of 2" in tell(world)


def test_a_fix_that_is_only_reported_again_is_the_same_attempt(world: World) -> None:
    """Before it was judged, or while the issue is gone, it does not count as applied again."""
    graph = world.memory.graph
    world.fail()
    fix = world.fix(attempt=1)
    assert next_attempt(graph, fix) is None
    world.run(0, "1 passed")
    before = world.entity(fix)
    assert next_attempt(graph, fix) is None
    world.fix()
    assert world.entity(fix) == before
    world.fail()
    world.fix()
    assert statuses(world.run(0, "1 passed")) == []
    assert world.entity(fix) == before
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(InvalidArgument):
            world.fix(attempt=wrong)
    assert next_attempt(graph, "fix#err#nothing#00000000") is None


def test_an_outcome_elsewhere_is_none_here(world: World) -> None:
    """Applied in two repositories, a fix is judged in both."""
    for repo in ("acme/shop", "acme/other"):
        world.memory = Memory(world.memory.ow, clock=world.clock, repo=repo)
        world.run(1, FAILING, repo=repo)
        world.fix()
    assert statuses(world.run(0, "ok", repo="acme/shop")) == ["verified_successful"]
    assert statuses(world.run(0, "ok", repo="acme/other")) == ["verified_successful"]
    assert "verified 2 of 2" in tell(world)


@pytest.mark.parametrize("kept", [True, False])
def test_a_verdict_is_returned_though_its_first_answer_was_lost(
    ow_url: str, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """A client that records a run twice unknowingly gets what the run said about the fix."""
    with unreliable(ow_url, monkeypatch) as (url, lose), open_handle(url) as ow:
        clock = ManualClock()
        world = World(Memory(ow, clock=clock, redactor=Redactor()), clock)
        world.fail()
        fix = world.fix()
        lose(kept)
        assert statuses(world.run(0, "1 passed")) == ["verified_successful"]
        assert world.outcomes(fix) == ["verified_successful"]


# --- what must not cost the record ---------------------------------------------------------------


def test_a_recall_that_fails_does_not_cost_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before the write nor after it: the run is recorded, and said to be."""

    def busy(*_: object) -> Any:
        raise StoreBusy

    monkeypatch.setattr(world.memory, "recall", busy)
    for is_new in (True, False):
        found = world.fail()
        assert [(each.is_new, each.known) for each in found.issues] == [(is_new, None)] * 2
        assert world.entity(found.run).name == found.run
    monkeypatch.setattr("onceward.memory.capture.command_capture._similar_issues", busy)
    found = world.fail()
    assert world.entity(found.run).name == found.run


def test_what_the_system_calls_text_may_be_any_bytes(world: World) -> None:
    """Arguments and directories that are not UTF-8 are recorded with marks for what is no text."""
    passed = world.passed(exit_code=1, stdout=FAILING, cmd="ls '/nope\udcff'")
    odd = replace(world.place, cwd="/srv/\udcfe", repo="\udcff", branch="\udcff", mode="m\udcff")
    found = capture(world.memory, passed, odd)
    assert found.command.startswith("cmd#ls '/nope?'#")
    fact = parse(world.entity(found.command).observations[0].content)
    assert fact is not None
    assert (fact.data["cmd"], fact.data["cwd"], fact.repo) == ("ls '/nope?'", "/srv/?", "?")


def test_a_tool_of_any_name_is_recorded(world: World) -> None:
    """A name of nothing but marks would be refused, and the whole run with it."""
    cases: list[Any] = [
        ("@", "unknown"),
        ("'@ @'", "unknown"),
        ("'/bin/ # '", "unknown"),
        ("/bin/x@", "x"),
        ("tool#", "tool"),
        ("/", "unknown"),
        ("python@3.12 -V", "python@3.12"),
        ("./it's", "it's"),
    ]
    for cmd, tool in cases:
        found = world.run(0, cmd=cmd)
        uses = world.memory.graph.open([found.run]).relations
        assert f"tool#{tool}" in [each.to_name for each in uses if each.relation_type == "USES"]

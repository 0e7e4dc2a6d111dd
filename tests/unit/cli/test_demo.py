"""`onceward demo`: what it prints of a story, and when it fails."""

import pytest

from onceward.demo import short_demo
from onceward.demo.interleaving import StageEvent
from onceward.demo.result_counts import Row
from tests.support.command_runner import Run


def demo_result(*, lost: int) -> short_demo.DemoResult:
    row = Row(
        part="leads",
        done=7,
        killed=3,
        retried=2,
        taken_over=4,
        refused=1,
        lost=lost,
        doubled=0,
    )
    event = StageEvent(at=1.5, part="leads", text="worker 2 is killed", is_blow=True)
    return short_demo.DemoResult(seconds=12.3, events=(event,), rows=(row,))


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
def test_the_exit_code_is_that_of_what_was_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch, lost: int, code: int
) -> None:
    """One lost lead is a failure, whatever else went well."""
    monkeypatch.setattr(short_demo, "run_short_demo", lambda *_: demo_result(lost=lost))
    ran = run("demo", "--json")
    assert ran.code == code
    assert (ran.json["ok"], ran.json["total"]["lost"]) == (lost == 0, lost)
    assert ran.json["events"][0]["text"] == "worker 2 is killed"


def test_a_person_gets_a_table_and_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns, and what they come to."""
    monkeypatch.setattr(short_demo, "run_short_demo", lambda *_: demo_result(lost=0))
    ran = run("demo")
    assert ran.code == 0
    for word in ("killed", "retried", "taken over", "refused", "lost", "doubled"):
        assert word in ran.out
    assert "nothing was lost, nothing was done twice" in ran.out


@pytest.mark.parametrize("words", [("--seconds", "1"), ("--store", "mysql://x/y")])
def test_what_makes_no_story_is_bad_usage(run: Run, words: tuple[str, ...]) -> None:
    """Too short, or no store of ours: exit 2, and nothing was started."""
    assert run("demo", *words).code == 2

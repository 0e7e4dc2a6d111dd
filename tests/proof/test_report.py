"""The report: nothing happened is no evidence, and the pages say what the report says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.proof import pages, report
from tests.support.evidence import Entry, Evidence, check, lines

ENTRY = Entry(
    campaign="an example",
    layer="matrix",
    claims=("D1",),
    engine="sqlite",
    schedules=3,
    faults={"kill": 2},
    work=10,
    reached={"a state": 1},
)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"claims": ()}, "which promise"),
        ({"schedules": 0}, "nothing was run"),
        ({"work": 0}, "no work was done"),
        ({"faults": {}}, "no fault was hit"),
        ({"faults": {"kill": 0}}, "no fault was hit"),
        ({"reached": {"a state": 1, "another": 0}}, "never reached another"),
        ({"lost": 1}, "1 lost"),
        ({"doubled": 2}, "2 duplicated"),
        ({"layer": "luck"}, "no layer"),
        ({"engine": "paper"}, "no engine"),
    ],
)
def test_a_campaign_in_which_nothing_happened_proves_nothing(
    changes: dict[str, Any], complaint: str
) -> None:
    """Without work, faults or the states it is there for, it fails; with a loss even more so."""
    check(ENTRY)
    with pytest.raises(AssertionError, match=complaint):
        check(replace(ENTRY, **changes))


def test_what_processes_wrote_becomes_one_report(tmp_path: Path) -> None:
    """Parts of a campaign are added up, and every promise has its share."""
    for number in (1, 2):
        part = replace(ENTRY, recovery_seconds=(0.1 * number,))
        Evidence("a test", tmp_path / f"entries-{number}.jsonl").record(part)
    bug = {"bug": "b1", "what": "x", "claim": "D1", "test": "t", "seconds": 1.0}
    (tmp_path / "bugs-1.jsonl").write_text(json.dumps(bug) + "\n")
    (tmp_path / "tests-1.jsonl").write_text('{"test": "tests/unit/journal/test_crashes.py::x"}\n')
    made = report.made_of(tmp_path, 61.0)
    claim = made["claims"]["D1"]
    assert (claim["schedules"], claim["faults"], claim["tests"]) == (6, {"kill": 4}, 1)
    assert claim["bugs"] == ["b1"]
    assert claim["recovery_max_seconds"] == 0.2
    assert [each["schedules"] for each in made["campaigns"]] == [6]
    assert made["campaigns"][0]["reached"] == {"a state": 2}
    texts = pages.pages(made)
    assert "| D1 | 6 | 4 | 0 | 0 | 0.20 s | 1 | 1 |" in texts[report.GUARANTEES]
    assert "an example" in texts[pages.EVIDENCE]


def test_a_promise_that_was_never_made_is_refused(tmp_path: Path) -> None:
    """Evidence for an id that GUARANTEES.md does not have is a mistake."""
    entry = replace(ENTRY, claims=("Z9",))
    Evidence("a test", tmp_path / "entries-1.jsonl").record(entry)
    assert len(list(lines(tmp_path, "entries"))) == 1
    with pytest.raises(AssertionError, match="not in GUARANTEES.md: \\['Z9'\\]"):
        report.made_of(tmp_path, 1.0)


@pytest.fixture
def kept() -> report.Json:
    """The report of the last whole run."""
    if not report.REPORT.exists():
        pytest.skip("no run is kept yet; `make prove` keeps one")
    return report.read()


def test_every_promise_has_evidence(kept: report.Json) -> None:
    """In the report that is kept, each was tried by a campaign or by tests of its own."""
    assert [*kept["claims"]] == [each.id for each in report.promises()]
    for promise in report.promises():
        found = kept["claims"][promise.id]
        assert found["schedules"] + found["tests"] > 0, promise.id
        assert (found["lost"], found["doubled"]) == (0, 0), promise.id


def test_the_pages_say_what_the_report_says(kept: report.Json) -> None:
    """No number in them is typed by hand."""
    for path, text in pages.pages(kept).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make prove`"

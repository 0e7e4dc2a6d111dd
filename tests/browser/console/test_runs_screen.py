"""Runs and one of them: that it crashed, went on, and did nothing twice."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit

TIMES = "\N{MULTIPLICATION SIGN}"


def the_run(console: Console) -> tuple[str, str]:
    """Return the address of the one run of the story, and its id."""
    (run,) = console.get("/api/orchestrator/runs")["items"]
    return f"/runs/{run['workspace']['id']}/{run['run_id']}", run["run_id"]


def test_a_run_is_found_and_opened(page: Page, console: Console, visit: Visit) -> None:
    """The list says what it is about, how it stands and how often it was resumed."""
    address, run_id = the_run(console)
    visit(console, "/runs?status=failed", "Runs")
    page.get_by_role("button", name="Clear the filter").click()
    row = page.get_by_role("table", name="Runs").locator("tbody tr")
    expect(row).to_contain_text("write src/T-1.txt")
    expect(row).to_contain_text("done")
    expect(row).to_contain_text(f"1 {TIMES}")
    press_keys(page, "j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(run_id)
    assert page.url.endswith(address)


def test_a_crash_is_a_line_and_what_was_recorded_is_not_redone(
    page: Page, console: Console, visit: Visit
) -> None:
    """The headline counts; the line stands where the first bar ends and the hatched one is not."""
    address, run_id = the_run(console)
    visit(console, address, run_id)
    headline = f"crashed 1{TIMES}, resumed from step 2, 0 recorded steps redone"
    expect(page.get_by_text(headline)).to_be_visible()
    expect(page.get_by_text("Crashed at")).to_contain_text("died in step 2")
    timeline = page.get_by_role("group", name="Timeline of the run")
    line = timeline.locator(".timeline-crash")
    expect(line).to_have_count(1)
    first = timeline.get_by_role("button", name="step 2: review of T-1, done, sent 2 times")
    again = timeline.get_by_role("button", name="step 2 again after a crash")
    places = [each.bounding_box() for each in (line, first, again)]
    crash, before, after = (each["x"] for each in places if each is not None)
    assert before <= crash + 2 < after
    expect(timeline.locator(".timeline-bar.is-again")).to_have_count(1)


def test_steps_are_walked_by_keyboard(page: Page, console: Console, visit: Visit) -> None:
    """Arrows go from step to step over all lanes; the panel says what each was."""
    address, run_id = the_run(console)
    visit(console, address, run_id)
    page.get_by_role("button", name="step 1: implement of T-1, done").click()
    expect(page.get_by_role("region", name="Step 1", exact=True)).to_contain_text("builder")
    press_keys(page, "ArrowRight")
    expect(page.get_by_role("region", name="Step 2", exact=True)).to_contain_text("twice")
    expect(page.locator("[data-step='2']")).to_be_focused()
    assert "step=2" in page.url
    page.get_by_label("Collapse idle time").uncheck()
    expect(page.get_by_text("idle, not to scale")).to_have_count(0)


def test_every_way_to_look_at_it(page: Page, console: Console, visit: Visit) -> None:
    """Commands, the ledger in two densities, files with their hashes, and all of it verified."""
    address, run_id = the_run(console)
    visit(console, f"{address}?tab=commands", run_id)
    expect(page.get_by_role("row", name="2. review T-1")).to_contain_text("twice")
    ways = page.get_by_role("navigation", name="Views of this run")
    ways.get_by_role("link", name="Journal").click()
    expect(page.get_by_text("All checksums of the lines shown match")).to_be_visible()
    expect(page.locator(".journal-entry").filter(has_text="run.resumed")).to_contain_text("11")
    page.get_by_label("Whole records").check()
    expect(page.get_by_text('"kind": "run.resumed"')).to_be_visible()
    ways.get_by_role("link", name="Artifacts").click()
    file = page.get_by_role("region", name="src/T-1.txt", exact=True)
    expect(file).to_contain_text("as recorded")
    expect(file.get_by_role("region", name="Text of src/T-1.txt")).to_contain_text("third")
    file.get_by_role("button", name="step 1").click()
    expect(file).to_contain_text("a later step changed it")
    page.get_by_role("button", name="Verify files").click()
    expect(page.get_by_text("all as recorded.")).to_be_visible()


def test_two_rounds_have_two_keys_and_the_inspector_says_why(
    page: Page, console: Console, visit: Visit
) -> None:
    """From why a command was sent to what makes its key another one than the round before."""
    address, run_id = the_run(console)
    visit(console, f"{address}?tab=explain&step=4", run_id)
    story = page.get_by_role("listitem").filter(has_text="Step 4: review, round 2")
    expect(story).to_contain_text("round 2: its inputs have the round")
    story.get_by_role("link", name="Compare with step 2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Key inspector")
    expect(page.get_by_role("heading", name="Different work: 2 places differ")).to_be_visible()
    expect(page.get_by_role("row", name="inputs.round absent 2")).to_be_visible()


def test_a_missing_run_is_shown_as_an_error(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The error says what is missing and what to do."""
    watch.expect(404)
    address, _ = the_run(console)
    other = "run-20260101-000000-00000000"
    visit(console, f"{address.rpartition('/')[0]}/{other}", other)
    expect(page.get_by_role("alert")).to_contain_text("no run", ignore_case=True)


@pytest.mark.parametrize("tab", ["", "timeline&step=2", "journal", "artifacts", "explain&step=4"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, tab: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    address, run_id = the_run(console)
    if tab:
        visit(console, f"{address}?tab={tab}", run_id)
    else:
        visit(console, "/runs", "Runs")
    assert_accessible(page)


def test_everybody_can_use_an_empty_list(page: Page, empty: Console, visit: Visit) -> None:
    """Nothing yet is explained, with commands to begin with."""
    visit(empty, "/runs", "Runs")
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    assert_accessible(page)


def test_what_no_check_has_passed_is_said(page: Page, console: Console, visit: Visit) -> None:
    """A run that is done without a check says so, in the list and on its page."""
    address, run_id = the_run(console)
    (run,) = console.get("/api/orchestrator/runs")["items"]
    assert run["unchecked"] == ["T-1", "T-2", "T-3"]
    visit(console, "/runs", "Runs")
    expect(page.get_by_role("table", name="Runs")).to_contain_text("unchecked: T-1, T-2, T-3")
    visit(console, address, run_id)
    expect(page.locator("dt", has_text="Unchecked").locator("+ dd")).to_have_text("T-1, T-2, T-3")

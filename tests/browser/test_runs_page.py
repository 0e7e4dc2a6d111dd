"""The runs page: importing, choosing, comparing; and the results that come of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import expect_heading
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import decide, entries, imported, pair, reports
from tests.support.lab_processes import Bench
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with LabServer(tmp_path_factory.mktemp("empty")) as server:
        yield server


def test_from_nothing_to_a_result(page: Page, empty: LabServer) -> None:
    """A stranger imports two runs, compares them, decides, and reads and exports the result."""
    old = make_run(empty.directory, "old", "Tides", **reports(60, 90, 0.5, 0.5))
    new = make_run(empty.directory, "new", "Winds", **reports(80, 30, 0.75, 0.25))
    page.goto(f"{empty.url}/lab/results")
    expect(page.get_by_text("Nothing has been decided yet.")).to_be_visible()
    page.get_by_role("link", name="Choose runs to compare").click()
    expect(page.get_by_text("No run has been imported yet.")).to_be_visible()
    for number, place in enumerate((old, new), start=1):
        page.get_by_label("Directory or video on the server").fill(str(place))
        page.get_by_role("button", name="Import").click()
        expect(page.locator("#runs .card")).to_have_count(number)
    page.get_by_role("checkbox", name="Select Tides").check()
    expect(page.locator("#compare")).to_be_disabled()
    page.get_by_role("checkbox", name="Select Winds").check()
    page.get_by_label("Label of variant 1, Winds").fill("shorter")
    page.get_by_text("Name, hypothesis, questions").click()
    page.get_by_label(re.compile("^Name")).fill("Length")
    page.get_by_role("button", name="Add a question").click()
    page.keyboard.type("Is it clear?")
    page.locator("#compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Length")
    page.get_by_role("radio", name="Yes").check()
    page.get_by_role("radio", name="Tie").check()
    page.locator("#submit").click()
    expect_heading(page)
    page.get_by_role("link", name="Results of all comparisons").click()
    wins = page.get_by_role("table", name="Standings of Length")
    expect(wins.get_by_role("row", name="shorter")).to_contain_text("no wins or losses yet")
    metrics = page.get_by_role("table", name=re.compile("the variant minus the baseline"))
    expect(metrics.get_by_role("row", name="shorter")).to_contain_text("+20.0 ▲ better")
    page.locator("#export").click()
    expect(page.locator("#export-said")).to_contain_text("✓ 2 judgements in ")
    written = json.loads(Path(page.locator("#export-said code").inner_text()).read_text())
    assert written["experiments"][0]["questions"][0]["prompt"] == "Is it clear?"
    assert len(written["feedback"]) == len(entries(empty)) == 2


def test_results_count_and_say_how_sure(page: Page, lab: LabServer) -> None:
    """Wins, losses and ties are counted by name, and an interval says what they prove."""
    for number in range(12):
        experiment_id = pair(lab, name="Hooks")
        variant = lab.get(f"/api/experiments/{experiment_id}").json()["variants"][0]["variantId"]
        won = {"winnerVariantId": variant if number < 9 else "baseline"}
        decide(lab, experiment_id, **(won if number < 11 else {"outcome": "tie"}))
    page.goto(f"{lab.url}/lab/results")
    row = page.get_by_role("table", name="Standings of Hooks").get_by_role("row", name="plain-two")
    cells = row.get_by_role("cell")
    rate = re.compile(r"82 % \(52 % to 95 %\)")
    expect(cells).to_have_text(["wins", rate, "12", "9", "2", "1", "0"])
    expect(row.locator("svg.interval")).to_be_visible()


def test_what_cannot_be_imported_is_said_at_the_field(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """Outside, missing, unrecognisable or empty: each has its message, and the field the focus."""
    watch.expect(400, 403, 404)
    (lab.directory / "nothing").mkdir()
    page.goto(f"{lab.url}/lab")
    field = page.get_by_label("Directory or video on the server")
    for path, says in {
        "/etc": "not inside a directory that this server may read",
        str(lab.directory / "gone"): "does not exist",
        str(lab.directory / "nothing"): "script.json",
        " ": "There is no path yet",
    }.items():
        field.fill(path)
        field.press("Enter")
        expect(page.locator(".import .field-error")).to_contain_text(says)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".import .field-error")).not_to_contain_text("path:")


def test_a_changed_run_names_the_one_it_supersedes(page: Page, lab: LabServer) -> None:
    """Importing again what has changed makes a newer run, which leads to the older one."""
    place = make_run(lab.directory, "growing", "Roots")
    older = imported(lab, place)
    page.goto(f"{lab.url}/lab")
    field = page.get_by_label("Directory or video on the server")
    field.fill(str(place))
    field.press("Enter")
    expect(page.get_by_text("has not changed")).to_be_visible()
    make_run(lab.directory, "growing", "Roots and leaves")
    field.fill(str(place))
    field.press("Enter")
    expect(page.get_by_text("Imported.", exact=True)).to_be_visible()
    card = page.locator("#runs .card", has_text="Roots and leaves")
    expect(card.get_by_role("checkbox")).to_be_focused()
    card.get_by_role("link", name=re.compile("^the run of ")).click()
    expect(page).to_have_url(f"{lab.url}/lab/review/{older}")


def test_longer_lists_come_in_pages(page: Page, mortal: LabServer) -> None:
    """Twenty runs are shown, the rest is a press away, and what is ticked stays ticked."""
    for number in range(22):
        imported(mortal, make_run(mortal.directory, f"many-{number}", f"Topic {number}"))
    page.goto(f"{mortal.url}/lab")
    expect(page.locator("#runs .card")).to_have_count(20)
    page.get_by_role("checkbox", name="Select Topic 21").check()
    page.get_by_role("button", name="More runs").click()
    expect(page.locator("#runs .card")).to_have_count(22)
    expect(page.get_by_role("checkbox", name="Select Topic 21")).to_be_checked()
    expect(page.get_by_role("button", name="More runs")).to_have_count(0)


def test_a_comparison_asked_for_by_a_command(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """The command ends with the result, and the page with the deltas, though the server is gone."""
    watch.expect_restart()
    bench = Bench(tmp_path)
    make_run(tmp_path, "b", score={"overall": 0.75})
    with bench.lab("compare", "runs/a", "runs/b", "--name", "Scores") as server:
        page.goto(f"{server.url}/lab")
        page.get_by_role("link", name="Continue: compare").click()
        expect(page).to_have_url(server.announced["pageUrl"])
        expect(page.get_by_role("heading", level=1)).to_have_text("Scores")
        page.keyboard.press("n")
        page.keyboard.type("quicker")
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        expect_heading(page)
        code, (line,), err = server.end()
    assert (code, err) == (0, "")
    result = json.loads(line)
    assert (result["outcome"], result["reason"]) == ("winner", "quicker")
    expect(page.locator("#deltas")).to_contain_text("+25.0 ▲ better")
    expect(page.locator("#close-hint")).to_contain_text("The server may stop now")
    expect(page.locator("#banner")).to_be_hidden()


def test_a_review_asked_for_by_a_command(page: Page, tmp_path: Path, watch: PageMonitor) -> None:
    """The same for one run."""
    watch.expect_restart()
    bench = Bench(tmp_path)
    with bench.lab("review", "runs/a") as server:
        page.goto(server.announced["pageUrl"])
        page.get_by_label("Overall, exact number").fill("71")
        page.locator("#submit").click()
        expect_heading(page)
        code, _, err = server.end()
    assert (code, err) == (0, "")
    assert [each["ratings"] for each in bench.entries] == [{"overall": 71}]
    expect(page.locator("#close-hint")).to_contain_text("The server may stop now")


def test_an_export_that_is_refused(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """It is said why, and the button can be pressed again."""
    watch.expect(400)
    page.goto(f"{lab.url}/lab/results")
    failure = {"error": {"code": "INVALID_ARGUMENT", "message": "no room", "context": {}}}
    page.route("**/api/export", lambda route: route.fulfill(status=400, json=failure), times=1)
    page.locator("#export").click()
    expect(page.locator("#export-said")).to_have_text("⚠ Not exported. No room.")
    page.locator("#export").click()
    expect(page.locator("#export-said")).to_contain_text("✓")

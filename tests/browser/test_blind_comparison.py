"""Blind comparison: nothing tells the sides apart before the decision; their order is random."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import expect_heading, open_comparison
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import comparison, make_documents, make_video, pair, reports
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

#: So many that one order in fewer than an eighth of them happens once in 20,000 runs.
DRAWS = 24
MINUS = "\N{MINUS SIGN}"
SIDES = "[...document.querySelectorAll('video')].map((each) => each.getAttribute('src'))"


def telling_runs(lab: LabServer) -> list[Path]:
    """Return two runs that give themselves away wherever they can."""
    places = []
    for name, topic, numbers in (
        ("rocket-model", "The tides of Venus", (87.5, 413, 0.715, 0.335)),
        ("turtle-model", "The winds of Saturn", (64.5, 977, 0.885, 0.555)),
    ):
        place = make_run(lab.directory, name, topic, **reports(*numbers))
        script = {
            "meta": {"topic": topic, "model": name},
            "title": topic,
            "scenes": [{"text": "Once upon a time", "audioPath": str(place / "1.wav")}],
        }
        (place / "script.json").write_text(json.dumps(script))
        make_documents(lab.directory, name, {"plan.md": "# The same\n"}, title=f"By {name}")
        make_video(place, seconds=1)
        places.append(place)
    return places


def test_nothing_is_revealed_before_the_decision(page: Page, lab: LabServer) -> None:
    """Labels, topics, paths, metrics and the hypothesis are nowhere in the page; then all are."""
    rocket, turtle = telling_runs(lab)
    hypothesis = "the turtle is slower"
    experiment_id = comparison(lab, rocket, turtle, name="Planets", hypothesis=hypothesis)
    open_comparison(page, lab, experiment_id)
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(page.locator(".pane-body > *").first).not_to_have_text("Loading…")
    page.get_by_role("tab", name="Script").click()
    expect(page.get_by_text("Once upon a time").first).to_be_visible()
    # Ids are drawn by chance, and may hold any digits.
    html = re.sub(r"run_[0-9a-f-]{36}", "", page.evaluate("document.documentElement.outerHTML"))
    experiment = lab.get(f"/api/experiments/{experiment_id}").json()
    metrics = ("87.5", "413", "71.5", "33.5", "64.5", "977", "88.5", "55.5", "passable")
    words = ("rocket", "turtle", "Venus", "Saturn", str(lab.directory), "Baseline", "baseline")
    for secret in (*metrics, *words, experiment["variants"][0]["variantId"]):
        assert secret not in html, secret

    page.get_by_text("Show the hypothesis (may bias you)").click()
    expect(page.get_by_text(hypothesis)).to_be_visible()
    page.get_by_text("Show the automatic metrics (may bias you)").click()
    expect(page.get_by_role("table", name="Automatic metrics")).to_contain_text("87.5")
    page.keyboard.press("1")
    page.locator("#submit").click()
    expect_heading(page)
    for detail in ("turtle-model", "The tides of Venus", str(rocket), str(turtle)):
        expect(page.locator("#who")).to_contain_text(detail)
    expect(page.locator("#deltas")).to_contain_text(
        re.compile(rf"Sync rating\s*87\.5\s*{MINUS}23\.0")
    )
    expect(page.locator("#deltas")).to_contain_text("+564 ms")
    expect(page.locator("#deltas")).to_contain_text("+22.0")


def test_sides_keep_their_places(page: Page, lab: LabServer) -> None:
    """A reload shows the same side under the same letter, and the end names it by that letter."""
    experiment_id = comparison(lab, *telling_runs(lab))
    open_comparison(page, lab, experiment_id)
    before = page.evaluate(SIDES)
    page.reload()
    expect(page.locator("#submit")).to_be_visible()
    assert page.evaluate(SIDES) == before
    page.keyboard.press("1")
    page.locator("#submit").click()
    expect_heading(page)
    experiment = lab.get(f"/api/experiments/{experiment_id}").json()
    won = experiment["winner"]["variantId"]
    variant = experiment["variants"][0]
    run_id = experiment["baselineRunId"] if won == "baseline" else variant["runId"]
    assert run_id in before[0]
    name = "Baseline" if won == "baseline" else "turtle-model"
    expect(page.locator("#outcome")).to_have_text(f"✓ {name} (A) is better.")


def test_both_orders_occur(page: Page, lab: LabServer) -> None:
    """Over many comparisons each side is shown first about as often as the other."""
    experiment_id = pair(lab)
    page.goto(f"{lab.url}/lab")
    order = f"onceward.lab.order.{experiment_id}"
    first = 0
    for _ in range(DRAWS):
        page.evaluate("(name) => localStorage.removeItem(name)", order)
        open_comparison(page, lab, experiment_id)
        first += page.evaluate("(name) => JSON.parse(localStorage[name])[0] === 'baseline'", order)
    assert DRAWS / 8 <= first <= DRAWS * 7 / 8, first


def test_what_is_wrong_with_a_side_does_not_name_it(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """Neither a directory that was overwritten nor a broken file tells which side it is."""
    watch.expect(409)
    files: dict[str, str | bytes] = {"plan.md": "# One\n"}
    old = make_documents(lab.directory, "my outputs/baseline old", files)
    new = make_documents(lab.directory, "läufe/gpt-5", {**files, "by-gpt-5.md": "# Two\n"})
    declared = [*json.loads((new / "lab.json").read_text())["files"], {"path": "gpt-5.odd"}]
    (new / "lab.json").write_text(json.dumps({"files": declared, "video": "gpt-5.mp4"}))
    (new / "by-gpt-5.md").unlink()
    (new / "by-gpt-5.md").symlink_to(new / "plan.md")
    (new / "script.json").write_text(json.dumps({"note": f"see {new}/x and file:///ä/gpt-5/y"}))
    experiment_id = comparison(lab, old, new)
    (old / "plan.md").write_text("# Overwritten\n")
    open_comparison(page, lab, experiment_id)
    said = page.locator(".notice.warn")
    gone = "Its directory is gone or was changed since the import"
    expect(said.get_by_text(gone)).to_be_visible()
    expect(said.get_by_text("Document 2 cannot be shown.")).to_be_visible()
    expect(said.get_by_text("Its video cannot be shown.")).to_be_visible()
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(page.locator(".pane-body > *").first).not_to_have_text("Loading…")
        says_nothing(page)


def test_what_happens_to_a_side_later_does_not_name_it(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """A file overwritten while the page is open is rejected without its path, rendered too."""
    watch.expect(409)
    sides = [
        make_documents(lab.directory, name, {"a.md": "# A\n", "b.md": f"# {name}\n"})
        for name in ("late/baseline old", "late/gpt-5")
    ]
    experiment_id = comparison(lab, *sides)
    open_comparison(page, lab, experiment_id)
    for side in sides:
        (side / "b.md").write_text("# Something else\n")
    page.get_by_role("tab", name="b.md").click()
    for button in ("Scroll together", "Rendered"):
        page.get_by_role("button", name=button).click()
        expect(page.locator(".pane-body .notice.warn")).to_have_count(2)
        says_nothing(page)
    expect(page.locator("iframe")).to_have_count(0)


def says_nothing(page: Page) -> None:
    """Say that no name of a side is to be read on the page."""
    text = page.locator("body").inner_text()
    for secret in ("gpt-5", "baseline old", "outputs", "läufe"):
        assert secret not in text, text

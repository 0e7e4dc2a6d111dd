"""Accessibility: every page by axe, at the width of a desk and of a hand, by day and by night."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.lab_page_actions import expect_heading, open_comparison, open_review
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import (
    PIXEL,
    QUESTIONS,
    comparison,
    decide,
    imported,
    make_documents,
    make_video,
    pair,
    reports,
)
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

LONG = "AVeryLongTopicWithoutAnySpaceInIt" * 4


@pytest.fixture(scope="module")
def full(lab: LabServer) -> LabServer:
    """A Lab with something in every corner."""
    for name, numbers in {"one": (60, 90, 0.5, 0.5), "two": (80, 30, 0.75, 0.25)}.items():
        place = make_run(lab.directory, name, f"Ships {name}", **reports(*numbers))
        make_video(place, seconds=1)
        files: dict[str, str | bytes] = {
            "plan.md": f"# Plan {name}\n\n- {LONG}\n",
            "chart.png": PIXEL,
        }
        make_documents(lab.directory, name, files, prompt="Write a plan.")
        imported(lab, place)
    imported(lab, make_run(lab.directory, "long", LONG))
    for each in range(12):
        decide(lab, pair(lab, name="Plain"), winnerVariantId="baseline" if each else None)
    return lab


def sides(lab: LabServer) -> str:
    places = [lab.directory / "runs" / each for each in ("one", "two")]
    return comparison(lab, *places, name="Hooks", hypothesis="Two wins", questions=QUESTIONS)


def runs(page: Page, lab: LabServer) -> None:
    page.goto(f"{lab.url}/lab")
    boxes = page.locator("#runs input[type=checkbox]")
    expect(boxes.first).to_be_visible()
    page.get_by_role("button", name="Show metrics (may bias you)").click()
    for each in (0, 1):
        boxes.nth(each).check()
    page.get_by_text("Name, hypothesis, questions").click()
    page.get_by_role("button", name="Add a question").click()


def review(page: Page, lab: LabServer) -> None:
    open_review(page, lab, imported(lab, lab.directory / "runs" / "one"))
    page.get_by_text("Show the automatic metrics (may bias you)").click()


def compare(page: Page, lab: LabServer) -> None:
    open_comparison(page, lab, sides(lab))
    for text in ("Show the automatic metrics (may bias you)", "Show the hypothesis (may bias you)"):
        page.get_by_text(text).click()
    page.get_by_text("Rate A").click()
    page.get_by_role("button", name="Diff").click()
    expect(page.locator(".diff")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("Enter")
    expect(page.locator("#verdict-error")).to_be_visible()


def end(page: Page, lab: LabServer) -> None:
    open_comparison(page, lab, sides(lab))
    page.keyboard.press("1")
    page.locator("#reason").fill(LONG)
    page.locator("#submit").click()
    expect_heading(page)


def results(page: Page, lab: LabServer) -> None:
    page.goto(f"{lab.url}/lab/results")
    page.locator("#export").click()
    expect(page.locator("#export-said code")).to_be_visible()


def missing(page: Page, lab: LabServer) -> None:
    page.goto(f"{lab.url}/lab/compare/exp_{LONG}")
    expect(page.get_by_role("heading", name="Not here")).to_be_visible()


def keys(page: Page, lab: LabServer) -> None:
    open_comparison(page, lab, sides(lab))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()


@pytest.mark.parametrize(
    "show", [runs, review, compare, end, results, missing, keys], ids=lambda show: show.__name__
)
def test_everybody_can_use_the_page(
    page: Page, full: LabServer, watch: PageMonitor, show: Callable[[Page, LabServer], None]
) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    watch.expect(404)
    show(page, full)
    assert_accessible(page)


@pytest.mark.parametrize("path", ["", "/results"])
def test_everybody_can_use_an_empty_lab(page: Page, mortal: LabServer, path: str) -> None:
    """The same where there is nothing yet."""
    page.goto(f"{mortal.url}/lab{path}")
    expect(page.locator("#content > *").first).to_be_visible()
    assert_accessible(page)

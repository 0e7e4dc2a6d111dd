"""Experiments: judge inside the console, by keyboard, once; and read who wins."""

from __future__ import annotations

import json
import re
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.lab_page_actions import expect_heading, tab_to
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit


def shown_page(page: Page) -> str:
    """Return the page of the Lab that the address names."""
    return parse_qs(urlsplit(page.url).query).get("page", [""])[0]


def expect_screen(page: Page, title: str) -> None:
    """Wait for a screen of the Lab by its heading."""
    expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()


def submissions(console: Console) -> Counter[str]:
    """Return how many lines of the feedback file each request has, but for what was seeded."""
    lines = (console.home.path / "feedback" / "feedback.jsonl").read_text().splitlines()
    found = [json.loads(line)["extra"]["requestId"] for line in lines]
    return Counter(each for each in found if each != "seeded")


def test_a_comparison_is_judged_by_keyboard_and_counts_once(
    page: Page, mortal: Console, visit: Visit
) -> None:
    """The next one to judge is there at once; Enter, pressed again and again, submits it once."""
    visit(mortal, "/experiments?tab=compare", "Endings")
    assert shown_page(page).startswith("/lab/compare/exp_")
    press_keys(page, "2")
    expect(page.get_by_role("radio", name="B better")).to_be_checked()
    tab_to(page, page.locator("#submit"))
    for _ in range(3):
        press_keys(page, "Enter")
    expect_heading(page)
    assert list(submissions(mortal).values()) == [2]  # one entry for each side
    expect(page.get_by_text("Nothing left to judge, 2 decided")).to_be_visible()
    page.get_by_role("link", name="Comparisons", exact=True).click()
    rows = page.get_by_role("table", name="Comparisons").get_by_role("row")
    expect(rows.filter(has_text="Endings")).to_contain_text("decided")


def test_keys_of_the_console_and_of_the_lab_live_together(
    page: Page, console: Console, visit: Visit
) -> None:
    """Help lists both; in a field a letter is text, and outside it still leads to other screens."""
    visit(console, "/experiments?tab=compare", "Endings")
    press_keys(page, "?")
    help_dialog = page.get_by_role("dialog", name="Shortcuts")
    for each in ("B better", "Write why", "Next one to judge", "Change the theme"):
        expect(help_dialog.get_by_text(each, exact=True)).to_be_visible()
    press_keys(page, "Escape", "n")
    expect(page.locator("#reason")).to_be_focused()
    address = page.url
    page.keyboard.type("gc t 1")
    expect(page.locator("#reason")).to_have_value("gc t 1")
    expect(page.locator("#verdict :checked")).to_have_count(0)
    assert page.url == address
    press_keys(page, "Escape", "1")
    expect(page.get_by_role("radio", name="A better")).to_be_checked()
    press_keys(page, "g", "c")
    expect_screen(page, "Cursors")
    page.go_back()
    expect(page.locator("#reason")).to_have_value("gc t 1")
    expect(page.locator("#draft-state")).to_have_text("Draft restored.")


def test_the_address_follows_the_page_inside(page: Page, console: Console, visit: Visit) -> None:
    """A link between screens of the Lab stays in the console, which names it and goes back."""
    visit(console, "/experiments?tab=new", "Lab")
    page.get_by_role("link", name="Review Ships one").click()
    expect_screen(page, "Ships one")
    expect(page).to_have_url(re.compile(r"tab=review&page=%2Flab%2Freview%2F"))
    expect(page.get_by_role("link", name="Review", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    page.reload()
    expect_screen(page, "Ships one")
    press_keys(page, "]")
    expect_screen(page, "Ships two")
    page.go_back()
    expect_screen(page, "Ships one")


@pytest.mark.parametrize(
    "asked", ["https://example.test/", "/memory", "//example.test/lab", "/lab/assets/api.js"]
)
def test_only_pages_of_the_lab_are_shown(
    page: Page, console: Console, visit: Visit, asked: str
) -> None:
    """Whatever an address asks for, the console shows what belongs there."""
    visit(console, f"/experiments?tab=compare&page={asked}", "Endings")
    assert shown_page(page).startswith("/lab/compare/")
    expect(page.locator("iframe")).to_have_count(0)


def test_a_comparison_that_cannot_be_loaded_is_waited_for(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The desk says so, with a way to try again at once, and shows it when the server answers."""
    watch.expect_restart()
    page.route("**/api/experiments/exp_*", lambda route: route.abort(), times=1)
    visit(console, "/experiments?tab=compare", "Endings")
    expect(page.locator("#banner")).to_be_hidden()


def test_too_few_decisions_have_no_winner(page: Page, console: Console, visit: Visit) -> None:
    """One decision is shown with its interval, and called not enough."""
    visit(console, "/experiments?tab=results", "Lab")
    table = page.get_by_role("table", name="Standings of Hooks")
    expect(table.get_by_role("row").filter(has_text="two")).to_contain_text("not enough data")
    expect(table.get_by_role("row").filter(has_text="two")).to_contain_text("100 % (21 % to 100 %)")
    expect(page.get_by_role("table", name=re.compile("^Metrics of Hooks"))).to_contain_text(
        "better"
    )
    page.get_by_text("The 1 comparison behind these numbers").click()
    page.get_by_role("link", name=re.compile("^exp_")).click()
    expect_screen(page, "Decided")


def test_lists_say_what_waits(page: Page, console: Console, visit: Visit) -> None:
    """Comparisons and runs show their state, and nothing that would bias the judging person."""
    visit(console, "/experiments?state=open", "Lab")
    rows = page.get_by_role("table", name="Comparisons").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("hidden until decided")
    page.get_by_role("link", name="Runs", exact=True).nth(-1).click()
    expect(page.get_by_role("table", name="Runs of the Lab")).to_contain_text("Ships one")
    press_keys(page, "j", "Enter")
    expect(page.locator("#submit")).to_be_visible()


@pytest.mark.parametrize("tab", ["comparisons", "results", "compare", "new"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, tab: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/experiments?tab={tab}", "Endings" if tab == "compare" else "Lab")
    shown = {"compare": "#submit", "new": "#runs"}.get(tab, "table")
    expect(page.locator(shown).first).to_be_visible()
    assert_accessible(page)


@pytest.mark.parametrize(
    ("tab", "title"),
    [
        ("comparisons", "Nothing has been compared yet"),
        ("review", "Nothing waits to be reviewed"),
    ],
)
def test_everybody_can_use_it_when_empty(
    page: Page, empty: Console, visit: Visit, tab: str, title: str
) -> None:
    """The same where there is nothing yet, with a command to begin with."""
    visit(empty, f"/experiments?tab={tab}", "Lab")
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    assert_accessible(page)

"""Alerts and doctor: what fires and by which rule, and whether the machine is fit."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.console_servers import Console, Visit

TITLE = "Alerts and doctor"


def test_what_fires_is_first_and_leads_to_its_cause(
    page: Page, console: Console, visit: Visit
) -> None:
    """An alert says what was measured and what is allowed; its row opens what is wrong."""
    visit(console, "/alerts", TITLE)
    first = page.get_by_role("table", name="Open alerts").locator("tbody tr").first
    expect(first).to_contain_text("firing")
    dead = page.get_by_role("row", name="emails new dead letters")
    expect(dead).to_contain_text("2 new dead letters; the rule allows 0")
    dead.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    assert page.url.endswith("/dead?cursor=emails")


def test_rules_are_sentences(page: Page, console: Console, visit: Visit) -> None:
    """Everybody can read when an alert is raised, and when it is over."""
    visit(console, "/alerts?tab=rules", TITLE)
    rule = page.get_by_role("listitem").filter(has_text="cursor behind")
    expect(rule).to_contain_text(
        "Fires when any cursor is more than 5 min behind for 5 min; clears at 1 min or less."
    )


def test_the_doctor_looks_when_asked(page: Page, console: Console, visit: Visit) -> None:
    """Machine and store are checked; the whole of the store only on demand."""
    visit(console, "/alerts?tab=doctor", TITLE)
    checks = page.get_by_role("listitem").filter(has_text="migrations")
    expect(checks).to_contain_text("ok")
    expect(page.get_by_text("integrity", exact=True)).to_have_count(0)
    page.get_by_label("Run the full integrity check").check()
    expect(page.get_by_text("the engine finds no problem")).to_be_visible()


@pytest.mark.parametrize("tab", ["alerts", "rules", "doctor"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, tab: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/alerts?tab={tab}", TITLE)
    assert_accessible(page)


def test_everybody_can_use_it_when_nothing_fires(page: Page, empty: Console, visit: Visit) -> None:
    """Nothing yet is explained, and leads to the rules."""
    visit(empty, "/alerts", TITLE)
    expect(page.get_by_role("heading", name="Nothing fires")).to_be_visible()
    expect(page.get_by_role("link", name="See the rules")).to_be_visible()
    assert_accessible(page)

"""The first screen: what needs attention, before anything else, and how to begin."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.console_servers import Console, Visit


def test_what_needs_attention_comes_first(page: Page, console: Console, visit: Visit) -> None:
    """Each trouble is a sentence with one way to it, and the worst are on top."""
    visit(console, "/", "Overview")
    needed = page.get_by_role("region", name="Needs attention").get_by_role("listitem")
    expect(needed.filter(has_text="billing/invoices").first).to_contain_text("action needed")
    kinds = needed.locator(".state").all_inner_texts()
    assert kinds == sorted(kinds), "what needs a person stands before what is worth a look"
    needed.filter(has_text="key").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1, name="Outcomes")).to_be_visible()


def test_the_strip_leads_to_what_happened(page: Page, console: Console, visit: Visit) -> None:
    """A takeover of an hour ago is listed, and links to its cursor."""
    visit(console, "/", "Overview")
    page.get_by_role("link", name="alpha/4711/11aa22bb took over reports v2").click()
    expect(page.get_by_role("heading", level=1, name="reports v2")).to_be_visible()


def test_news_come_by_themselves(page: Page, mortal: Console, visit: Visit) -> None:
    """A change by another operator is shown without a reload."""
    visit(mortal, "/", "Overview")
    with mortal.open() as ow:
        ow.cursors.pause("lead_intake", "the vendor asked", "bob@desk")
    happened = page.get_by_role("region", name="Recent events").get_by_role("listitem")
    expect(happened.first).to_contain_text("bob@desk paused lead_intake: the vendor asked")


def test_an_empty_store_shows_how_to_begin(page: Page, empty: Console, visit: Visit) -> None:
    """There are commands to begin with, each with a button that copies it and a tutorial."""
    visit(empty, "/", "Overview")
    expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
    expect(page.get_by_role("button", name="Copy command onceward up --demo")).to_be_visible()
    page.get_by_role("link", name="Tutorial: A test suite").click()
    expect(page.get_by_role("heading", level=1, name="A memory in ten minutes")).to_be_visible()
    page.get_by_role("link", name="Documentation").click()
    expect(page.get_by_role("heading", level=1, name="Onceward")).to_be_visible()


def test_everybody_can_use_it(page: Page, console: Console, visit: Visit) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, "/", "Overview")
    expect(page.get_by_role("region", name="Key figures")).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_it_when_empty(page: Page, empty: Console, visit: Visit) -> None:
    """The same where there is nothing yet."""
    visit(empty, "/", "Overview")
    assert_accessible(page)

"""Audit: what was done and what was refused, by whom, with what they asked and what came of it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.console_history import HOSTILE
from tests.support.console_servers import Console, Visit


def do(console: Console, reason: str, key: str) -> int:
    body = {"name": "lead_intake", "reason": reason, "seen": None}
    return console.post("/api/cursors/pause", body, key=key).status_code


def test_every_change_is_listed_with_its_actor(page: Page, console: Console, visit: Visit) -> None:
    """Done and refused, newest first; a new one waits until it is asked for, and moves nothing."""
    assert do(console, HOSTILE, "one") == 200
    body = {"id": 404, "reason": "a test", "seen": None}
    assert console.post("/api/dead/drop", body, key="two").status_code == 404
    visit(console, "/audit", "Audit")
    rows = page.get_by_role("table", name="Actions").locator("tbody tr")
    expect(rows.first).to_contain_text("dead.drop")
    expect(rows.first).to_contain_text("refused")
    rows.nth(1).get_by_role("button", name="Details of cursor.pause lead_intake").click()
    dialog = page.get_by_role("dialog", name="cursor.pause lead_intake")
    expect(dialog.get_by_role("region", name="what was asked")).to_contain_text(HOSTILE)
    assert_accessible(page)
    press_keys(page, "Escape")
    expect(rows.nth(1).get_by_role("button")).to_be_focused()
    body = {"name": "lead_intake", "reason": "again", "seen": None}
    assert console.post("/api/cursors/resume", body, key="three").is_success
    page.get_by_role("button", name="1 new").wait_for()
    expect(rows).to_have_count(2)
    press_keys(page, ".")
    expect(rows.first).to_contain_text("cursor.resume")
    assert_accessible(page)


def test_everybody_can_use_an_empty_one(page: Page, empty: Console, visit: Visit) -> None:
    """Nothing yet is explained."""
    visit(empty, "/audit", "Audit")
    expect(page.get_by_role("heading", name="Nothing was done here yet")).to_be_visible()
    assert_accessible(page)

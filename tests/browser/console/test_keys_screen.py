"""Key inspector: paste two bodies, see their keys, and exactly what makes them differ."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Page, expect

from onceward.keys import CommandContent
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit

TITLE = "Key inspector"


def command(**inputs: Any) -> dict[str, Any]:
    items = [{"price": price} for price in (10, 20, 30, 40)]
    parts = {"goal": "quote", "items": items, **inputs}
    return {
        "action": "implement",
        "task_id": "T-0042",
        "snapshot_id": "snap-abc123",
        "inputs": parts,
    }


def paste(page: Page, a: object, b: object) -> None:
    for name, body in (("Body A", a), ("Body B", b)):
        text = body if isinstance(body, str) else json.dumps(body)
        page.get_by_role("textbox", name=name).fill(text)


def test_the_field_that_differs_is_marked(page: Page, console: Console, visit: Visit) -> None:
    """Both keys are those of the library, and one line on each side is marked: the price."""
    first, second = command(), command()
    second["inputs"]["items"][3]["price"] = 41
    visit(console, "/keys", TITLE)
    paste(page, first, second)
    differences = page.get_by_role("region", name="Differences", exact=True)
    expect(differences.get_by_role("row").last).to_have_text("inputs.items[3].price4041")
    marks = page.locator('mark[data-path="inputs.items[3].price"]')
    expect(marks).to_have_text(['"price": 40', '"price": 41'])
    expect(page.locator("mark")).to_have_count(2)
    for body in (first, second):
        expect(page.get_by_text(CommandContent.from_mapping(body).key)).to_be_visible()


def test_order_and_spaces_do_not_matter(page: Page, console: Console, visit: Visit) -> None:
    """The same work has the same key however it is written; the canonical form says why."""
    visit(console, "/keys", TITLE)
    body = command()
    turned = json.dumps(dict(reversed(body.items())), indent=4)
    paste(page, body, turned)
    expect(page.get_by_text("The same work: both have the same key.")).to_be_visible()
    page.get_by_text("Canonical form, as it is hashed").first.click()
    expect(page.get_by_text('{"goal":"quote","items":[{"price":10}').first).to_be_visible()


def test_what_a_retry_would_change_is_warned_of(page: Page, console: Console, visit: Visit) -> None:
    """Values that look new at every attempt are named."""
    visit(console, "/keys", TITLE)
    paste(page, command(started_at="2026-02-06T12:00:00Z"), "")
    expect(page.get_by_text("A retry may get another key")).to_be_visible()
    expect(page.locator("mark.is-doubtful")).to_have_text(['"started_at": "2026-02-06T12:00:00Z"'])


def test_any_json_will_do(page: Page, console: Console, visit: Visit, watch: PageMonitor) -> None:
    """A body that is no command gets its digest; one that cannot be a key is an error by path."""
    watch.expect(400)
    visit(console, "/keys", TITLE)
    paste(page, '{"b": 1, "a": [true, null]}', '{"a": [true], "b": 1.0}')
    expect(page.get_by_text("Different values: one place differs")).to_be_visible()
    expect(page.get_by_role("row", name="a[1] null absent")).to_be_visible()
    paste(page, '{"n": 1', '{"a": 1, "a": 2}')
    expect(page.get_by_text("This is not JSON:")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("twice")


def test_short_bodies_are_in_the_address_and_never_leave_the_browser(
    page: Page, console: Console, visit: Visit
) -> None:
    """A reload shows them again, though no address that the server sees holds them."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    visit(console, "/keys", TITLE)
    page.get_by_role("button", name="Show an example").click()
    expect(page.locator("mark")).to_have_count(2)
    expect(page).to_have_url(re.compile("#.*implement"))
    page.reload()
    expect(page.locator("mark")).to_have_count(2)
    assert not any("implement" in url.partition("#")[0] for url in seen)
    page.get_by_role("textbox", name="Body A").fill(json.dumps(command(text="x" * 2_000)))
    expect(page).to_have_url(re.compile("keys$"))


def test_everybody_can_use_it(page: Page, console: Console, visit: Visit) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes, empty and full."""
    visit(console, "/keys", TITLE)
    assert_accessible(page)
    paste(page, command(started_at="2026-02-06T12:00:00Z", path="/a" * 100), command())
    expect(page.locator("mark").first).to_be_visible()
    page.get_by_text("Canonical form, as it is hashed").first.click()
    assert_accessible(page)

"""Dead letters: choose some, see what putting them back means, and do it once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from onceward.retries import Failure, RetryMessage
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit

BYTES = b'{"to": "\xff\xfe"}'


def make_dead_letters(console: Console, cursor: str, count: int = 1) -> list[int]:
    """Give some messages of a cursor up, and return the numbers of their letters."""
    error = Failure(type="DecodeError", message="not UTF-8", trace="Traceback\n  at line 1")
    with console.open() as ow, ow.transaction() as tx:
        return [
            int(ow.dead.add(tx, RetryMessage(cursor=cursor, position=str(each), raw=BYTES), error))
            for each in range(count)
        ]


def states(console: Console, cursor: str) -> list[tuple[str, int]]:
    """Return how the letters of a cursor stand, and how often each was put back."""
    with console.open() as ow:
        letters = ow.dead.list(cursor=cursor, state=None)
        return [(each.state, each.redrive_count) for each in letters]


def test_three_are_put_back_once(page: Page, console: Console, visit: Visit) -> None:
    """Chosen by keyboard, counted before it is done; a second press changes nothing."""
    make_dead_letters(console, "orders", 4)
    visit(console, "/dead?cursor=orders", "Dead letters")
    redrive = page.get_by_role("button", name="Redrive selected…")
    expect(redrive).to_have_accessible_description("Select letters first.")
    for key in ("j", "x", "j", "j", "Shift+X"):
        press_keys(page, key)
    page.get_by_role("button", name="Redrive 3 messages…").click()
    dialog = page.get_by_role("dialog", name="Redrive dead letters")
    plan = dialog.get_by_role("region", name="What will happen")
    expect(plan).to_contain_text("3 messages are tried again")
    expect(plan).to_contain_text("orders 3 messages")
    expect(plan.get_by_role("list", name="Some of them")).to_contain_text("DecodeError: not UTF-8")
    assert states(console, "orders") == [("dead", 0)] * 4
    dialog.get_by_role("button", name="Redrive 3 messages").dblclick(delay=30)
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("3 messages redriven")).to_be_visible()
    expect(page.get_by_role("table", name="Dead letters").locator("tbody tr")).to_have_count(1)
    assert states(console, "orders") == [*[("redriven", 1)] * 3, ("dead", 0)]
    done = [each["result"]["cursors"] for each in console.audit("dead.redrive")]
    assert done.count([{"cursor": "orders", "count": 3}]) == 1


def test_all_of_a_cursor_are_put_back(page: Page, console: Console, visit: Visit) -> None:
    """A filter by cursor offers them all, and leaves the others alone."""
    make_dead_letters(console, "returns", 2)
    visit(console, "/dead?q=cursor%3Areturns", "Dead letters")
    page.get_by_role("button", name="Redrive all of returns…").click()
    page.get_by_role("button", name="Redrive 2 messages").click()
    expect(page.get_by_role("button", name="Clear the filter")).to_be_visible()
    assert states(console, "returns") == [("redriven", 1)] * 2
    assert states(console, "emails") == [("dead", 0)] * 2


def test_a_dead_letter_shows_why_it_died_and_is_dropped(
    page: Page, console: Console, visit: Visit
) -> None:
    """Its bytes, its attempts, its trace; a reason is asked for, and kept."""
    (number,) = make_dead_letters(console, "refunds")
    visit(console, f"/dead/{number}", f"Dead letter {number}")
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("DecodeError: not UTF-8")
    expect(page.get_by_role("region", name="Trace", exact=True)).to_contain_text("at line 1")
    expect(page.get_by_role("button", name="hex")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("region", name="The message in hex")).to_contain_text("22 ff fe 22")
    page.get_by_role("button", name="Drop…").click()
    dialog = page.get_by_role("dialog")
    drop = dialog.get_by_role("button", name="Drop it for good")
    expect(drop).to_have_accessible_description("Give a reason first.")
    dialog.get_by_label("Reason").fill("a test message")
    drop.click()
    expect(page.get_by_text(": a test message")).to_be_visible()
    redrive = page.get_by_role("button", name="Redrive…")
    expect(redrive).to_have_accessible_description("It was dropped already.")
    assert states(console, "refunds") == [("dropped", 0)]


def test_text_of_messages_is_only_text(page: Page, console: Console, visit: Visit) -> None:
    """Nothing in an error or a message does anything; it is shown as it came."""
    visit(console, "/dead?cursor=emails", "Dead letters")
    expect(page.get_by_text("cannot send to <img").first).to_be_visible()
    page.get_by_role("link", name="#1").click()
    expect(page.get_by_role("region", name="The message as text")).to_have_text("not JSON")
    page.get_by_role("button", name="hex").click()
    expect(page.get_by_role("region", name="The message in hex")).to_contain_text("6e 6f 74 20")


def test_a_message_that_is_json_is_laid_out(page: Page, console: Console, visit: Visit) -> None:
    """Each value in its line, as it was written: no number is rounded, no text is taken apart."""
    raw = '{"order":12345678901234567890,"note":"a, {b}: [\\"c\\"]","none":[],"at":[1.50,{"x":{}}]}'
    error = Failure(type="ValueError", message="no such order", trace="")
    with console.open() as ow, ow.transaction() as tx:
        message = RetryMessage(cursor="laid out", position="1", raw=raw.encode())
        number = int(ow.dead.add(tx, message, error))
    visit(console, f"/dead/{number}", f"Dead letter {number}")
    lines = [
        "{",
        '  "order": 12345678901234567890,',
        '  "note": "a, {b}: [\\"c\\"]",',
        '  "none": [],',
        '  "at": [',
        "    1.50,",
        "    {",
        '      "x": {}',
        "    }",
        "  ]",
        "}",
    ]
    shown = page.get_by_role("region", name="The message as JSON")
    expect(shown).to_be_visible()
    assert shown.inner_text() == "\n".join(lines)
    page.get_by_role("button", name="text", exact=True).click()
    expect(page.get_by_role("region", name="The message as text")).to_have_text(raw)


def test_a_letter_of_a_conversation_is_dropped(page: Page, mortal: Console, visit: Visit) -> None:
    """It is in the list of all dead letters, shows its messages, and is dropped with a reason."""
    visit(mortal, "/dead?source=chat", "Dead letters")
    row = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    expect(row).to_contain_text("dispatch/broken")
    row.get_by_role("link").first.click()
    expect(page.get_by_role("region", name="The messages")).to_contain_text("!fail")
    page.get_by_role("button", name="Drop…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the agent is gone")
    dialog.get_by_role("button", name="Drop it for good").dblclick(delay=30)
    expect(page.get_by_text(": the agent is gone")).to_be_visible()
    assert len(mortal.audit("dead.drop")) == 1


def test_a_missing_dead_letter_is_shown_as_an_error(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The error says what is missing and what to do."""
    watch.expect(404)
    visit(console, "/dead/404", "Dead letter 404")
    expect(page.get_by_role("alert")).to_contain_text("There is no dead letter 404")


@pytest.mark.parametrize("path", ["", "?source=chat", "/1"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, path: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/dead{path}", "Dead letter 1" if path == "/1" else "Dead letters")
    expect(page.get_by_text("…").first).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_the_dialog(page: Page, console: Console, visit: Visit) -> None:
    """The same while a redrive is thought through."""
    visit(console, "/dead?cursor=emails", "Dead letters")
    page.get_by_role("button", name="Redrive all of emails…").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 messages are tried again at once")
    assert_accessible(page)


@pytest.mark.parametrize(
    ("path", "shown"), [("", "No dead letters"), ("?source=chat", "Nothing matches")]
)
def test_everybody_can_use_an_empty_list(
    page: Page, empty: Console, visit: Visit, path: str, shown: str
) -> None:
    """Nothing yet is explained, and so is a filter that nothing matches."""
    visit(empty, f"/dead{path}", "Dead letters")
    expect(page.get_by_role("heading", name=shown)).to_be_visible()
    assert_accessible(page)

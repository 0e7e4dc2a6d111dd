"""Dead letters: choose some, see what putting them back means, and do it once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from onceward.retries import Failure, Message
from tests.browser.console.conftest import Visit
from tests.browser.console.looking import clean
from tests.browser.console.servers import Console
from tests.browser.watching import Watch

BYTES = b'{"to": "\xff\xfe"}'


def bury(console: Console, cursor: str = "reports v2", raw: bytes = BYTES) -> int:
    """Give one more message up, and return the number of its letter."""
    with console.open() as ow, ow.transaction() as tx:
        message = Message(cursor=cursor, position=f"b{len(raw)}", raw=raw, key="k0")
        error = Failure(type="DecodeError", message="not UTF-8", trace="Traceback\n  at line 1")
        return ow.dead.add(tx, message, error, order="key")


def states(console: Console) -> dict[int, tuple[str, int]]:
    """Return how every letter stands, and how often it was put back."""
    with console.open() as ow:
        letters = ow.dead.list(state=None)
        return {int(each.id): (each.state, each.redrive_count) for each in letters}


def test_three_are_put_back_once(page: Page, mortal: Console, visit: Visit) -> None:
    """Chosen by keyboard, counted before it is done; a second press changes nothing."""
    bury(mortal)
    visit(mortal, "/dead", "Dead letters")
    redrive = page.get_by_role("button", name="Redrive selected…")
    expect(redrive).to_have_accessible_description("Select letters first.")
    for key in ("j", "x", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    page.get_by_role("button", name="Redrive 3 messages…").click()
    dialog = page.get_by_role("dialog", name="Redrive dead letters")
    plan = dialog.get_by_role("region", name="What will happen")
    expect(plan).to_contain_text("3 messages are tried again")
    expect(plan).to_contain_text("emails 2 messages")
    expect(plan.get_by_role("list", name="Some of them")).to_contain_text("DecodeError: not UTF-8")
    assert {state for state, _ in states(mortal).values()} == {"dead"}
    dialog.get_by_role("button", name="Redrive 3 messages").dblclick(delay=30)
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("3 messages put back")).to_be_visible()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert set(states(mortal).values()) == {("redriven", 1)}
    (done,) = mortal.audit("dead.redrive")
    assert done["result"]["count"] == 3


def test_all_of_a_cursor_are_put_back(page: Page, mortal: Console, visit: Visit) -> None:
    """A filter by cursor offers them all, and leaves the others alone."""
    other = bury(mortal)
    visit(mortal, "/dead?cursor=emails", "Dead letters")
    page.get_by_role("button", name="Redrive all of emails…").click()
    page.get_by_role("button", name="Redrive 2 messages").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert [each for each, (state, _) in states(mortal).items() if state == "dead"] == [other]


def test_a_letter_tells_why_it_died_and_is_dropped(
    page: Page, mortal: Console, visit: Visit
) -> None:
    """Its bytes, its attempts, its trace; a reason is asked for, and kept."""
    number = bury(mortal)
    visit(mortal, f"/dead/{number}", f"Dead letter {number}")
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("DecodeError: not UTF-8")
    expect(page.get_by_role("region", name="Trace", exact=True)).to_contain_text("at line 1")
    expect(page.get_by_role("button", name="hex")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("region", name="The message in hex")).to_contain_text("22 ff fe 22")
    page.get_by_role("button", name="Drop…").click()
    dialog = page.get_by_role("dialog")
    drop = dialog.get_by_role("button", name="Drop it for good")
    expect(drop).to_have_accessible_description("Say why first.")
    dialog.get_by_label("Why").fill("a test message")
    drop.click()
    expect(page.get_by_text(": a test message")).to_be_visible()
    redrive = page.get_by_role("button", name="Redrive…")
    expect(redrive).to_have_accessible_description("It was given up already.")
    assert states(mortal)[number] == ("dropped", 0)


def test_text_of_messages_is_only_text(page: Page, console: Console, visit: Visit) -> None:
    """Nothing in an error or a message does anything; it is shown as it came."""
    visit(console, "/dead", "Dead letters")
    expect(page.get_by_text("cannot send to <img").first).to_be_visible()
    page.get_by_role("link", name="#1").click()
    expect(page.get_by_role("region", name="The message as text")).to_have_text("not JSON")
    page.get_by_role("button", name="hex").click()
    expect(page.get_by_role("region", name="The message in hex")).to_contain_text("6e 6f 74 20")


def test_a_conversation_gets_its_messages_again(page: Page, mortal: Console, visit: Visit) -> None:
    """What an agent failed at has a tab of its own, with its own way back."""
    visit(mortal, "/dead?tab=conversations", "Dead letters")
    row = page.get_by_role("table", name="Dead letters of conversations").locator("tbody tr")
    expect(row).to_contain_text("broken")
    row.get_by_role("button", name="Drop letter").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill("the agent is gone")
    dialog.get_by_role("button", name="Drop for good").dblclick(delay=30)
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert len(mortal.audit("dispatch.drop")) == 1


def test_a_console_that_only_shows_says_so(page: Page, read_only: Console, visit: Visit) -> None:
    """What cannot be done is there, disabled, with the reason."""
    visit(read_only, "/dead/1", "Dead letter 1")
    for name in ("Redrive…", "Drop…"):
        expect(page.get_by_role("button", name=name)).to_have_accessible_description(
            "This console is read-only; start it without --read-only."
        )


def test_what_is_not_there_is_told(
    page: Page, console: Console, visit: Visit, watch: Watch
) -> None:
    """An error says what, and what now."""
    watch.expect(404)
    visit(console, "/dead/404", "Dead letter 404")
    expect(page.get_by_role("alert")).to_contain_text("There is no dead letter 404")


@pytest.mark.parametrize("path", ["", "?tab=conversations", "/1"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, path: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/dead{path}", "Dead letter 1" if path == "/1" else "Dead letters")
    expect(page.get_by_text("…").first).to_be_visible()
    clean(page)


def test_everybody_can_use_the_dialog(page: Page, console: Console, visit: Visit) -> None:
    """The same while a redrive is thought through."""
    visit(console, "/dead?cursor=emails", "Dead letters")
    page.get_by_role("button", name="Redrive all of emails…").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 messages are tried again at once")
    clean(page)


@pytest.mark.parametrize("path", ["", "?tab=conversations"])
def test_everybody_can_use_an_empty_list(
    page: Page, empty: Console, visit: Visit, path: str
) -> None:
    """Nothing yet is explained."""
    visit(empty, f"/dead{path}", "Dead letters")
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    clean(page)

"""Conversations: where each stands, the chat itself, and what a person does about it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from onceward.dispatch.models import DeliveryState
from onceward.dispatch.operator_actions import Operators
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.chat_page_actions import MessageFaults, field, messages_on, write
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_history import HOSTILE
from tests.support.console_servers import Console, Visit
from tests.support.waiting import until


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name="Conversations").get_by_role("row").filter(has_text=name)


def processed(console: Console, group: str) -> int:
    with console.open() as ow:
        return Operators(ow.store).status_of(group).processed


def states(console: Console, group: str) -> list[DeliveryState]:
    """Return the ends of a group's deliveries, newest first."""
    with console.open() as ow:
        return [each.state for each in Operators(ow.store).deliveries(group)]


def test_every_group_says_where_it_stands(page: Page, console: Console, visit: Visit) -> None:
    """The rows distinguish answered, given up and paused groups, with what waits in each."""
    visit(console, "/conversations", "Conversations")
    expect(row(page, "team")).to_contain_text("quiet")
    expect(row(page, "broken")).to_contain_text("dead letters")
    expect(row(page, "paused")).to_contain_text("paused")
    page.get_by_role("button", name="Failing").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("no-such-group")
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_what_is_said_in_the_chat_moves_the_cursor_beside_it(
    page: Page, mortal: Console, visit: Visit
) -> None:
    """A message in the chat is answered, and the group's position goes on by itself."""
    visit(mortal, "/conversations", "Conversations")
    press_keys(page, "j", "j", "j", "Enter")
    expect(page.get_by_role("heading", level=1, name="team")).to_be_visible()
    before = processed(mortal, "team")
    line = page.get_by_role("img", name=f"Processed up to {before}")
    expect(line).to_be_visible()
    write(page, "are you there?")
    replies = messages_on(page).filter(has_text="are you there?")
    expect(replies).to_have_count(2)  # what was said, and what was answered
    expect(line).to_have_count(0)
    expect(page.get_by_role("img", name=re.compile("nothing waits"))).to_be_visible()
    assert processed(mortal, "team") > before
    page.get_by_role("link", name="Outbox").click()
    outbox = page.get_by_role("table", name="Outbox of team")
    expect(outbox.get_by_role("row").filter(has_text="are you there?")).to_contain_text("sent")


def test_the_chat_does_not_take_the_focus(page: Page, console: Console, visit: Visit) -> None:
    """When the chat is there, the focus of a keyboard user does not move into it."""
    visit(console, "/conversations?group=team", "team")
    expect(field(page)).to_be_visible()
    expect(field(page)).not_to_be_focused()
    press_keys(page, "Escape")
    expect(page.get_by_role("heading", level=1, name="Conversations")).to_be_visible()


def test_what_was_not_sent_is_sent_from_another_screen(
    page: Page, mortal: Console, visit: Visit, watch: PageMonitor
) -> None:
    """A message that is tried again goes on while the person looks elsewhere, and is there once."""
    watch.expect_restart()
    visit(mortal, "/conversations?group=team", "team")
    faults = MessageFaults(page, "lost")
    write(page, "are you there?")
    expect(page.get_by_text("Not sent yet, trying again")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Cursors")).first.click()
    expect(page.get_by_role("heading", level=1, name="Cursors")).to_be_visible()
    with page.expect_response(lambda each: each.request.method == "POST" and each.ok):
        faults.open()
    page.go_back()
    expect(messages_on(page).filter(has_text="are you there?")).to_have_count(2)
    expect(page.locator(".note")).to_have_count(0)
    assert len(set(faults.ids)) == 1


def test_a_replay_is_counted_before_it_is_done(page: Page, mortal: Console, visit: Visit) -> None:
    """The preview lists what the agent hears again; the replay needs a reason and then runs."""
    visit(mortal, "/conversations?group=team&tab=deliveries", "team")
    deliveries = page.get_by_role("table", name="Deliveries of team").locator("tbody tr")
    expect(deliveries).to_have_count(3)
    page.get_by_role("button", name="Replay messages of team").click()
    dialog = page.get_by_role("dialog", name="Replay messages of team")
    dialog.get_by_label("From message number").fill("1")
    expect(dialog).to_contain_text("The agent hears 3 messages again")
    expect(dialog).to_contain_text(HOSTILE)
    button = dialog.get_by_role("button", name="Replay 3 messages")
    expect(button).to_have_attribute("title", "Give a reason first")
    button.click(force=True)
    assert len(states(mortal, "team")) == 3
    dialog.get_by_label("Reason").fill("the answers were lost")
    button.dblclick()
    expect(page.get_by_text("3 messages of team are handed out again.")).to_be_visible()
    until(lambda: states(mortal, "team") == [DeliveryState.DONE] * 4, "not answered again")
    assert len(mortal.audit("dispatch.replay")) == 1


def test_pausing_is_taken_back(page: Page, mortal: Console, visit: Visit) -> None:
    """A group rests at once, and goes on when the person changes their mind."""
    visit(mortal, "/conversations", "Conversations")
    page.get_by_role("button", name="Pause, team").click()
    expect(row(page, "team")).to_contain_text("paused")
    page.get_by_role("button", name="Undo").click()
    expect(row(page, "team")).to_contain_text("quiet")


def test_a_dead_letter_of_a_conversation_is_redriven(
    page: Page, mortal: Console, visit: Visit
) -> None:
    """Its messages are pending again, once, with the operator in the audit."""
    visit(mortal, "/conversations?group=broken&tab=deliveries", "broken")
    page.get_by_role("link", name="Dead letters", exact=True).last.click()
    page.get_by_role("button", name="Redrive all of broken…").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 1 message").dblclick()
    expect(page.get_by_text("1 message redriven, to be tried at once")).to_be_visible()
    assert DeliveryState.REDRIVEN in states(mortal, "broken")
    assert len(mortal.audit("dead.redrive")) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/conversations",
        "/conversations?group=team",
        "/conversations?group=broken&tab=deliveries",
    ],
)
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, path: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    group = re.search("group=([a-z]+)", path)
    visit(console, path, group[1] if group else "Conversations")
    if "group=team" in path and "tab" not in path:
        expect(messages_on(page).first).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_it_when_empty(page: Page, empty: Console, visit: Visit) -> None:
    """Without any conversation the page works too, with a command to begin with."""
    visit(empty, "/conversations", "Conversations")
    expect(page.get_by_role("heading", name="There is no conversation yet")).to_be_visible()
    assert_accessible(page)

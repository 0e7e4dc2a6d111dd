"""Accessibility of conversations: by axe, for desk and hand, by day and by night."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from onceward.client import open as open_handle
from onceward.dispatch.groups import Groups
from tests.browser.test_accessibility import LONG
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.chat_page_actions import (
    MessageFaults,
    field,
    messages_on,
    open_conversation,
    write,
)
from tests.support.browser.lab_page_actions import tab_to
from tests.support.browser.page_monitor import LEAVING, PageMonitor
from tests.support.chat_servers import ChatServer


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    """A server with something in every corner."""
    server = ChatServer(tmp_path_factory.mktemp("chat"))
    for name in ("team", "broken", "paused", LONG[:90]):
        server.add_group(name)
    for number in range(12):
        server.add_group(f"more{number}", prefix="@bot")
    with open_handle(server.store) as ow:
        Groups(ow.store).set("paused", is_paused=True)
    with server:
        for number, text in enumerate(("hello", LONG, "several\nlines\n\nof it")):
            server.say("team", text, id=str(number))
        server.say("broken", "say and fail")
        server.say("paused", "hello?")
        server.until_heard("team", "> You said: several\nlines\n\nof it")
        server.until_heard("broken", "> At once: say and fail")
        yield server


def test_everybody_can_use_the_list(page: Page, chat: ChatServer) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    page.goto(f"{chat.url}/chat")
    expect(page.get_by_label("Find by name")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("Find by name").fill("nothing like it")
    expect(page.get_by_text("None has such a name.")).to_be_visible()


@pytest.mark.parametrize("group", ["team", "broken", "paused", LONG[:90]])
def test_everybody_can_use_a_conversation(page: Page, chat: ChatServer, group: str) -> None:
    """The same with long words, failures, and a state to tell."""
    open_conversation(page, chat, group)
    state = {"broken": "The agent failed after it had answered", "paused": "Paused."}
    expect(page.locator(".going")).to_contain_text(state.get(group, ""))
    field(page).fill("line\n" * 30)
    assert_accessible(page)


def test_everybody_can_use_it_in_trouble(page: Page, chat: ChatServer, watch: PageMonitor) -> None:
    """The same while messages are not sent, or were refused."""
    watch.expect_restart()
    watch.expect(400, LEAVING)
    open_conversation(page, chat, "team")
    MessageFaults(page, 400, "lost")
    write(page, "refused")
    write(page, LONG)
    expect(page.get_by_text("Not sent yet, trying again")).to_be_visible()
    expect(page.get_by_text("Not sent. ")).to_be_visible()
    assert_accessible(page)


def test_the_keyboard_reaches_everything(page: Page, chat: ChatServer) -> None:
    """Links, the log, the field and the button, in the order that they are seen."""
    open_conversation(page, chat, "team")
    page.get_by_role("link", name="Onceward").focus()
    for control in (
        page.get_by_role("navigation", name="All conversations").get_by_role("link").first,
        page.get_by_role("log"),
        field(page),
        page.get_by_role("button", name="Send"),
        page.get_by_label("Your name"),
    ):
        tab_to(page, control)
    tab_to(page, field(page), "Shift+Tab")


def test_a_reader_hears_what_is_new(page: Page, chat: ChatServer) -> None:
    """The log and the state are live regions, and what was there before is not read out."""
    open_conversation(page, chat, "team")
    log = page.get_by_role("log", name="Conversation team")
    expect(log).to_have_attribute("aria-busy", "false")
    expect(page.locator(".going")).to_have_attribute("role", "status")
    expect(messages_on(page).first).to_contain_text("hello")
    assert page.get_by_role("heading", level=1).count() == 1

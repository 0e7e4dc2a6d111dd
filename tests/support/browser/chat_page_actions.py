"""Chat page actions: open a conversation, write, read; lose or reject requests of its page."""

from __future__ import annotations

import json

from playwright.sync_api import Locator, Page, Route, expect

from tests.support.chat_servers import ChatServer

MESSAGES = "**/api/chat/*/messages"


def open_conversation(page: Page, server: ChatServer, group: str) -> None:
    page.goto(f"{server.url}/chat/{group}")
    expect(field(page)).to_be_visible()


def field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def write(page: Page, text: str) -> None:
    """Write a message, and send it with a key."""
    field(page).fill(text)
    field(page).press("Enter")


def messages_on(page: Page) -> Locator:
    return page.get_by_role("log").get_by_role("article")


def expect_messages(page: Page, *texts: str) -> None:
    """Expect that exactly this was said, in this order."""
    expect(messages_on(page).locator(".text")).to_have_text(list(texts))


class MessageFaults:
    """What happens to the messages of a page, in this order, the last to all until it is open.

    "arrives" loses the answer, "lost" the message; a status is answered without the server.
    """

    def __init__(self, page: Page, *fates: str | int) -> None:
        self.fates = list(fates)
        self.ids: list[str] = []
        page.route(MESSAGES, self._carry)

    def open(self) -> None:
        """Let everything through from now on."""
        self.fates = ["through"]

    def _carry(self, route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        self.ids.append(json.loads(route.request.post_data or "{}")["id"])
        fate = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
        if isinstance(fate, int):
            failure = {
                "code": "NONE",
                "message": "no such thing",
                "context": {"fix": "think again"},
            }
            route.fulfill(status=fate, json={"error": failure})
        elif fate == "through":
            route.continue_()
        else:
            if fate == "arrives":
                assert route.fetch().ok
            route.abort()

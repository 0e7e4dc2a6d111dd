"""Conversations in a browser: two tabs, a server that dies and comes back, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Error, Page, Route, expect

from tests.support.browser.chat_page_actions import (
    MessageFaults,
    expect_messages,
    field,
    messages_on,
    open_conversation,
    write,
)
from tests.support.browser.page_monitor import LEAVING, PageMonitor
from tests.support.chat_servers import ChatServer
from tests.support.waiting import until

#: What a page could do if it took words for more than words.
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>\n"
    "<a href='javascript:alert(3)'>x</a> &amp; %s {{7*7}} \u202e ${1} @bot"
)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ChatServer]:
    """A server of one's own, to be killed."""
    server = ChatServer(tmp_path)
    server.add_group("team")
    with server:
        yield server


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    """A server that the stories of this module share, each with a group of its own."""
    server = ChatServer(tmp_path_factory.mktemp("chat"), "--agents", "20")
    for number in range(12):
        server.add_group(f"g{number}")
    server.add_group("quiet", prefix="@bot")
    with server:
        yield server


@pytest.fixture
def second(context: BrowserContext, watch: PageMonitor) -> Page:
    """Another tab of the same browser."""
    page = context.new_page()
    watch.over(page)
    return page


def test_a_server_that_dies_while_the_agent_answers(
    page: Page, second: Page, mortal: ChatServer, watch: PageMonitor
) -> None:
    """In two tabs: the answer arrives once, and the follow-up typed meanwhile is answered once."""
    watch.expect_restart()
    watch.expect(401)
    for tab in (page, second):
        open_conversation(tab, mortal, "team")
    write(page, "please hold")
    until((mortal.places["team"] / "holding").exists)
    for tab in (page, second):
        expect(tab.get_by_text("The agent is working")).to_be_visible()
        expect_messages(tab, "please hold")
    mortal.kill()
    write(page, "are you there?")
    expect(page.get_by_text("Not sent yet, trying again")).to_be_visible()
    write(second, "and I?")
    for tab in (page, second):
        expect(tab.get_by_text("No answer from the server")).to_be_visible()
    (mortal.places["team"] / "go").write_text("")
    mortal.start()
    for tab in (page, second):
        for text in ("You said: please hold", "You said: are you there?", "You said: and I?"):
            expect(messages_on(tab).filter(has_text=text)).to_have_count(1)
        expect(messages_on(tab)).to_have_count(6)
        expect(tab.locator(".note")).to_have_count(0)
        expect(tab.locator("#banner")).to_be_hidden()
        expect(tab.locator(".going")).to_be_empty()
    assert len(mortal.heard("team")) == 6
    texts = [tab.locator(".text").all_text_contents() for tab in (page, second)]
    assert texts[0] == texts[1]


def test_two_tabs_show_the_same(page: Page, second: Page, chat: ChatServer) -> None:
    """What is said in one appears in the other, and so does the answer."""
    for tab in (page, second):
        open_conversation(tab, chat, "g0")
    write(page, "from the first")
    for tab in (page, second):
        expect_messages(tab, "from the first", "You said: from the first")
    write(second, "from the second")
    expected = ("from the first", "You said: from the first", "from the second")
    for tab in (page, second):
        expect_messages(tab, *expected, "You said: from the second")


def test_a_double_click_is_one_message(page: Page, chat: ChatServer) -> None:
    """A double click, or Enter pressed twice, sends the message once."""
    open_conversation(page, chat, "g1")
    field(page).fill("once")
    page.get_by_role("button", name="Send").dblclick()
    expect_messages(page, "once", "You said: once")
    field(page).fill("twice")
    field(page).press("Enter")
    field(page).press("Enter")
    expect_messages(page, "once", "You said: once", "twice", "You said: twice")
    assert len(chat.heard("g1")) == 4


def test_an_answer_that_got_lost(page: Page, chat: ChatServer, watch: PageMonitor) -> None:
    """A message that had arrived is sent again under its id, and is there once."""
    watch.expect_restart()
    open_conversation(page, chat, "g2")
    faults = MessageFaults(page, "arrives", "lost", "lost", "through")
    write(page, "knock knock")
    expect_messages(page, "knock knock", "You said: knock knock")
    expect(page.locator(".note")).to_have_count(0)
    faults.open()
    write(page, "who is there?")
    expect(messages_on(page)).to_have_count(4)
    assert len(set(faults.ids[:-1])) == 1
    assert len(chat.heard("g2")) == 4


def test_a_reload_goes_on_with_what_was_not_sent(
    page: Page, chat: ChatServer, watch: PageMonitor
) -> None:
    """In the order it was written, under the same ids, and with what was half written."""
    watch.expect_restart()
    watch.expect(LEAVING)
    open_conversation(page, chat, "g3")
    faults = MessageFaults(page, "lost")
    write(page, "one")
    write(page, "two")
    expect(page.get_by_text("Not sent yet, trying again")).to_have_count(1)
    expect(page.get_by_text("Not sent yet: it follows the one before.")).to_have_count(1)
    field(page).fill("thr")
    page.reload()
    expect(field(page)).to_have_value("thr")
    expect_messages(page, "one", "two")
    faults.open()
    expect(messages_on(page)).to_have_count(4)
    heard = chat.heard("g3")
    assert [each for each in heard if not each.startswith(">")] == ["one", "two"]
    assert len(heard) == 4
    assert len(set(faults.ids)) == 2


def test_a_page_that_cannot_be_loaded_keeps_it_too(
    page: Page, mortal: ChatServer, watch: PageMonitor
) -> None:
    """A reload while the server is away loses nothing either."""
    watch.expect_restart()
    watch.expect(LEAVING)
    open_conversation(page, mortal, "team")
    mortal.kill()
    write(page, "kept")
    expect(page.get_by_text("Not sent yet, trying again")).to_be_visible()
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        page.reload()
    mortal.start()
    with suppress(Error):  # The browser's error page reloads too, at a moment of its own.
        open_conversation(page, mortal, "team")
    expect_messages(page, "kept", "You said: kept")


def test_another_store_at_the_same_address(
    page: Page, mortal: ChatServer, watch: PageMonitor
) -> None:
    """The page starts over instead of waiting for numbers that will never come."""
    watch.expect_restart()
    watch.expect(400, 401)
    open_conversation(page, mortal, "team")
    write(page, "of old")
    expect_messages(page, "of old", "You said: of old")
    mortal.kill()
    for file in mortal.directory.glob("chat.db*"):
        file.unlink()
    mortal.add_group("team")
    mortal.start()
    expect(page.get_by_text("Nothing was said yet.")).to_be_visible()
    write(page, "after the change")
    expect_messages(page, "after the change", "You said: after the change")


def test_a_message_that_is_refused(page: Page, chat: ChatServer, watch: PageMonitor) -> None:
    """It says why, holds up no other, and can be sent again or taken back."""
    watch.expect(400)
    watch.expect(LEAVING)
    open_conversation(page, chat, "g4")
    faults = MessageFaults(page, 400, 400, "through")
    write(page, "first")
    write(page, "second")
    refused = page.get_by_text("Not sent. No such thing. Think again.")
    expect(refused).to_have_count(2)
    write(page, "third")
    expect(messages_on(page).filter(has_text="You said: third")).to_have_count(1)
    faults.open()
    page.get_by_role("button", name="Send again").first.click()
    expect(messages_on(page).filter(has_text="You said: first")).to_have_count(1)
    page.get_by_role("button", name="Take back").click()
    expect(field(page)).to_have_value("second")
    expect(field(page)).to_be_focused()
    expect_messages(page, "third", "You said: third", "first", "You said: first")


def test_keys(page: Page, chat: ChatServer) -> None:
    """Enter sends, Shift+Enter begins a new line, and nothing is sent that says nothing."""
    open_conversation(page, chat, "g5")
    expect(field(page)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    expect(field(page)).to_have_value("one\ntwo")
    page.keyboard.press("Enter")
    expect_messages(page, "one\ntwo", "You said: one\ntwo")
    expect(field(page)).to_have_value("")
    expect(field(page)).to_be_focused()
    field(page).fill("  \n ")
    page.keyboard.press("Enter")
    field(page).dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(messages_on(page)).to_have_count(2)


def test_words_are_only_words(page: Page, chat: ChatServer) -> None:
    """Markup in a message, a name or an answer is shown as it was written, and does nothing."""
    chat.say("g6", HOSTILE, id="1", sender="<b>mallory</b>")
    open_conversation(page, chat, "g6")
    expect_messages(page, HOSTILE, f"You said: {HOSTILE}")
    expect(messages_on(page).first.locator("strong")).to_have_text("<b>mallory</b>")
    assert page.locator("[role=log] :is(img, script, a, b)").count() == 0


def test_news_do_not_move_what_is_read(page: Page, chat: ChatServer) -> None:
    """A reader further up stays there, sees that there are new messages, and can jump to them."""
    long = "\n".join(f"line {number}" for number in range(60))
    chat.say("g7", long, id="long")
    open_conversation(page, chat, "g7")
    expect(messages_on(page)).to_have_count(2)
    log = page.get_by_role("log")
    log.evaluate("(node) => { node.scrollTop = 0; }")
    chat.say("g7", "psst")
    jump = page.get_by_role("button", name="new message")
    expect(jump).to_contain_text("2 new messages")
    assert log.evaluate("(node) => node.scrollTop") == 0
    jump.click()
    expect(jump).to_be_hidden()
    gap = "(node) => node.scrollHeight - node.scrollTop - node.clientHeight"
    assert log.evaluate(gap) < 2


def test_what_was_said_before_is_a_click_away(page: Page, chat: ChatServer) -> None:
    """A long conversation begins with its end; the rest comes in order and leaves no gap."""
    for number in range(120):
        chat.say("quiet", f"note {number}")
    open_conversation(page, chat, "quiet")
    expect(page.get_by_text("The agent answers what begins with “@bot”")).to_be_visible()
    expect(messages_on(page)).to_have_count(50)
    more = page.get_by_role("button", name="Show earlier messages")
    more.click()
    expect(messages_on(page)).to_have_count(100)
    more.click()
    expect_messages(page, *(f"note {number}" for number in range(120)))
    expect(more).to_be_hidden()
    expect(page.get_by_role("log")).to_be_focused()


def test_a_failure_and_the_time_of_the_next_attempt_are_shown(page: Page, chat: ChatServer) -> None:
    """The line below the conversation says what goes on, and why."""
    open_conversation(page, chat, "g8")
    write(page, "now fail")
    going = page.locator(".going")
    expect(going).to_contain_text("It is tried again at ")
    expect(going).to_contain_text("RuntimeError: now fail.")
    write(page, "say and fail")
    page.goto(f"{chat.url}/chat")
    card = page.get_by_role("listitem").filter(has_text="g8")
    expect(card).to_contain_text("waits")


def test_an_answer_that_may_have_been_delivered_is_marked(page: Page, chat: ChatServer) -> None:
    """A reply that the channel may have shown is marked as that."""
    chat.say("g9", "hello")
    chat.until_heard("g9", "> You said: hello")

    def mark_uncertain(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for each in body["items"]:
            each["isCertain"] = False
        route.fulfill(response=answer, json=body)

    page.route("**/api/chat/g9/messages?last=*", mark_uncertain)
    open_conversation(page, chat, "g9")
    expect(messages_on(page).nth(1)).to_contain_text("maybe delivered")


def test_a_conversation_that_is_not_there(page: Page, chat: ChatServer, watch: PageMonitor) -> None:
    """A wrong address says so, and leads to the list."""
    watch.expect(404)
    page.goto(f"{chat.url}/chat/nope%20<b>")
    expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    page.get_by_role("link", name="Go to all conversations").click()
    page.get_by_role("link", name="g10", exact=True).click()
    expect(page.get_by_role("heading", name="g10")).to_be_visible()


def test_a_group_appears_by_itself(page: Page, tmp_path: Path) -> None:
    """An empty list says how to begin, and shows what was begun."""
    with ChatServer(tmp_path) as server:
        page.goto(f"{server.url}/chat")
        expect(page.get_by_text("onceward dispatch groups add")).to_be_visible()
        server.add_group("fresh")
        page.get_by_role("link", name="fresh").click()
        expect(page.get_by_text("Nothing was said yet.")).to_be_visible()


def test_a_server_that_asks_for_its_token(page: Page, tmp_path: Path, watch: PageMonitor) -> None:
    """Where other machines can ask, a person logs in, and the message arrives once."""
    watch.expect(401)
    server = ChatServer(tmp_path, "--allow-external")
    server.add_group("team")
    with server:
        token = server.terminal_token()
        page.goto(f"{server.url}/chat/team")
        page.get_by_label("Token").fill("tok_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not the server's token")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        write(page, "from afar")
        expect_messages(page, "from afar", "You said: from afar")

"""Freshness: live updates, and what the console says and does when they stop."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit
from tests.support.waiting import until

EVENTS = re.compile(r"/api/console/events")
QUIET = re.compile(r"^The server (has gone quiet|does not answer)\.")


def do(console: Console, verb: str, name: str = "lead_intake") -> None:
    """Act as another operator, through the API."""
    body = {"name": name, "reason": "a test", "seen": None}
    assert console.post(f"/api/cursors/{verb}", body, key=str(uuid4())).status_code == 200


@pytest.fixture
def resumed(console: Console) -> Iterator[Console]:
    """A console whose cursor may be paused; it goes on afterwards."""
    yield console
    do(console, "resume")


def by_key(page: Page, word: str) -> None:
    press_keys(page, "p")
    expect(page.locator(".live")).to_contain_text("Paused" if word == "hidden" else "Live")


def by_hiding(page: Page, word: str) -> None:
    get = f"Object.defineProperty(document, 'visibilityState', {{ get: () => '{word}' }})"
    page.evaluate(get.replace("{ get", "{ configurable: true, get"))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


@pytest.mark.parametrize("turn", [by_key, by_hiding], ids=["by a key", "by hiding the page"])
def test_a_page_at_rest_asks_nothing_until_it_goes_on(
    page: Page, resumed: Console, visit: Visit, turn: Callable[[Page, str], None]
) -> None:
    """A paused or hidden page shows what it missed when the user comes back."""
    asked, answered = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfinished", lambda request: answered.append(request.url))
    page.on("requestfailed", lambda request: answered.append(request.url))
    visit(resumed, "/cursors", "Cursors")
    row = page.locator('tr[data-key="lead_intake"]')
    expect(row).to_contain_text("held")
    turn(page, "hidden")

    def is_all_answered() -> bool:
        page.wait_for_timeout(1)  # Lets the events in.
        return sorted(asked) == sorted(answered)

    # What it asked before, such as after the first word of the stream, may still be on its way.
    until(is_all_answered)
    asked.clear()
    do(resumed, "pause")
    page.wait_for_timeout(1_200)
    assert not asked
    expect(row).to_contain_text("held")
    turn(page, "visible")
    expect(row).to_contain_text("paused")


def test_an_update_leaves_the_focus_where_it_is(page: Page, resumed: Console, visit: Visit) -> None:
    """A row with the keyboard focus keeps it while the row changes."""
    visit(resumed, "/cursors", "Cursors")
    link = page.locator('tr[data-key="lead_intake"] a.row-link')
    link.focus()
    do(resumed, "pause")
    expect(page.locator('tr[data-key="lead_intake"]')).to_contain_text("paused")
    expect(link).to_be_focused()


def test_new_rows_wait_until_they_are_wanted(page: Page, console: Console, visit: Visit) -> None:
    """What came since is counted, and shown at `.`; nothing moves before."""
    visit(console, "/outcomes", "Outcomes")
    first = page.locator("tbody tr").first
    before = first.get_attribute("data-key")
    ow = console.open()
    for number in (1, 2):
        ow.once(scope="test", key=f"fresh-{number}")(lambda: {"ok": True})()
    ow.close()
    expect(page.get_by_role("button", name="2 new")).to_be_visible()
    assert first.get_attribute("data-key") == before
    press_keys(page, ".")
    expect(first).to_contain_text("fresh-2")
    expect(page.get_by_role("button", name="2 new")).to_have_count(0)


@contextmanager
def frozen(console: Console) -> Iterator[None]:
    assert console.process is not None
    os.kill(console.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(console.process.pid, signal.SIGCONT)


def test_a_server_that_falls_silent_is_noticed(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """After three beats without a word the page says that it is old; it recovers by itself."""
    watch.expect_restart()
    visit(console, "/cursors", "Cursors")
    banner = page.locator(".banner")
    with frozen(console):
        expect(banner).to_contain_text(QUIET)
        assert page.evaluate("document.body.classList.contains('is-stale')")
    expect(banner).to_have_count(0)
    expect(page.locator(".live")).to_contain_text("Live")


def test_a_server_that_is_killed_and_started_again(
    page: Page, mortal: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The page counts down to its next attempt, finds the new server, and stays fresh again."""
    watch.expect_restart()
    visit(mortal, "/cursors", "Cursors")
    mortal.kill()
    banner = page.locator(".banner")
    expect(banner).to_contain_text("The server does not answer.")
    expect(banner).to_contain_text("asking again")
    mortal.start()
    expect(banner).to_have_count(0)
    do(mortal, "pause")
    expect(page.locator('tr[data-key="lead_intake"]')).to_contain_text("paused")


def test_ages_are_by_the_clock_of_the_server(page: Page, console: Console, visit: Visit) -> None:
    """A browser whose clock is ten minutes slow does not put what has happened into the future."""
    page.add_init_script("const own = Date.now; Date.now = () => own() - 600_000;")
    visit(console, "/alerts?tab=doctor", "Alerts and doctor")
    looked = page.get_by_text("Checked").first
    expect(looked).to_have_text(re.compile(r"Checked (now|\d+ s ago)\."))


def test_a_server_without_its_store_is_not_taken_for_a_live_one(
    page: Page, console: Console, visit: Visit
) -> None:
    """It speaks, but the moment that it speaks of stands still."""
    page.add_init_script(
        """
        window.EventSource = class extends EventTarget {
          constructor() {
            super();
            this.timer = setInterval(() => {
              const as_of = window.stopped ?? new Date().toISOString();
              const data = JSON.stringify({ n: 5, as_of });
              this.dispatchEvent(new MessageEvent("beat", { data }));
            }, 100);
          }
          close() { clearInterval(this.timer); }
        };
        """
    )
    visit(console, "/cursors", "Cursors")
    freshness = page.get_by_role("group", name="Freshness")
    expect(freshness).to_contain_text("Live")
    page.evaluate("window.stopped = new Date(Date.now() - 60_000).toISOString()")
    expect(freshness).to_contain_text("Stale")
    expect(page.get_by_text("The server cannot reach its store.")).to_be_visible()
    page.evaluate("window.stopped = undefined")
    expect(freshness).to_contain_text("Live")


def test_without_the_stream_the_page_asks(
    page: Page, resumed: Console, visit: Visit, watch: PageMonitor
) -> None:
    """Where something on the road holds streams back, the page stays fresh by asking."""
    watch.expect_restart()

    def hold_back(route: Route) -> None:
        if "poll=1" in route.request.url:
            route.continue_()
        else:
            route.abort()

    page.route(EVENTS, hold_back)
    visit(resumed, "/cursors", "Cursors")
    do(resumed, "pause")
    expect(page.locator('tr[data-key="lead_intake"]')).to_contain_text("paused")
    expect(page.locator(".live")).to_contain_text("Live")


def test_an_answer_that_is_lost_is_asked_for_again(
    page: Page, resumed: Console, visit: Visit, watch: PageMonitor
) -> None:
    """Whatever is pressed happens once: the second attempt carries the same key."""
    watch.expect_restart()
    keys: list[str | None] = []
    before = len(resumed.audit("cursor.pause"))

    def lose_the_first(route: Route) -> None:
        keys.append(route.request.header_value("idempotency-key"))
        if len(keys) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    visit(resumed, "/cursors", "Cursors")
    page.route("**/api/cursors/pause", lose_the_first)
    page.get_by_role("button", name="Pause, lead_intake").dblclick()
    expect(page.locator('tr[data-key="lead_intake"]')).to_contain_text("paused")
    expect(page.locator(".toast")).to_have_count(1)
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(resumed.audit("cursor.pause")) == before + 1


def test_everybody_can_use_a_page_that_is_old(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The banner has no violation either."""
    watch.expect_restart()
    visit(console, "/cursors", "Cursors")
    with frozen(console):
        expect(page.locator(".banner")).to_be_visible()
        assert_accessible(page)

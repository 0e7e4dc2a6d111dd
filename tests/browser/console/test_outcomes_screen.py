"""Outcomes and one of them: find an ambiguous one, reconcile it, and see what changed."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from onceward.errors import OutcomeUnknown
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_history import HOSTILE
from tests.support.console_servers import Console, Visit

SCOPE, SILENT = "billing.charge", "order-silent"
#: The scope of what these tests decide about, each about a key of its own.
OURS = "shop.ship"


def detail(key: str = SILENT, scope: str = SCOPE) -> str:
    return f"/outcomes/detail?{urlencode({'scope': scope, 'key': key})}"


def shown(console: Console, key: str) -> dict[str, Any]:
    return console.get("/api/outcomes/show", scope=OURS, key=key)


def fall_silent(console: Console, key: str) -> str:
    """Begin a piece of work that is never heard of again, and return the address of its key."""

    def mail() -> None:
        message = "no answer"
        raise OutcomeUnknown(message, fix="ask the provider")

    with console.open() as ow:

        @ow.once(scope=OURS, key=key)
        def ship() -> None:
            ow.effect("card", lambda: "charged")
            ow.effect("mail", mail)

        with suppress(OutcomeUnknown):
            ship()
    return detail(key, OURS)


def decided(console: Console, key: str) -> list[dict[str, Any]]:
    return [each for each in console.audit("outcome.reconcile") if key in each["target"]]


def decide(page: Page, verdict: str, reason: str) -> Locator:
    """Fill in the form, and return the dialog that says what it means."""
    page.get_by_label(verdict, exact=True).check()
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Review the decision…").click()
    return page.get_by_role("dialog")


def test_outcomes_that_need_a_decision_are_found_by_keyboard(
    page: Page, console: Console, visit: Visit
) -> None:
    """The state is a choice with a number; the rows are walked and opened, and one comes back."""
    visit(console, "/outcomes", "Outcomes")
    page.get_by_role("button", name=re.compile(r"ambiguous \d")).click()
    page.get_by_role("combobox", name="Search keys").fill("scope:billing.charge")
    rows = page.get_by_role("table", name="Outcomes").locator("tbody tr")
    expect(rows).to_have_count(2)
    rows.first.get_by_role("link").focus()
    press_keys(page, "j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(SILENT)
    press_keys(page, "[")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"order-{HOSTILE}")
    press_keys(page, "Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text("Outcomes")


def test_words_narrow_the_list(page: Page, console: Console, visit: Visit) -> None:
    """Search takes a qualifier and part of a key; an empty result differs from an empty list."""
    visit(console, "/outcomes?q=scope%3Abilling.refund", "Outcomes")
    rows = page.get_by_role("table", name="Outcomes").locator("tbody tr")
    expect(rows).to_have_count(2)
    search = page.get_by_role("combobox", name="Search keys")
    search.fill("state:done order-0007")
    expect(rows).to_have_count(1)
    search.fill("no such key")
    page.get_by_role("button", name="Clear the filter").click()
    expect(rows.nth(34)).to_be_visible()


def test_it_was_done(page: Page, console: Console, visit: Visit) -> None:
    """The story, what each answer means, the result; then every caller gets it."""
    visit(console, fall_silent(console, "order-1"), "order-1")
    story = page.get_by_role("region", name="Events").get_by_role("listitem")
    expect(story.nth(1)).to_contain_text("card: done")
    expect(story.nth(2)).to_contain_text("mail: it may or may not have happened")
    page.get_by_role("button", name="Review the decision…").click()
    expect(page.get_by_role("alert")).to_contain_text("choose one of the two")
    page.get_by_label("It was done", exact=True).check()
    page.get_by_label("Result, as JSON").fill('{"order": 12345678901234567890}')
    expect(page.get_by_text("too large to be kept exactly")).to_be_visible()
    page.get_by_label("Result, as JSON").fill('{"order": "order-1", "sent": true}')
    dialog = decide(page, "It was done", "the provider lists it")
    expect(dialog).to_contain_text("Nothing runs.")
    dialog.get_by_role("button", name="Record: it was done").dblclick(delay=30)
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("Every later caller with this key")).to_be_visible()
    expect(page.get_by_role("region", name="Recorded result", exact=True)).to_contain_text(
        '"sent": true'
    )
    expect(story.last).to_contain_text("done (the provider lists it)")
    expect(page.get_by_role("region", name="Decide")).to_have_count(0)
    assert shown(console, "order-1")["result"] == {"order": "order-1", "sent": True}
    assert len(decided(console, "order-1")) == 1


def test_it_was_not_done(page: Page, console: Console, visit: Visit) -> None:
    """First the ambiguous step is decided, then the call; the next caller runs it."""
    visit(console, fall_silent(console, "order-2"), "order-2")
    page.get_by_label("Subject").select_option("the step mail")
    dialog = decide(page, "It was not done", "no such mail")
    dialog.get_by_role("button", name="Record: it was not done").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_label("Subject")).to_have_count(0)
    dialog = decide(page, "It was not done", "no such mail")
    dialog.get_by_role("button", name="Record: it was not done").click()
    expect(page.get_by_role("region", name="Summary")).to_contain_text("free")
    found = shown(console, "order-2")
    assert (found["state"], [each["state"] for each in found["effects"]]) == (
        "free",
        ["done", "free"],
    )


def test_another_operator_decided_first(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """A decision on a stale version is rejected and shown; the earlier decision stays."""
    watch.expect(409)
    visit(console, fall_silent(console, "order-3"), "order-3")
    press_keys(page, "p")  # What is shown stays as it was.
    dialog = decide(page, "It was not done", "no payment")
    expect(dialog.get_by_role("button", name="Record: it was not done")).to_be_visible()
    about = {"scope": OURS, "key": "order-3", "seen": shown(console, "order-3")["version"]}
    body = {**about, "verdict": "done", "result": 1, "reason": "I saw it"}
    assert console.post("/api/outcomes/reconcile", body, key="theirs").is_success
    dialog.get_by_role("button", name="Record: it was not done").click()
    expect(dialog.get_by_role("alert").first).to_contain_text("hanged since you looked")
    assert shown(console, "order-3")["result"] == 1


def test_it_can_be_forgotten(page: Page, console: Console, visit: Visit) -> None:
    """A word is typed and a reason given; then the next caller runs it again."""
    visit(console, fall_silent(console, "order-4"), "order-4")
    page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a test")
    dialog.get_by_label("Type forget to confirm").fill("forget")
    dialog.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("region", name="Summary")).to_contain_text("free")
    assert shown(console, "order-4")["state"] == "free"


def test_a_console_that_only_shows_says_so(page: Page, read_only: Console, visit: Visit) -> None:
    """What cannot be done is there, disabled, with the reason."""
    visit(read_only, detail(), SILENT)
    for name in ("Forget…", "Review the decision…"):
        button = page.get_by_role("button", name=name)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_accessible_description(
            "This console is read-only; start it without --read-only."
        )


def test_a_missing_outcome_is_shown_as_an_error(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The error says what is missing and what to do."""
    watch.expect(404)
    visit(console, detail("nothing"), "nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no outcome for")


@pytest.mark.parametrize(
    ("path", "title"), [("/outcomes", "Outcomes"), (detail(), SILENT)], ids=["list", "detail"]
)
def test_everybody_can_use_it(
    page: Page, console: Console, visit: Visit, path: str, title: str
) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, path, title)
    expect(page.get_by_role("table").first).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_an_empty_list(page: Page, empty: Console, visit: Visit) -> None:
    """Nothing yet is explained, with a line to begin with."""
    visit(empty, "/outcomes", "Outcomes")
    expect(page.get_by_role("heading", name="No outcomes yet")).to_be_visible()
    assert_accessible(page)

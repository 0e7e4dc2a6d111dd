"""Cursors and one of them: find it, see why it is stuck, pause it, move it, take that back."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit, console_over_copy
from tests.support.console_story import Home


@pytest.fixture(scope="module")
def changing(seeded: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console whose cursors are changed; no two tests change the same one."""
    with console_over_copy(seeded, tmp_path_factory.mktemp("changing") / "home") as server:
        yield server


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("table", name="Cursors").get_by_role("row").filter(has_text=name)


def where(console: Console, name: str) -> str | None:
    with console.open() as ow:
        return ow.cursors.show(name).position


def kinds(console: Console, name: str) -> list[str]:
    """Return what was done to a cursor, newest first."""
    with console.open() as ow:
        return [each.kind for each in ow.cursors.history(name)]


def acted(console: Console, verb: str, name: str) -> int:
    """Return how often the audit says that something was done to a cursor."""
    return sum(each["target"] == name for each in console.audit(f"cursor.{verb}"))


# --- the list ------------------------------------------------------------------------------------


def test_the_cursor_with_the_largest_lag_is_first(
    page: Page, console: Console, visit: Visit
) -> None:
    """By how long its oldest message has waited, parked ones too; the row names its last holder."""
    visit(console, "/cursors", "Cursors")
    first = page.get_by_role("table", name="Cursors").locator("tbody tr").first
    expect(first).to_contain_text("emails")
    stuck = row(page, "billing/invoices")
    expect(stuck).to_contain_text("expired")
    expect(stuck).to_contain_text("beta/99")
    expect(stuck).to_contain_text("epoch 1")
    expect(row(page, "emails")).to_contain_text("2 dead3 parked")


def test_words_find_cursors_and_stay_in_the_address(
    page: Page, console: Console, visit: Visit
) -> None:
    """Search takes a qualifier and part of a name; an empty result differs from an empty list."""
    visit(console, "/cursors?q=state%3Apaused", "Cursors")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("combobox", name="Find cursors").fill("no such thing")
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    assert "q=" not in page.url


def test_the_keyboard_is_enough(page: Page, changing: Console, visit: Visit) -> None:
    """Search, walk, open, go back to the row one came from, stop the news, and ask for them."""
    visit(changing, "/cursors?sort=name", "Cursors")
    press_keys(page, "/")
    search = page.get_by_role("combobox", name="Find cursors")
    expect(search).to_be_focused()
    press_keys(page, "Escape", "Escape")
    expect(search).not_to_be_focused()
    for key in ("j", "j", "j", "k"):
        press_keys(page, key)
    expect(row(page, "emails").get_by_role("link")).to_be_focused()
    press_keys(page, "Enter")
    expect(page.get_by_role("heading", level=1, name="emails")).to_be_visible()
    expect(page.get_by_role("heading", name="Lease", exact=True)).to_be_visible()
    # A page listens once it is painted, a moment after it can be read.
    page.evaluate("new Promise((go) => requestAnimationFrame(() => setTimeout(go, 200)))")
    press_keys(page, "]")
    expect(page.get_by_role("heading", level=1, name="lead_intake")).to_be_visible()
    press_keys(page, "Escape")
    expect(page.get_by_role("heading", level=1, name="Cursors")).to_be_visible()
    # Only what comes after the first answer of the list is new.
    expect(row(page, "emails")).to_be_visible()
    with changing.open() as ow:
        ow.cursors.acquire("brand new", "w")
    page.get_by_role("button", name="1 new").wait_for()
    expect(row(page, "brand new")).to_have_count(0)
    press_keys(page, ".")
    expect(row(page, "brand new")).to_be_visible()


def test_two_presses_are_one(page: Page, changing: Console, visit: Visit) -> None:
    """A double click pauses once and does not resume; the audit has one row."""
    visit(changing, "/cursors", "Cursors")
    page.get_by_role("button", name="Pause, billing/invoices").dblclick(delay=60)
    expect(row(page, "billing/invoices")).to_contain_text("paused")
    expect(page.get_by_role("button", name="Resume, billing/invoices")).to_be_visible()
    assert acted(changing, "pause", "billing/invoices") == 1
    assert acted(changing, "resume", "billing/invoices") == 0
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Pause, billing/invoices")).to_be_visible()
    assert kinds(changing, "billing/invoices")[:2] == ["resume", "pause"]


def test_a_console_that_only_shows_says_so(page: Page, read_only: Console, visit: Visit) -> None:
    """What cannot be done is there, disabled, with the reason."""
    visit(read_only, "/cursors", "Cursors")
    button = page.get_by_role("button", name="Pause, lead_intake")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_accessible_description(
        "This console is read-only; start it without --read-only."
    )


# --- one of them ---------------------------------------------------------------------------------


def test_its_past_is_there(page: Page, console: Console, visit: Visit) -> None:
    """Its holders, rejected stale writes, changes by operators, and what blocks it."""
    visit(console, f"/cursors/{quote('reports v2')}", "reports v2")
    refused = page.get_by_role("table", name="Rejected stale writes").get_by_role("row")
    expect(refused.filter(has_text="checkpoint").first).to_contain_text("gamma/7")
    expect(refused.filter(has_text="epoch 5, current 6").first).to_be_visible()
    held = page.get_by_role("table", name="Lease history").get_by_role("row")
    expect(held.filter(has_text="taken over")).to_contain_text("gamma/7")
    done = page.get_by_role("table", name="History", exact=True).get_by_role("row")
    expect(done.filter(has_text="bad deploy")).to_contain_text("ann@desk")
    expect(page.get_by_role("region", name="Failures")).to_contain_text("TemplateMissing")
    expect(page.get_by_role("img", name="Position of reports v2")).to_be_visible()


def test_it_says_why_it_does_not_move(page: Page, console: Console, visit: Visit) -> None:
    """The reason is a sentence, on the page of a cursor whose name has a slash."""
    visit(console, f"/cursors/{quote('billing/invoices', safe='')}", "billing/invoices")
    expect(page.get_by_text("Blocked because")).to_be_visible()
    expect(page.get_by_role("region", name="Lease", exact=True)).to_contain_text("beta/99")


def test_a_seek_is_thought_through_done_and_undone(
    page: Page, changing: Console, visit: Visit
) -> None:
    """Numbers first, from the source itself; nothing happens before the name is typed."""
    visit(changing, "/cursors/lead_intake", "lead_intake")
    before = where(changing, "lead_intake")
    page.get_by_role("button", name="Seek…", exact=True).click()
    dialog = page.get_by_role("dialog", name="Seek lead_intake")
    dialog.get_by_role("textbox", name="Position").fill("100")
    plan = dialog.get_by_role("region", name="What will happen")
    expect(plan).to_contain_text(
        f"{int(before or 0) - 100} messages will be processed a second time"
    )
    expect(plan).to_contain_text("alpha/4711")
    confirm = dialog.get_by_role("button", name="Move to 100")
    confirm.click(force=True)  # It is disabled, and says why.
    assert where(changing, "lead_intake") == before
    dialog.get_by_label("Reason").fill("bad deploy")
    dialog.get_by_label("Type lead_intake to confirm").fill("lead_intake")
    confirm.dblclick(delay=30)
    expect(dialog).to_be_hidden()
    assert where(changing, "lead_intake") == "100"
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_text("lead_intake is back where it was")).to_be_visible()
    assert where(changing, "lead_intake") == before
    assert kinds(changing, "lead_intake") == ["undo", "seek"]
    assert [acted(changing, each, "lead_intake") for each in ("seek", "undo")] == [1, 1]


def test_a_seek_to_the_start_and_back_by_its_own_button(
    page: Page, changing: Console, visit: Visit
) -> None:
    """Undo is disabled with a reason until there is a seek, and shows its numbers first."""
    visit(changing, "/cursors/emails", "emails")
    undo = page.get_by_role("button", name="Undo the last seek…")
    expect(undo).to_have_accessible_description("There is no seek to undo.")
    page.get_by_role("button", name="Seek…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("The start").check()
    dialog.get_by_label("Reason").fill("process everything again")
    dialog.get_by_label("Type emails to confirm").fill("emails")
    expect(dialog).to_contain_text("3 messages parked here")
    dialog.get_by_role("button", name="Move to the start").click()
    expect(dialog).to_be_hidden()
    assert where(changing, "emails") is None
    undo.click()
    expect(dialog).to_contain_text("3 messages parked before the seek")
    dialog.get_by_role("button", name="Move back to 150").click()
    expect(dialog).to_be_hidden()
    assert where(changing, "emails") == "150"


def test_a_seek_on_stale_data_is_rejected_and_shown(
    page: Page, changing: Console, visit: Visit, watch: PageMonitor
) -> None:
    """Another operator moved the cursor first: nothing is changed, and the page says so."""
    watch.expect(409)
    visit(changing, "/cursors/reports%20v2", "reports v2")
    press_keys(page, "p")  # What is shown stays as it was.
    page.get_by_role("button", name="Seek…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Position").fill("60")
    dialog.get_by_label("Reason").fill("bad deploy")
    dialog.get_by_label("Type reports v2 to confirm").fill("reports v2")
    expect(dialog.get_by_role("button", name="Move to 60")).to_be_visible()
    with changing.open() as ow:
        ow.cursors.seek("reports v2", "50", "another person", "bob@desk")
    dialog.get_by_role("button", name="Move to 60").click()
    expect(dialog.get_by_role("alert")).to_contain_text("changed since you loaded it")
    assert where(changing, "reports v2") == "50"


def planned(page: Page, name: str, position: str) -> Locator:
    """Fill in a seek up to its last press, and return its dialog."""
    page.get_by_role("button", name="Seek…", exact=True).click()
    dialog = page.get_by_role("dialog", name=f"Seek {name}")
    dialog.get_by_role("textbox", name="Position").fill(position)
    dialog.get_by_label("Reason").fill("bad deploy")
    dialog.get_by_label(f"Type {name} to confirm").fill(name)
    expect(dialog.get_by_role("button", name=f"Move to {position}")).not_to_have_attribute(
        "aria-disabled", "true"
    )
    return dialog


def test_undo_takes_back_only_its_own_seek(page: Page, mortal: Console, visit: Visit) -> None:
    """A colleague moved the cursor in the meantime: that move stays, and the page says so."""
    visit(mortal, "/cursors/lead_intake", "lead_intake")
    planned(page, "lead_intake", "100").get_by_role("button", name="Move to 100").click()
    undo = page.get_by_role("button", name="Undo", exact=True)
    expect(undo).to_be_visible()
    body = {"name": "lead_intake", "position": "200", "reason": "mine", "seen": None}
    assert mortal.post("/api/cursors/seek", body, key="colleague").status_code == 200
    undo.click()
    expect(page.get_by_text("Not undone: The cursor lead_intake was moved again")).to_be_visible()
    assert where(mortal, "lead_intake") == "200"


def test_a_dialog_that_was_closed_too_early_still_shows_its_outcome(
    page: Page, mortal: Console, visit: Visit, watch: PageMonitor
) -> None:
    """A rejection is shown after the dialog is closed; a success closes no other dialog."""
    watch.expect(409)
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "idempotency-key" in route.request.headers:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/cursors/seek", hold)
    visit(mortal, "/cursors/lead_intake", "lead_intake")
    for _ in range(2):
        dialog = planned(page, "lead_intake", "100")
        dialog.get_by_role("button", name="Move to 100").click()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()
    refused = {"error": {"code": "CONFLICT", "message": "it changed", "context": {}}}
    held[0].fulfill(status=409, json=refused)
    expect(page.get_by_text("Not done (Seek lead_intake)")).to_be_visible()
    dialog = planned(page, "lead_intake", "300")
    held[1].continue_()
    expect(page.get_by_text("lead_intake is at 100")).to_be_visible()
    expect(dialog.get_by_label("Reason")).to_have_value("bad deploy")


def test_a_missing_cursor_is_shown_as_an_error(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The error says what is missing and what to do."""
    watch.expect(404)
    visit(console, "/cursors/nothing", "nothing")
    expect(page.get_by_role("alert")).to_contain_text("no cursor")


# --- for everybody -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/reports%20v2"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, path: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/cursors{path}", "reports v2" if path else "Cursors")
    expect(page.get_by_role("table").first).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_the_dialog(page: Page, console: Console, visit: Visit) -> None:
    """The same while a move is thought through."""
    visit(console, "/cursors/lead_intake", "lead_intake")
    page.get_by_role("button", name="Seek…", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("Interrupts")
    assert_accessible(page)


def test_everybody_can_use_an_empty_list(page: Page, empty: Console, visit: Visit) -> None:
    """Nothing yet is explained, with a command to begin with."""
    visit(empty, "/cursors", "Cursors")
    expect(page.get_by_role("heading", name="No cursors yet")).to_be_visible()
    assert_accessible(page)

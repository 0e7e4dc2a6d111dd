"""Memory: find an entity, walk around it, see who said what, and bring back what is gone."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from onceward.memory.client import Memory
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.lab_page_actions import tab_to
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_history import HOSTILE
from tests.support.console_servers import Console, Visit

BILLING, MAIL, IDEA = "File#src/billing.py", "File#src/mail.py", "Concept#idempotency"
GONE = "Concept#old plan"


def at(name: str, **query: str) -> str:
    more = "".join(f"&{key}={quote(value)}" for key, value in query.items())
    return f"/memory?name={quote(name, safe='')}{more}"


def card(page: Page, name: str) -> Locator:
    """Return the card of an entity, when it is there."""
    found = page.get_by_role("region", name=name, exact=True)
    expect(found).to_be_visible()
    return found


def graph(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"What {name} is related to")


def node(page: Page, name: str) -> Locator:
    """Return the node of an entity, whichever drawing it is in."""
    return page.locator(f'.graph [role=button][aria-label*=" {name}:"]')


def knows(console: Console, name: str) -> int:
    """Return how many facts the library knows about an entity; -1 if it is not there."""
    with console.open() as ow:
        found = Memory(ow).graph.open([name]).entities
        return len(found[0].observations) if found else -1


def test_a_search_finds_and_a_selection_shows_who_said_what(
    page: Page, console: Console, visit: Visit
) -> None:
    """A word of a fact finds its entity; the card has the fact, its source, run and time."""
    visit(console, "/memory", "Memory")
    press_keys(page, "/")
    page.keyboard.type("charges")
    entities = page.get_by_role("list", name="Entities").get_by_role("link")
    expect(entities).to_have_count(1)
    entities.click()
    shown = card(page, BILLING)
    expect(shown).to_contain_text("charges a card once per order")
    expect(shown).to_contain_text("claude-code")
    expect(shown).to_contain_text("run_1")
    shown.get_by_role("link", name="Relations").click()
    expect(shown.get_by_role("table").get_by_role("row")).to_have_count(3)
    assert "name=File" in page.url
    page.reload()
    expect(card(page, BILLING).get_by_role("table")).to_contain_text(IDEA)


def test_a_type_filters_and_an_empty_result_differs_from_an_empty_graph(
    page: Page, console: Console, visit: Visit
) -> None:
    """The filter stays in the address and can be cleared."""
    visit(console, "/memory", "Memory")
    page.get_by_label("Type").select_option("File")
    entities = page.get_by_role("list", name="Entities").get_by_role("link")
    expect(entities).to_have_count(2)
    assert "type=File" in page.url
    page.get_by_role("searchbox").fill("no such thing")
    page.get_by_role("button", name="Clear the filter").click()
    expect(entities.nth(4)).to_be_visible()


def test_the_graph_is_walked_by_keyboard(page: Page, console: Console, visit: Visit) -> None:
    """Tab leads in, arrows to a neighbour, Enter opens it, and the focus stays on it."""
    visit(console, at(BILLING), "Memory")
    expect(graph(page, BILLING).get_by_role("button")).to_have_count(3)
    tab_to(page, node(page, BILLING))
    places = {name: node(page, name).bounding_box() for name in (BILLING, MAIL, IDEA)}
    middle, mail = places[BILLING], places[MAIL]
    assert middle is not None
    assert mail is not None
    dx, dy = mail["x"] - middle["x"], mail["y"] - middle["y"]
    sideways = "ArrowRight" if dx > 0 else "ArrowLeft"
    upright = "ArrowDown" if dy > 0 else "ArrowUp"
    press_keys(page, sideways if abs(dx) > abs(dy) else upright)
    expect(node(page, MAIL)).to_be_focused()
    press_keys(page, "Enter")
    card(page, MAIL)
    expect(graph(page, MAIL).get_by_role("button")).to_have_count(3)
    expect(node(page, MAIL)).to_be_focused()
    expect(node(page, "Tool#pytest")).to_be_visible()
    page.go_back()
    card(page, BILLING)


def test_a_neighbour_is_expanded_on_request(page: Page, console: Console, visit: Visit) -> None:
    """The key `e` shows what is around a neighbour, in place; two steps show it at once."""
    visit(console, at(BILLING), "Memory")
    expect(node(page, "Tool#pytest")).to_have_count(0)
    node(page, MAIL).focus()
    press_keys(page, "e")
    expect(node(page, "Tool#pytest")).to_be_visible()
    card(page, BILLING)
    expect(node(page, MAIL)).to_be_focused()
    page.get_by_role("button", name="Only the neighbourhood of the selection").click()
    expect(node(page, "Tool#pytest")).to_have_count(0)
    page.get_by_role("button", name="2 steps").click()
    expect(node(page, "Tool#pytest")).to_be_visible()


def test_the_list_says_what_the_graph_shows(page: Page, console: Console, visit: Visit) -> None:
    """Without the drawing, a table has every entity and relation, and expands there."""
    visit(console, at(BILLING, view="list"), "Memory")
    table = page.get_by_role("table", name=f"What {BILLING} is related to")
    expect(table.get_by_role("row")).to_have_count(4)
    expect(table).to_contain_text(f"ABOUT {IDEA}")
    expect(table).to_contain_text(f"{BILLING} USES it")
    table.get_by_role("button", name=f"Show what is around {MAIL}").click()
    expect(table.get_by_role("row")).to_have_count(5)
    expect(page.locator(".graph")).to_have_count(0)


def test_what_is_deleted_elsewhere_is_restored_here(
    page: Page, mortal: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The page notices the deletion, says what would come back, and does it once."""
    watch.expect(404)  # nothing is around what is deleted
    visit(mortal, at(MAIL), "Memory")
    card(page, MAIL)
    with mortal.open() as ow:
        Memory(ow, source="cleaner").delete_entities([MAIL])
    shown = card(page, MAIL)
    expect(shown).to_contain_text("This entity was deleted")
    shown.get_by_role("link", name="History").click()
    expect(shown).to_contain_text("entity deleted")
    expect(shown).to_contain_text("from cleaner")
    shown.get_by_role("button", name=f"Restore {MAIL}").first.click()
    dialog = page.get_by_role("dialog", name=f"Restore {MAIL}")
    expect(dialog).to_contain_text("This brings back 1 entity, 1 fact, 2 relations")
    assert knows(mortal, MAIL) == -1
    dialog.get_by_role("button", name="Restore 1 entity, 1 fact, 2 relations").dblclick()
    expect(page.get_by_text("Restored: 1 entity, 1 fact, 2 relations.")).to_be_visible()
    expect(shown).not_to_contain_text("This entity was deleted")
    expect(node(page, "Tool#pytest")).to_be_visible()
    assert knows(mortal, MAIL) == 1
    assert len(mortal.audit("memory.restore")) == 1


def test_one_fact_comes_back_by_its_change(page: Page, mortal: Console, visit: Visit) -> None:
    """The history offers the way back from each deletion that still holds, and from no other."""
    with mortal.open() as ow:
        memory = Memory(ow, source="cleaner")
        memory.delete_observations([{"entityName": MAIL, "observations": ["sends receipts"]}])
    visit(mortal, at(MAIL, card="history"), "Memory")
    card(page, MAIL).get_by_role("button", name="Restore the observation").click()
    dialog = page.get_by_role("dialog", name="Restore the observation")
    dialog.get_by_role("button", name="Restore 1 fact").click()
    expect(page.get_by_text("Restored: 1 fact.")).to_be_visible()
    expect(card(page, MAIL).get_by_role("button", name="Restore the observation")).to_have_count(0)
    assert knows(mortal, MAIL) == 1


def test_what_a_search_cannot_find_is_looked_at_by_name(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """A deleted entity is offered by its exact name; one that never existed is shown as missing."""
    watch.expect(404)
    visit(console, f"/memory?q={quote(GONE)}", "Memory")
    page.get_by_role("link", name=f"Look at “{GONE}” by its exact name").click()
    expect(card(page, GONE)).to_contain_text("This entity was deleted")
    visit(console, at("Never#there"), "Memory")
    expect(card(page, "Never#there")).to_contain_text("There is no such entity")


def test_provenance_leads_back_to_the_run(page: Page, console: Console, visit: Visit) -> None:
    """Who says it, how often, and which runs it is known from."""
    visit(console, at(BILLING, card="provenance"), "Memory")
    expect(card(page, BILLING)).to_contain_text("1 fact: 1 from claude-code.")
    expect(card(page, BILLING)).to_contain_text("From which runs")


def test_what_agents_wrote_is_text(page: Page, console: Console, visit: Visit) -> None:
    """Markup in a fact is shown and does nothing."""
    visit(console, at("Note#hostile"), "Memory")
    expect(card(page, "Note#hostile")).to_contain_text(HOSTILE)


def test_a_console_that_only_shows_still_counts(
    page: Page, read_only: Console, visit: Visit, watch: PageMonitor
) -> None:
    """The preview lists what would come back; the disabled button says why it does nothing."""
    watch.expect(404)
    visit(read_only, at(GONE), "Memory")
    card(page, GONE).get_by_role("button", name=f"Restore {GONE}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This brings back 1 entity, 1 fact")
    button = dialog.get_by_role("button", name="Restore 1 entity, 1 fact")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute(
        "title", "This console is read-only; start it without --read-only"
    )


@pytest.mark.parametrize("path", [at(BILLING, hops="2"), at(BILLING, view="list")])
def test_everybody_can_use_it(
    page: Page, console: Console, visit: Visit, watch: PageMonitor, path: str
) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    watch.expect(404)
    visit(console, f"{path}&card=history", "Memory")
    expect(page.get_by_role("list", name="Changes, the newest first")).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_it_when_empty(page: Page, empty: Console, visit: Visit) -> None:
    """The same where nothing is remembered yet, with a command to begin with."""
    visit(empty, "/memory", "Memory")
    expect(page.get_by_role("heading", name="Nothing is remembered yet")).to_be_visible()
    assert_accessible(page)

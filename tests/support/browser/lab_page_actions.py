"""Lab page actions: what people do on the pages of the Lab, for many tests."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.support.lab_servers import LabServer

#: More controls than any page has.
TABS_MAX = 120

#: A machine may stand still for many seconds, for its disk; who does not wait loses nothing by it.
WAIT_MS = 60_000
#: The pages' policy forbids what Playwright's own waiting for a condition does.
UNTIL = """async ([condition, limit]) => {
  const end = performance.now() + limit;
  while (!CONDITION) {
    if (performance.now() > end) throw new Error("not within the time: " + condition);
    await new Promise(requestAnimationFrame);
  }
}"""


def until(page: Page, condition: str) -> None:
    """Wait until an expression is true in the page."""
    page.evaluate(UNTIL.replace("CONDITION", f"({condition})"), [condition, WAIT_MS])


def open_comparison(page: Page, lab: LabServer, experiment_id: str) -> None:
    page.goto(f"{lab.url}/lab/compare/{experiment_id}")
    expect(page.locator("#submit")).to_be_visible()


def open_review(page: Page, lab: LabServer, run_id: str) -> None:
    page.goto(f"{lab.url}/lab/review/{run_id}")
    expect(page.locator("#submit")).to_be_visible()


def expect_heading(page: Page, title: str = "Submitted") -> None:
    """Wait for the heading of the final state, which takes the focus."""
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_focused()


def tab_to(page: Page, control: Locator, key: str = "Tab") -> None:
    """Walk with the keyboard until a control has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press(key)
        if control.evaluate("(node) => node === document.activeElement"):
            return
    message = f"{control} cannot be reached with {key}"
    raise AssertionError(message)

"""Workers in real processes: killed, frozen and taken over from, while the page is open."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from onceward.cursors.models import CursorState
from onceward.testing.zombie import wake
from tests.support import shop_app
from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.console_servers import Console, Visit
from tests.support.waiting import until

HURRY = {"SHOP_LEASE_SECONDS": "4", "SHOP_WORK_SECONDS": "0.1"}
CURSOR = "lead_intake"
Process = subprocess.Popen[bytes]


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Console]:
    """A console over a shop with more to do than two workers can."""
    console = Console(tmp_path / "home")
    console.home.path.mkdir()
    with closing(console.open()) as ow:
        shop_app.create(ow)
        shop_app.add(
            ow, "leads", *[f"lead {each}" for each in range(2_000)], at="2026-01-01T00:00:00.000Z"
        )
    with console:
        yield console


def known(console: Console) -> CursorState | None:
    """Return what the store has of the cursor."""
    with console.open() as ow:
        return {each.name: each for each in ow.cursors.list()}.get(CURSOR)


def epoch_of(console: Console) -> int:
    """Return the cursor's epoch: of the last holder, whether or not it is one still."""
    found = known(console)
    assert found is not None
    return found.epoch


def holder_of(console: Console) -> int:
    """Wait until a worker holds the cursor; return its process id."""

    def look() -> int | None:
        found = known(console)
        if found is None or not found.is_held or found.lease_owner is None:
            return None
        return int(found.lease_owner.split("/")[1])

    found: int = until(look, "no worker holds the cursor")
    return found


def two_workers(console: Console) -> tuple[Process, Process]:
    """Start two and freeze the one that has nothing; return the holder, and it."""
    one, other = console.work(**HURRY), console.work(**HURRY)
    until(lambda: len(console.get("/api/console/workers")["workers"]) == 2, "two never came")
    while True:
        holder, idle = (one, other) if holder_of(console) == one.pid else (other, one)
        console.freeze(idle)
        if holder_of(console) == holder.pid:
            return holder, idle
        wake(idle)


def lane(page: Page, worker: Process) -> Locator:
    return page.locator(".lane").filter(has_text=f"/{worker.pid}")


def bar(page: Page, worker: Process, epoch: int, state: str) -> Locator:
    return lane(page, worker).get_by_role("link", name=f"epoch {epoch}, {CURSOR}, {state}")


def process(page: Page, worker: Process) -> Locator:
    rows = page.get_by_role("table", name="Processes").get_by_role("row")
    return rows.filter(has_text=f"pid {worker.pid}")


def test_a_killed_worker_turns_red_and_another_takes_over(
    page: Page, busy: Console, visit: Visit
) -> None:
    """Its lane shows the lease that ran out; the next holder's epoch is higher."""
    dying, heir = two_workers(busy)
    visit(busy, "/workers", "Workers")
    expect(bar(page, dying, epoch_of(busy), "held")).to_be_visible()
    expect(process(page, dying)).to_contain_text("working")
    dying.kill()
    dying.wait()
    epoch = epoch_of(busy)  # Now that it cannot change any more.
    expect(bar(page, dying, epoch, "expired")).to_have_class("bar bad")
    expect(process(page, dying)).to_contain_text("expired")
    wake(heir)
    expect(bar(page, heir, epoch + 1, "held")).to_be_visible()
    expect(bar(page, dying, epoch, "taken over by another")).to_be_visible()
    assert (holder_of(busy), epoch_of(busy)) == (heir.pid, epoch + 1)


def test_a_frozen_worker_that_wakes_is_refused(page: Page, busy: Console, visit: Visit) -> None:
    """Its rejected stale write is marked in its lane, and listed on the page of the cursor."""
    zombie, heir = two_workers(busy)
    visit(busy, "/workers", "Workers")
    busy.freeze(zombie)
    epoch = epoch_of(busy)
    wake(heir)
    expect(bar(page, heir, epoch + 1, "held")).to_be_visible()
    wake(zombie)
    expect(lane(page, zombie).get_by_role("img", name="was rejected").first).to_be_visible()
    process(page, heir).get_by_role("link", name=CURSOR).click()
    refused = page.get_by_role("table", name="Rejected stale writes").get_by_role("row")
    shown = refused.filter(has_text=f"epoch {epoch}, current {epoch + 1}").first
    expect(shown).to_contain_text(f"/{zombie.pid}")


def test_lanes_can_be_read(page: Page, console: Console, visit: Visit) -> None:
    """A table has the same without the drawing; how far back is in the address."""
    visit(console, "/workers?minutes=60", "Workers")
    page.get_by_role("button", name="Show as a table").click()
    table = page.get_by_role("region", name="as a table")
    expect(table).to_contain_text("epoch 5, reports v2, taken over by another")


def test_everybody_can_use_it(page: Page, console: Console, visit: Visit) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, "/workers?minutes=60", "Workers")
    expect(page.get_by_role("table", name="Processes")).to_be_visible()
    assert_accessible(page)


def test_everybody_can_use_it_when_empty(page: Page, empty: Console, visit: Visit) -> None:
    """Without any worker the page works too, with a command to begin with."""
    visit(empty, "/workers", "Workers")
    expect(page.get_by_role("heading", name="No workers yet")).to_be_visible()
    assert_accessible(page)

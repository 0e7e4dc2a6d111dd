"""Browser: one Chromium for all page tests, and pages that report what users must not see.

Its profile is shared and emptied after each test: with a new one for each, the browser would start
new processes and read every script again, which costs more than most tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.browser.lab_page_actions import WAIT_MS
from tests.support.browser.page_monitor import PageMonitor
from tests.support.browser.profile import Profile
from tests.support.lab_servers import LabServer

NOT_RUN = "not run: no Chromium here; install it with `apt-get install chromium`"
#: A name that leads here, as that of a site whose owner rebinds it.
REBOUND = "--host-resolver-rules=MAP evil.test 127.0.0.1"
#: One process for all pages of ours, which lives on from one test to the next.
TOGETHER = "--process-per-site"


# Playwright's event loop counts as running for as long as it lives, and other tests of the same
# process start loops of their own. So it ends with this package, and not with the session.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip(NOT_RUN)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=[REBOUND, TOGETHER])
        yield found
        found.close()


@pytest.fixture(scope="package")
def profile(browser: Browser) -> Iterator[Profile]:
    """Start a profile, with a page that stays."""
    made = browser.new_context(
        viewport={"width": 1280, "height": 800},
        timezone_id="Europe/Vienna",
        locale="en-GB",
        reduced_motion="reduce",
    )
    made.set_default_timeout(WAIT_MS)
    yield Profile(made)
    made.close()


@pytest.fixture
def context(profile: Profile) -> Iterator[BrowserContext]:
    """A browser that remembers nothing."""
    yield profile.context
    profile.forget()


@pytest.fixture
def watch() -> PageMonitor:
    return PageMonitor()


@pytest.fixture
def page(context: BrowserContext, watch: PageMonitor) -> Iterator[Page]:
    """A page that must behave, until the end of the test."""
    fresh = context.new_page()
    watch.over(fresh)
    yield fresh
    watch.check()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server that the stories of one module share."""
    with LabServer(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[LabServer]:
    """A server of one's own, to be killed."""
    with LabServer(tmp_path) as server:
        yield server

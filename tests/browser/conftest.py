"""Browser: one Chromium for all tests of pages, and pages that notice what nobody should see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.watching import Watch
from tests.system.lab_servers import LabServer

NOT_RUN = "not run: no Chromium here; install it with `apt-get install chromium`"
#: A name that leads here, as that of a site whose owner rebinds it.
REBOUND = "--host-resolver-rules=MAP evil.test 127.0.0.1"
WAIT_MS = 15_000


# Playwright's event loop counts as running for as long as it lives, and other tests of the same
# process start loops of their own. So it ends with this package, and not with the session.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip(NOT_RUN)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=[REBOUND])
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that was never here before."""
    fresh = browser.new_context(
        viewport={"width": 1280, "height": 800},
        timezone_id="Europe/Vienna",
        locale="en-GB",
        reduced_motion="reduce",
    )
    fresh.set_default_timeout(WAIT_MS)
    yield fresh
    fresh.close()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Iterator[Page]:
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

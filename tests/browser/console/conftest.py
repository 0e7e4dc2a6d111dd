"""Consoles to look at: over a home with a story, over an empty one, and ones to be changed.

`page` and `watch` are those of all browser tests: a page fails on errors in its console, violated
policies, dialogs and requests to elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.console_servers import Console, Visit, console_over_copy
from tests.support.console_story import Home, fill


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with the whole story; tests never change it, they work on a copy."""
    return fill(tmp_path_factory.mktemp("seeded") / "home")


@pytest.fixture(scope="module")
def console(seeded: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console that the tests of one module share, with something on every screen."""
    with console_over_copy(seeded, tmp_path_factory.mktemp("console") / "home") as server:
        yield server


@pytest.fixture
def mortal(seeded: Home, tmp_path: Path) -> Iterator[Console]:
    """A console of one's own, to be changed or killed."""
    with console_over_copy(seeded, tmp_path / "home") as server:
        yield server


@pytest.fixture(scope="module")
def read_only(seeded: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console that only shows."""
    place = tmp_path_factory.mktemp("read-only") / "home"
    with console_over_copy(seeded, place, "--read-only") as server:
        yield server


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console over a home in which nothing has happened yet."""
    with Console(tmp_path_factory.mktemp("empty") / "home") as server:
        yield server


@pytest.fixture
def visit(page: Page) -> Visit:
    """Open a screen, and wait until it shows what it knows."""

    def visit(console: Console, path: str, title: str) -> None:
        page.goto(f"{console.url}{path}")
        expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)

    return visit

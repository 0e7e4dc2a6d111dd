"""Looking: a screen by day at a desk and by night in a hand, with no violation at either."""

from __future__ import annotations

from typing import Final, Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

#: Both widths and both schemes, each once: a screen's colours do not depend on its width.
LOOKS: Final[dict[int, Literal["light", "dark"]]] = {1280: "light", 390: "dark"}
NARROW: Final = 320


def clean(page: Page) -> None:
    """Say that a screen has no violation, and does not scroll sideways at any width."""
    for width, scheme in LOOKS.items():
        _fit(page, width)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"
    _fit(page, NARROW)
    page.set_viewport_size({"width": 1280, "height": 800})


def _fit(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    spilled = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert spilled <= 0, f"{spilled} px too wide at {width} px"


def press(page: Page, *keys: str) -> None:
    """Press one key after the other, once the page listens: a moment after it can be read."""
    page.evaluate("new Promise((go) => requestAnimationFrame(() => setTimeout(go, 200)))")
    for key in keys:
        page.keyboard.press(key)

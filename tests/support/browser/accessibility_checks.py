"""Accessibility checks: axe rules and overflow, at several widths, in light and dark."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Literal

from axe_playwright_python.base import AXE_SCRIPT, AxeResults  # type: ignore[import-untyped]
from playwright.sync_api import Page, TimeoutError  # noqa: A004 - Playwright's own

Scheme = Literal["light", "dark"]
VIOLATIONS: Final = {"resultTypes": ["violations"]}
#: The rules that a colour can break; the others say the same in both schemes.
COLOURS: Final = {**VIOLATIONS, "runOnly": ["color-contrast", "link-in-text-block"]}
#: In which scheme a width is held to all rules, and in which to those; the narrowest must only fit.
WIDTHS: Final[dict[int, tuple[tuple[Scheme, dict[str, Any]], ...]]] = {
    320: (),
    390: (("dark", VIOLATIONS), ("light", COLOURS)),
    1280: (("light", VIOLATIONS), ("dark", COLOURS)),
}


def assert_accessible(page: Page) -> None:
    """Assert that a page breaks no axe rule and does not scroll sideways, at any width."""
    page.evaluate(AXE_SCRIPT)
    for width, looks in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": 800})
        _settle(page)
        spilled = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert spilled <= 0, f"{spilled} px too wide at {width} px"
        for scheme, rules in looks:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = AxeResults(page.evaluate("(rules) => axe.run(rules)", rules))
            assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"


def _settle(page: Page) -> None:
    """Wait for a page that is still filling; one that stays too wide is looked at all the same."""
    with suppress(TimeoutError):
        fits = "document.documentElement.scrollWidth <= innerWidth"
        page.wait_for_function(fits)

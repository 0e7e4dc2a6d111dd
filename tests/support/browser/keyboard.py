"""Keyboard: key presses on a page that listens already."""

from __future__ import annotations

from playwright.sync_api import Page


def press_keys(page: Page, *keys: str) -> None:
    """Press one key after the other, once the page listens: a moment after it can be read."""
    page.evaluate("new Promise((go) => requestAnimationFrame(() => setTimeout(go, 200)))")
    for key in keys:
        page.keyboard.press(key)

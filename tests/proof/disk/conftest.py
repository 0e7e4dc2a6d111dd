"""Shared by all tests of the disk: a failure says how to see it again."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Add the line that repeats a test, unless it names a shorter way itself."""
    try:
        return (yield)
    except Exception as exc:
        text = f"{exc}{getattr(exc, '__notes__', '')}"
        if "REPRO: " not in text:
            exc.add_note(f"REPRO: make test ARGS='{item.nodeid} -n 0'")
        raise

"""Shared by these campaigns: a failure says how to see it again."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Add the command to a failure that does not bring one of its own."""
    outcome = yield
    if outcome.excinfo is None or isinstance(outcome.excinfo[1], pytest.skip.Exception):
        return
    if "REPRO: " not in str(outcome.excinfo[1]):
        long = " --prove" if item.config.getoption("--prove") else ""
        outcome.excinfo[1].add_note(f"REPRO: make test ARGS='{item.nodeid} -n 0{long}'")

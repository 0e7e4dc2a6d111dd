"""Console cursor requests: the cursor routes over a store, and cursors to request."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.cursors_http import cursors_router
from onceward.workers import App
from tests.support.console_over_store import asking_at
from tests.support.console_requests import Asking


def asking_of(ow: Onceward, *apps: App, is_read_only: bool = False) -> Asking:
    return asking_at(cursors_router, ow, apps=apps, is_read_only=is_read_only)


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    return asking_of(ow)


def made(ow: Onceward, *names: str, position: str | None = None) -> None:
    """Free cursors, which stand somewhere."""
    for name in names:
        lease = ow.cursors.acquire(name, "w")
        assert lease is not None
        if position is not None:
            lease.checkpoint(position)
        lease.release()


def names(asking: Asking, **query: Any) -> list[str]:
    return [each["name"] for each in asking.body("/api/cursors", **query)["items"]]


def paged(asking: Asking, **query: Any) -> list[list[str]]:
    """Every page of a list, until there is no next one."""
    return [[each["name"] for each in page] for page in asking.pages("/api/cursors", **query)]


def shown(asking: Asking, name: str = "c") -> Any:
    return asking.body("/api/cursors/show", name=name)

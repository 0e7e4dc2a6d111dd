"""Cursor asking: the console's routes of cursors over a store, and cursors to ask about."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.console.acting import Acting
from onceward.console.cursors_http import cursors_router
from onceward.console.house import House
from onceward.handle import Onceward
from onceward.workers import App
from tests.unit.console.asking import Asking


def asking_of(ow: Onceward, *apps: App, is_read_only: bool = False) -> Asking:
    house = House(
        ow=lambda: ow,
        store_url=ow.store.url,
        version="0",
        actor="ann",
        apps=apps,
        is_read_only=is_read_only,
    )
    return Asking(cursors_router(house, Acting(house)))


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
    found, after = [], None
    while True:
        answer = asking.body("/api/cursors", **query, **({"after": after} if after else {}))
        found.append([each["name"] for each in answer["items"]])
        after = answer["next"]
        if after is None:
            return found


def shown(asking: Asking, name: str = "c") -> Any:
    return asking.body("/api/cursors/show", name=name)

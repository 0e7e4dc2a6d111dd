"""Houses: the console over one store, in which Ann acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from onceward.console.acting import Acting
from onceward.console.house import House
from onceward.handle import Onceward
from tests.unit.console.asking import Asking


def house_of(ow: Onceward, **more: Any) -> House:
    return House(ow=lambda: ow, store_url=ow.store.url, version="0", actor="ann", **more)


def asking_at(router: Callable[[House, Acting], APIRouter], ow: Onceward, **more: Any) -> Asking:
    """Ask the routes of one part of it."""
    house = house_of(ow, **more)
    return Asking(router(house, Acting(house)))

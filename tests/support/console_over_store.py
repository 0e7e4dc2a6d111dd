"""The console over one store, in which Ann acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from onceward.client import Onceward
from onceward.console.actions import ActionExecutor
from onceward.console.context import ConsoleContext
from tests.support.console_requests import Asking


def context_of(ow: Onceward, **more: Any) -> ConsoleContext:
    return ConsoleContext(ow=lambda: ow, store_url=ow.store.url, version="0", actor="ann", **more)


def asking_at(
    router: Callable[[ConsoleContext, ActionExecutor], APIRouter], ow: Onceward, **more: Any
) -> Asking:
    """Ask the routes of one part of it."""
    context = context_of(ow, **more)
    return Asking(router(context, ActionExecutor(context)))

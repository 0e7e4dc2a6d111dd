"""Sitting: a call that does not come back before a test lets it."""

from __future__ import annotations

import threading
from typing import Any

import pytest


def sit_on(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> tuple[threading.Event, threading.Event]:
    """Let a method wait before it works; return what tells that it began, and what lets it go."""
    begun, done = threading.Event(), threading.Event()
    works = getattr(owner, name)

    def sit(*arguments: Any, **named: Any) -> object:
        begun.set()
        assert done.wait(30)
        return works(*arguments, **named)

    monkeypatch.setattr(owner, name, sit)
    return begun, done

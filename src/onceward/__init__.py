"""Onceward: exactly-once effects, durable cursors and retries on SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING

from onceward.version import __version__ as __version__

if TYPE_CHECKING:
    from onceward.client import Onceward as Onceward
    from onceward.client import open as open  # noqa: A004 - read as onceward.open
    from onceward.workers import App as App
    from onceward.workers import sources as sources

__all__ = ["App", "Onceward", "__version__", "open", "sources"]
_PLACES = {
    "App": "onceward.workers",
    "Onceward": "onceward.client",
    "open": "onceward.client",
    "sources": "onceward.workers",
}


def __getattr__(name: str) -> object:
    """Import public names on first use, so that the command line starts fast."""
    if name not in _PLACES:
        message = f"module 'onceward' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_PLACES[name]), name)

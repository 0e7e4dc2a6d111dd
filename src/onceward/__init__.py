"""Onceward: every effect happens once, every cursor moves onward, nothing is lost."""

from importlib import import_module
from typing import TYPE_CHECKING

from onceward.version import __version__ as __version__

if TYPE_CHECKING:
    from onceward.handle import Onceward as Onceward
    from onceward.handle import open as open  # noqa: A004 - read as onceward.open
    from onceward.workers import App as App
    from onceward.workers import sources as sources

__all__ = ["App", "Onceward", "__version__", "open", "sources"]
_PLACES = {
    "App": "onceward.workers",
    "Onceward": "onceward.handle",
    "open": "onceward.handle",
    "sources": "onceward.workers",
}


def __getattr__(name: str) -> object:
    """Load what needs a store when it is asked for, so that the command line starts at once."""
    if name not in _PLACES:
        message = f"module 'onceward' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_PLACES[name]), name)

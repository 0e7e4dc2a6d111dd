"""Onceward: every effect happens once, every cursor moves onward, nothing is lost."""

from onceward.version import __version__ as __version__

__all__ = ["__version__"]

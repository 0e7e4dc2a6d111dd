"""Onceward: every effect happens once, every cursor moves onward, nothing is lost."""

from typing import TYPE_CHECKING

from onceward.version import __version__ as __version__

if TYPE_CHECKING:
    from onceward.handle import Onceward as Onceward
    from onceward.handle import open as open  # noqa: A004 - read as onceward.open

__all__ = ["Onceward", "__version__", "open"]


def __getattr__(name: str) -> object:
    """Load what needs a store when it is asked for, so that the command line starts at once."""
    if name not in __all__:
        message = f"module 'onceward' has no attribute {name!r}"
        raise AttributeError(message)
    from onceward import handle  # noqa: PLC0415 - see above

    return getattr(handle, name)

"""Signals: handle SIGINT and SIGTERM for as long as a block lasts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop_signal(act: Callable[[int], object]) -> Iterator[None]:
    """Call `act` with the number of each stop signal; restore the old handlers at the end."""
    before = [signal.signal(each, lambda number, _: act(number)) for each in STOPPING]
    try:
        yield
    finally:
        for each, handler in zip(STOPPING, before, strict=True):
            signal.signal(each, handler)

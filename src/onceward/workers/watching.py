"""Watching: looks after a store that others work with: its metrics, and alerts about it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from onceward.handle import Onceward
from onceward.stores import Store, migrate, open_store
from onceward.stores.opening import STORE_VARIABLE, home
from onceward.workers.alert_models import Rule
from onceward.workers.alert_sending import alerting
from onceward.workers.metrics import Metrics

#: How long an end waits for connections to close.
CLOSE_SECONDS_MAX: Final = 0.5


@contextmanager
def watching(url: str | None, rules: Sequence[Rule]) -> Iterator[Callable[[], bytes]]:
    """Evaluate rules on a store while the block runs; gives the function that makes its metrics.

    Without a URL it is the store that every command would take, if there is one. A store that
    cannot be reached is asked again and again.
    """
    if not is_there(url):
        yield Metrics(None).page
        return
    opened = _Opened(open_store(url))
    try:
        with alerting(opened, rules):
            yield Metrics(opened).page
    finally:
        closing = threading.Thread(target=opened.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS_MAX)


def is_there(url: str | None) -> bool:
    """Say whether a store is named, or our own file exists."""
    return bool(url or os.environ.get(STORE_VARIABLE)) or (home() / "onceward.db").exists()


class _Opened:
    """A store that is brought up to date when somebody needs it, again until it succeeds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._ow: Onceward | None = None

    def __call__(self) -> Onceward:
        with self._mutex:
            if self._ow is None:
                migrate(self._store)
                self._ow = Onceward(self._store)
            return self._ow

    def close(self) -> None:
        self._store.close()

"""A listener for wakeups that tests can wait for."""

from __future__ import annotations

import threading


class Ears:
    """What was heard, in order."""

    def __init__(self) -> None:
        self.heard: list[str | None] = []
        self._changed = threading.Condition()

    def __call__(self, topic: str | None = None) -> None:
        with self._changed:
            self.heard.append(topic)
            self._changed.notify_all()

    def wait_for(self, topic: str | None, count: int = 1, seconds: float = 60) -> bool:
        """Say whether a topic was heard so often, as soon as it was."""
        with self._changed:
            return self._changed.wait_for(lambda: self.heard.count(topic) >= count, seconds)

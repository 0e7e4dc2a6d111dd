"""Long poll for conversations: requests wait until a message or a group's state is new.

Contains the notifier that polls the store, and the loop that reads again after each notification.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from onceward.http import long_poll
from onceward.system import Clock

T = TypeVar("T")
#: Interval at which changes by other processes are polled for.
POLL_SECONDS: Final = 0.4


class ChatNotifier(long_poll.Notifier):
    """Wakes requests that wait for changes of a group.

    This process notifies of its own changes. Those of other processes are polled for, but only
    while a request is waiting.
    """

    def __init__(
        self, fingerprint: Callable[[str], object], *, seconds: float = POLL_SECONDS
    ) -> None:
        """`fingerprint` returns a value that changes with anything about a group."""
        super().__init__()
        self._pulse = fingerprint
        self._seconds = seconds

    def _poll(self, stop: threading.Event) -> None:
        before: dict[str, object] = {}  # Changes before the first poll are unknown.
        while not stop.is_set():
            now = {topic: self._look(topic) for topic in self.topics()}
            for topic, found in now.items():
                if before.get(topic) != found:
                    self.notify(topic)
            before = now
            stop.wait(self._seconds)

    def _look(self, topic: str) -> object:
        try:
            return self._pulse(topic)
        except Exception as exc:  # noqa: BLE001 - a woken request reads again and gets the error
            return repr(exc)


async def wait_for_news(  # noqa: PLR0913 - all but two by name
    read: Callable[[], Awaitable[T]],
    is_news: Callable[[T], bool],
    *,
    topic: str,
    seconds: float,
    notifier: long_poll.Notifier,
    clock: Clock,
) -> T:
    """Read until `is_news` accepts the value or `seconds` have passed; return the last value."""
    deadline = clock.monotonic() + seconds
    with notifier.subscribe(topic) as waiter:
        while True:
            found = await read()
            left = deadline - clock.monotonic()
            if is_news(found) or left <= 0 or notifier.closed:
                return found
            await waiter.wait(left)

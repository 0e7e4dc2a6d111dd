"""Waiting: lets readers of conversations wait for news without holding a thread each.

Owns the bell that rings when something was said or a group's state changed, and the long poll.
Knows no route.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from onceward import bells
from onceward.seams import Clock

T = TypeVar("T")
#: How soon what another process wrote is noticed.
LOOK_SECONDS: Final = 0.4


class ChatBell(bells.Bell):
    """Rings for who waits for news of a group.

    This process tells of its own; while somebody waits, others' are looked for.
    """

    def __init__(self, pulse: Callable[[str], object], *, seconds: float = LOOK_SECONDS) -> None:
        """`pulse` gives what is another when anything about a group has changed."""
        super().__init__()
        self._pulse = pulse
        self._seconds = seconds

    def _watch(self, stop: threading.Event) -> None:
        before: dict[str, object] = {}  # What changed before the watch began, nobody told us.
        while not stop.is_set():
            now = {topic: self._look(topic) for topic in self.topics()}
            for topic, found in now.items():
                if before.get(topic) != found:
                    self.ring(topic)
            before = now
            stop.wait(self._seconds)

    def _look(self, topic: str) -> object:
        try:
            return self._pulse(topic)
        except Exception as exc:  # noqa: BLE001 - whoever is woken looks again, and finds out
            return repr(exc)


async def wait_for_news(  # noqa: PLR0913 - all but two by name
    read: Callable[[], Awaitable[T]],
    is_news: Callable[[T], bool],
    *,
    topic: str,
    seconds: float,
    bell: bells.Bell,
    clock: Clock,
) -> T:
    """Return what is read when that is news, or after `seconds` what there is."""
    deadline = clock.monotonic() + seconds
    with bell.listening(topic) as listener:
        while True:
            found = await read()
            left = deadline - clock.monotonic()
            if is_news(found) or left <= 0 or bell.closed:
                return found
            await listener.wait(left)

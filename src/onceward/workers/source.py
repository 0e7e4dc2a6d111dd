"""Source: where a cursor's messages come from. A small protocol that anybody can implement.

A source is read behind a position and never written. One method is enough; whatever else it can do
it says by having the method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from onceward.errors import InvalidCursor

#: Called from any thread when there may be something to read; it returns at once.
Wake = Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One message, as a source gives it."""

    #: Where a cursor stands once this message is done; another one for every message.
    position: str
    #: Its bytes as they came, decodable or not. What is retried later is made of them.
    raw: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """How far behind its source a cursor is."""

    #: Messages behind the position; None when only a full read could tell.
    messages: int | None
    #: When the oldest of them came to be; None when there is none, or nobody knows.
    oldest_at: datetime | None = None
    #: What holds the source back, such as an old transaction that may still add to it.
    held_back_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Active:
    """Which partitions may have something to read."""

    keys: Sequence[str]
    #: Pass it to the next call: only what came since is named again.
    marker: str


class Source(Protocol):
    """Messages in an order that does not change, each with a position."""

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return up to `limit` messages behind a position, oldest first; None is the start.

        What was returned once must be returned again at every later call with the same position,
        and nothing may appear before it: a message that is not yet final must not be passed.
        """


@runtime_checkable
class Countable(Protocol):
    """A source that can count without being read."""

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many messages lie behind `after`, up to and with `up_to`."""


@runtime_checkable
class Measurable(Protocol):
    """A source that knows how much is left."""

    def lag(self, after: str | None) -> Lag:
        """Return what lies behind a position."""


@runtime_checkable
class Waking(Protocol):
    """A source that says when there is something new, so that nobody has to ask so often."""

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` at every arrival while the block runs; a missed one only costs time."""


@runtime_checkable
class Preparable(Protocol):
    """A source that can be refused, and says with which statements it can be read."""

    def check(self) -> None:
        """Raise SourceRefused, with what to run, if it cannot be read without loss."""

    def apply(self, statement: str) -> None:
        """Run one of these statements where the source is, in a transaction of its own."""


class Partitions(Protocol):
    """Messages in many lines of their own, each with a cursor: one for every niche, say."""

    def source(self, key: str) -> Source:
        """Return the messages of one partition."""

    def active(self, marker: str | None) -> Active:
        """Return the partitions with messages since a marker; all there are without one."""


def check_target(source: Source | None, position: str | None) -> None:
    """Refuse a position behind which a source refuses to be read: its workers would stand there.

    Only one that can count is asked: whoever moves a cursor does not wait for a service that is
    away. A source that fails otherwise says nothing about the position.

    Raises:
        InvalidCursor: the source was never there.
    """
    if position is None or not isinstance(source, Countable):
        return
    try:
        source.read(position, 1)
    except InvalidCursor:
        raise
    except Exception:  # noqa: BLE001 - a source of the user's, whatever it raises
        return

"""Source protocol: the methods that a source of messages implements.

A source is read after a position and never written. Only `read` is required; the other protocols
are optional and recognised by their methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from onceward.errors import InvalidCursor

#: Called from any thread when there may be something to read. Must not block.
Wake = Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One message, as a source returns it."""

    #: The position of a cursor after this message; unique per message.
    position: str
    #: Its original bytes, decodable or not. Later retries decode them again.
    raw: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """How far a cursor lags behind its source."""

    #: Messages after the position; None when only a full read could count them.
    messages: int | None
    #: When the oldest of them was created; None when there is none, or it is unknown.
    oldest_at: datetime | None = None
    #: What blocks later messages, such as an old transaction that may still add earlier ones.
    held_back_by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivePartitions:
    """Partitions that may have something to read."""

    keys: Sequence[str]
    #: Pass it to the next call, which returns only partitions with newer messages.
    marker: str


class Source(Protocol):
    """Messages in a stable order, each with a position."""

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return up to `limit` messages after a position, oldest first; None is the start.

        Reads must be repeatable: the same position returns the same messages, and none may appear
        before them later. So stop before a message that is not final, such as an uncommitted row.
        """


@runtime_checkable
class Countable(Protocol):
    """A source that can count its messages without reading them."""

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return the number of messages after `after`, up to and including `up_to`."""


@runtime_checkable
class Measurable(Protocol):
    """A source that can report the lag of a position."""

    def lag(self, after: str | None) -> Lag:
        """Return the lag of a cursor at this position."""


@runtime_checkable
class Watchable(Protocol):
    """A source that signals new messages, so that workers need not wait for their next poll."""

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` at every arrival while the block runs; a missed one costs a poll interval."""


@runtime_checkable
class Preparable(Protocol):
    """A source with requirements, and statements that fulfil them."""

    def check(self) -> None:
        """Raise SourceRefused, with statements to run, if it cannot be read without loss."""

    def apply(self, statement: str) -> None:
        """Run one of these statements at the source, in a separate transaction."""


class Partitions(Protocol):
    """Messages in partitions, each with its own cursor, such as one per customer."""

    def source(self, key: str) -> Source:
        """Return the messages of one partition."""

    def active(self, marker: str | None) -> ActivePartitions:
        """Return the partitions with messages since a marker; without one, all partitions."""


def check_target(source: Source | None, position: str | None) -> None:
    """Reject a position that the source rejects: workers would be stuck there.

    Only sources that can count are checked, so that a seek does not wait for a remote service. Any
    other error of the source is ignored, since it says nothing about the position.

    Raises:
        InvalidCursor: the position does not belong to the source.
    """
    if position is None or not isinstance(source, Countable):
        return
    try:
        source.read(position, 1)
    except InvalidCursor:
        raise
    except Exception:  # noqa: BLE001 - a user's source may raise anything
        return

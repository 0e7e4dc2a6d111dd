"""Iterable source: reads messages from any Python iterable whose items have positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from onceward.workers.source_protocol import Item
from onceward.workers.sources.json_messages import to_json

#: Returns the messages after a position, oldest first; None is the start. Each is its position, and
#: its bytes or a value that can be encoded as JSON.
IterableFactory = Callable[[str | None], Iterable[tuple[str, object]]]


class IterableSource:
    """The messages that a function returns for a position."""

    def __init__(self, make: IterableFactory) -> None:
        """Call `make` at every read; generators are closed when the page is full."""
        self._make = make

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return the first `limit` messages after a position."""
        with _closing(iter(self._make(after))) as found:
            return [
                Item(position=position, raw=raw if isinstance(raw, bytes) else _raw(raw))
                for position, raw in islice(found, limit)
            ]


def _raw(value: object) -> bytes:
    """Return a value as JSON; for other types, undecodable bytes with its `repr`.

    So the message becomes a dead letter that shows the value, and later messages are read.
    """
    try:
        return to_json(value)
    except TypeError:
        return b"\xff" + repr(value).encode(errors="backslashreplace")


@contextmanager
def _closing(found: Iterator[tuple[str, object]]) -> Iterator[Iterator[tuple[str, object]]]:
    """Close a generator now, with the resources it holds: garbage collection may be late."""
    try:
        yield found
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()

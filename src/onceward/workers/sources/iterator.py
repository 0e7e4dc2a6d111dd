"""IterableSource: any Python iterator whose items have positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from onceward.workers.source_protocol import Item
from onceward.workers.sources.json_messages import to_json

#: Given a position, or None for the start, gives what lies behind it, oldest first: the position of
#: each message, and its bytes or anything that JSON has a form for.
Make = Callable[[str | None], Iterable[tuple[str, object]]]


class IterableSource:
    """What a function yields after a position."""

    def __init__(self, make: Make) -> None:
        """Ask `make` at every read; generators are closed when the page is full."""
        self._make = make

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return the first `limit` of what `make` gives."""
        with _closing(iter(self._make(after))) as found:
            return [
                Item(position=position, raw=raw if isinstance(raw, bytes) else _raw(raw))
                for position, raw in islice(found, limit)
            ]


def _raw(value: object) -> bytes:
    """Return the bytes of a message; without a form they are none that can be decoded.

    So it is a dead letter, which says what it was, and what is behind it is read.
    """
    try:
        return to_json(value)
    except TypeError:
        return b"\xff" + repr(value).encode(errors="backslashreplace")


@contextmanager
def _closing(found: Iterator[tuple[str, object]]) -> Iterator[Iterator[tuple[str, object]]]:
    """Close it now, with whatever it holds open, if it can be: the collector may come late."""
    try:
        yield found
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()

"""Decoding: makes a message of its bytes, or says why it cannot be read. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.workers.models import Consumer, Message
from onceward.workers.source import Item


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One message of a page; without message and problem it has not been decoded yet."""

    item: Item
    #: What its bytes say.
    message: Message | None = None
    #: Why they say nothing.
    problem: BaseException | None = None


class Decoder:
    """Decodes the messages of one cursor."""

    def __init__(self, consumer: Consumer, partition: str | None, cursor: str) -> None:
        """Decode as the consumer declares."""
        self._consumer = consumer
        self._partition = partition
        self._cursor = cursor

    def entry(self, item: Item, attempt: int = 1) -> Entry:
        """Decode a message; whatever that raises is its problem."""
        try:
            message = self.message(item.position, item.raw, attempt)
        except BaseException as exc:  # noqa: BLE001 - bytes that cannot be read are kept and told of
            return Entry(item=item, problem=exc)
        return Entry(item=item, message=message)

    def message(self, position: str, raw: bytes, attempt: int) -> Message:
        """Decode a message; raises whatever that raises."""
        data = self._consumer.decode(raw)
        return Message(
            cursor=self._cursor,
            partition=self._partition,
            position=position,
            raw=raw,
            data=data,
            key=self._consumer.key_of(data),
            attempt=attempt,
        )

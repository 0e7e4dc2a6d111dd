"""Message decoding: turn the bytes of a message into data, or record why that failed."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.workers.models import Consumer, Message
from onceward.workers.source_protocol import Item


@dataclass(frozen=True, kw_only=True, slots=True)
class PageEntry:
    """One item of a page; without `message` and `problem` it is not decoded yet."""

    item: Item
    #: The decoded message.
    message: Message | None = None
    #: Why it could not be decoded.
    problem: BaseException | None = None


class MessageDecoder:
    """Decodes the messages of one cursor."""

    def __init__(self, consumer: Consumer, partition: str | None, cursor: str) -> None:
        """Decode with the consumer's `decode` and `key`."""
        self._consumer = consumer
        self._partition = partition
        self._cursor = cursor

    def decode_entry(self, item: Item, attempt: int = 1) -> PageEntry:
        """Decode an item; an exception becomes the entry's `problem`."""
        try:
            message = self.decode(item.position, item.raw, attempt)
        except BaseException as exc:  # noqa: BLE001 - an unreadable message becomes a dead letter
            return PageEntry(item=item, problem=exc)
        return PageEntry(item=item, message=message)

    def decode(self, position: str, raw: bytes, attempt: int) -> Message:
        """Decode a message; exceptions of the decoder propagate."""
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

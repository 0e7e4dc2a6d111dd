"""Worker models: a consumer with its options, and the message of its handler. Knows no store."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from onceward.cursors.models import PositionMigrations
from onceward.errors import InvalidArgument
from onceward.retries import Schedule
from onceward.retries.models import FAILURES_MAX, check_text
from onceward.stores import Provider
from onceward.workers.source_protocol import Partitions, Source

#: `cursor`: a failing message holds its cursor. `key`: it is parked, and later messages of its key
#: are parked after it (per-key head-of-line blocking). `none`: it is parked alone.
Order = Literal["cursor", "key", "none"]
#: Decodes a message's bytes; a message on which it raises becomes a dead letter.
Decode = Callable[[bytes], Any]
#: Returns the ordering key of a message's data: messages with the same key keep their order.
KeyOf = Callable[[Any], str | int | None]

#: Messages per read, when they are handled one by one.
PAGE_MESSAGES: Final = 100
BATCH_MESSAGES_MAX: Final = 10_000
IN_FLIGHT_MAX: Final = 10_000
#: A message at which this many workers died is a poison message and becomes a dead letter.
POISON_DEATHS: Final = 3
#: The history of a message keeps at least this many failures.
POISON_DEATHS_MAX: Final = FAILURES_MAX
#: Fits into an index of either engine, together with a cursor's name.
KEY_BYTES_MAX: Final = 1_000
#: Poll interval of an idle cursor that gets no wakeup.
POLL_SECONDS: Final = 1.0
#: A cursor with this many parked messages reads no new ones: default and maximum.
PARKED_MAX: Final = 100_000
PARKED_MESSAGES_MAX: Final = 10_000_000
#: How long one cursor may use a thread before other cursors get it.
POLL_CYCLE_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message, as passed to a handler."""

    #: The cursor that read it.
    cursor: str
    #: Its partition, if the consumer has partitions.
    partition: str | None
    #: Its position in the source.
    position: str
    #: Its original bytes.
    raw: bytes
    #: The decoded bytes.
    data: Any
    #: Its ordering key, if the consumer has one.
    key: str | None
    #: 1 for the first attempt.
    attempt: int

    def __getitem__(self, name: Any) -> Any:  # noqa: ANN401 - as the data has it
        """Return an item of the data: `lead["id"]`."""
        return self.data[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrencyLimits:
    """How many cursors of a consumer may be processed at a time, over all processes."""

    total: int | None = None
    per_group: int | Callable[[str], int] | None = None
    #: Returns the group of a partition; by default each partition is its own group.
    group: Callable[[str], str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Consumer:
    """A handler with its source and options."""

    #: The cursor's name, or a pattern such as `distribution_niche_{id}` when it has partitions.
    name: str
    handler: Callable[..., Any]
    takes_tx: bool
    source: Source | Partitions
    is_partitioned: bool
    #: Messages per handler call; None for a single message instead of a list.
    batch: int | None
    order: Order
    key: KeyOf | None
    decode: Decode
    retry: Schedule
    #: Worker deaths after which a message is a dead letter, whatever `retry` allows.
    poison_deaths: int
    lease_seconds: float
    heartbeat_seconds: float
    version: int
    migrations: PositionMigrations
    poll_seconds: float
    limits: ConcurrencyLimits
    #: With this many parked messages a cursor reads no new ones.
    parked_max: int = PARKED_MAX
    #: Opens the transaction of each handler call, if a framework manages it.
    transaction: Provider | None = None

    def key_of(self, data: Any) -> str | None:  # noqa: ANN401 - whatever was decoded
        """Return the ordering key of decoded data; raises if it cannot be stored."""
        key = self.key(data) if self.key else None
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if key is None:
            return None
        if not isinstance(key, str):
            message = f"key: must be text or a whole number, not {type(key).__name__}"
            raise InvalidArgument(message, fix="return a str or an int from key=", field="key")
        check_text("key", key)
        if len(key.encode()) > KEY_BYTES_MAX:
            message = f"key: has {len(key.encode())} bytes, more than {KEY_BYTES_MAX}"
            raise InvalidArgument(message, fix="return a shorter key, such as a hash", field="key")
        return key

    @property
    def page(self) -> int:
        """Return the number of messages per read."""
        return self.batch or PAGE_MESSAGES

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern of its cursors' names, with the partition as its only group."""
        if not self.is_partitioned:
            return re.compile(re.escape(self.name))
        before, _, rest = self.name.partition("{")
        return re.compile(f"{re.escape(before)}(.+){re.escape(rest.partition('}')[2])}", re.DOTALL)

    def source_of(self, cursor: str) -> Source | None:
        """Return the source of a cursor, or None if the cursor belongs to another consumer."""
        found = self.pattern.fullmatch(cursor)
        if found is None:
            return None
        if self.is_partitioned:
            return cast("Partitions", self.source).source(found[1])
        return cast("Source", self.source)

    def cursor(self, partition: str | None) -> str:
        """Return the name of a partition's cursor, or of the only cursor."""
        if partition is None:
            return self.name
        before, _, rest = self.name.partition("{")
        return f"{before}{partition}{rest.partition('}')[2]}"

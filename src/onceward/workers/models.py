"""Models: what a consumer is declared to be, and what its handler gets. Knows no store."""

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
from onceward.workers.source import Partitions, Source

#: `cursor`: a failing message holds its cursor. `key`: it is parked, and later messages of its key
#: line up behind it. `none`: it is parked alone.
Order = Literal["cursor", "key", "none"]
#: Makes a message's data of its bytes; what it raises makes a dead letter.
Decode = Callable[[bytes], Any]
#: Tells which messages must keep their order, from the data.
KeyOf = Callable[[Any], str | int | None]

#: Read at a time, when messages are handled one by one.
PAGE_MESSAGES: Final = 100
BATCH_MESSAGES_MAX: Final = 10_000
IN_FLIGHT_MAX: Final = 10_000
#: So many deaths of workers at one message make it a dead letter.
POISON_DEATHS: Final = 3
#: As many as the history of a message is sure to keep.
POISON_DEATHS_MAX: Final = FAILURES_MAX
#: What an index of both engines takes, and a cursor's name beside it.
KEY_BYTES_MAX: Final = 1_000
#: How often a cursor with nothing to do looks again, if nobody wakes it.
POLL_SECONDS: Final = 1.0
#: Parked messages of one cursor beyond which it reads no new ones: by default, and at the most.
PARKED_MAX: Final = 100_000
PARKED_MESSAGES_MAX: Final = 10_000_000
#: How long one cursor may keep a thread before another gets its turn.
TURN_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message, as a handler gets it."""

    #: The cursor that read it.
    cursor: str
    #: The partition it belongs to, where there are any.
    partition: str | None
    #: Where it stands in its source.
    position: str
    #: Its bytes as they came.
    raw: bytes
    #: What they say.
    data: Any
    #: What it keeps its order with, if it does.
    key: str | None
    #: 1 for the first attempt.
    attempt: int

    def __getitem__(self, name: Any) -> Any:  # noqa: ANN401 - as the data has it
        """Return a part of the data: `lead["id"]`."""
        return self.data[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How many cursors of a consumer may be worked at a time, over all processes."""

    total: int | None = None
    per_group: int | Callable[[str], int] | None = None
    #: Names the group of a partition; every partition is one of its own without it.
    group: Callable[[str], str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Consumer:
    """A handler and what it was declared with."""

    #: The cursor's name, or a pattern such as `distribution_niche_{id}` when it has partitions.
    name: str
    handler: Callable[..., Any]
    takes_tx: bool
    source: Source | Partitions
    is_partitioned: bool
    #: How many messages the handler gets at once; None for one, not in a list.
    batch: int | None
    order: Order
    key: KeyOf | None
    decode: Decode
    retry: Schedule
    #: How many workers may die at a message before it is a dead letter, whatever `retry` allows.
    poison_deaths: int
    lease_seconds: float
    heartbeat_seconds: float
    version: int
    migrations: PositionMigrations
    poll_seconds: float
    limits: Limits
    #: Beyond so many parked messages of a cursor no new ones are read.
    parked_max: int = PARKED_MAX
    #: Opens the transaction of each call, if a framework commits it.
    transaction: Provider | None = None

    def key_of(self, data: Any) -> str | None:  # noqa: ANN401 - whatever was decoded
        """Return what a message keeps its order with; an error if no store could keep that."""
        key = self.key(data) if self.key else None
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if key is None:
            return None
        if not isinstance(key, str):
            message = f"key: must be text or a whole number, not {type(key).__name__}"
            raise InvalidArgument(message, fix="return a str from key=", field="key")
        check_text("key", key)
        if len(key.encode()) > KEY_BYTES_MAX:
            message = f"key: {len(key.encode())} bytes are more than {KEY_BYTES_MAX}"
            raise InvalidArgument(message, fix="return a shorter one, such as a hash", field="key")
        return key

    @property
    def page(self) -> int:
        """Return how many messages are read at a time."""
        return self.batch or PAGE_MESSAGES

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return what the names of its cursors look like, the partition in a group."""
        if not self.is_partitioned:
            return re.compile(re.escape(self.name))
        before, _, rest = self.name.partition("{")
        return re.compile(f"{re.escape(before)}(.+){re.escape(rest.partition('}')[2])}", re.DOTALL)

    def source_of(self, cursor: str) -> Source | None:
        """Return where the messages of a cursor come from; None if it is not one of these."""
        found = self.pattern.fullmatch(cursor)
        if found is None:
            return None
        if self.is_partitioned:
            return cast("Partitions", self.source).source(found[1])
        return cast("Source", self.source)

    def cursor(self, partition: str | None) -> str:
        """Return the name of the cursor of a partition, or of the only one there is."""
        if partition is None:
            return self.name
        before, _, rest = self.name.partition("{")
        return f"{before}{partition}{rest.partition('}')[2]}"

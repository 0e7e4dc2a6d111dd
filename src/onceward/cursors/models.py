"""Models: what a cursor, its lease and its history look like to everybody else. Knows no store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NewType

from onceward.errors import InvalidArgument
from onceward.keys.encoding import is_encodable
from onceward.stores import Row

#: Grows with every grant of a lease and every move by hand; whoever names an old one is late.
Epoch = NewType("Epoch", int)
#: Rewrites a position of one version into the form of the next.
PositionMigration = Callable[[str], str]
#: Migrations by the version they start from.
PositionMigrations = Mapping[int, PositionMigration]
#: How many messages lie behind the first position, up to and with the second; None is the start.
CountBetween = Callable[[str | None, str | None], int]
HistoryKind = Literal["seek", "pause", "resume", "steal", "rollback", "migration", "undo"]

LEASE_SECONDS: Final = 60.0
#: A lease is renewed this many times before it would run out: every 20 s for one of 60 s.
HEARTBEATS_PER_LEASE: Final = 3
LEASE_SECONDS_MIN: Final = 0.05
LEASE_SECONDS_MAX: Final = 7 * 24 * 3600.0
NAME_CHARACTERS_MAX: Final = 200
#: Begins the names of cursors that are Onceward's own and have no messages; lists leave them out.
OWN_PREFIX: Final = "~"
POSITION_CHARACTERS_MAX: Final = 10_000
REASON_CHARACTERS_MAX: Final = 2_000
#: What `list` and `history` return at most.
LIST_ROWS_MAX: Final = 10_000
#: How often a move is thought through again, because a worker went on meanwhile.
MOVE_TRIES_MAX: Final = 100
#: Rows that `list` reads at a time.
LIST_PAGE_ROWS: Final = 1_000


class Renewal(Enum):
    """What became of a renewal."""

    #: The lease is extended.
    RENEWED = "renewed"
    #: The cursor is paused: the lease is not extended, but the running batch may finish.
    PAUSED = "paused"


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorState:
    """One cursor, as it is now; times are text in UTC."""

    name: str
    #: The last position that was processed; None before the first.
    position: str | None
    last_processed_at: str | None
    #: The worker that holds the lease, or held it when it ran out.
    lease_owner: str | None
    lease_expires_at: str | None
    #: Whether somebody holds it now, by the store's own clock.
    is_held: bool
    #: Failed attempts since the last message that succeeded.
    error_count: int
    is_paused: bool
    #: JSON that belongs to the user.
    metadata: str
    epoch: Epoch
    #: How often a worker took over from another whose lease ran out.
    steal_count: int
    #: Messages processed in the cursor's whole life.
    processed_count: int
    #: The version of the rules under which the position was written.
    version: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """Something that was done to a cursor other than working through it."""

    id: int
    cursor: str
    kind: HistoryKind
    happened_at: str
    #: Who did it: a person, or the worker that took over or migrated.
    actor: str
    reason: str
    from_position: str | None
    to_position: str | None
    #: The epoch that counted afterwards.
    epoch: Epoch
    #: The seek that this one undid.
    undoes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A seek or its undoing: done, or only thought through."""

    cursor: str
    from_position: str | None
    to_position: str | None
    #: Messages that will be processed a second time; None when nobody can tell.
    repeated: int | None
    #: Messages that will never be processed; None when nobody can tell.
    skipped: int | None
    #: Messages that wait beside the cursor and are forgotten, because it will read them again; None
    #: when nobody can tell: they stay.
    forgotten: int | None
    #: Those that come back, because the seek that had forgotten them is undone.
    restored: int
    #: The worker whose lease ends by it.
    interrupts: str | None
    #: The epoch that counts now; None in a dry run.
    epoch: Epoch | None

    @property
    def is_dry_run(self) -> bool:
        """Say whether nothing was changed."""
        return self.epoch is None


def state_of(row: Row) -> CursorState:
    """Return what a row of `cursor_show` or `cursor_list` says."""
    return CursorState(
        name=row[0],
        position=row[1],
        last_processed_at=row[2],
        lease_owner=row[3],
        lease_expires_at=row[4],
        is_held=bool(row[5]),
        error_count=row[6],
        is_paused=bool(row[7]),
        metadata=row[8],
        epoch=Epoch(row[9]),
        steal_count=row[10],
        processed_count=row[11],
        version=row[12],
        created_at=row[13],
        updated_at=row[14],
    )


def entry_of(row: Row) -> HistoryEntry:
    """Return what a row of `cursor_history` says."""
    names = HistoryEntry.__dataclass_fields__
    return HistoryEntry(**dict(zip(names, row, strict=True)))


def check_text(field: str, text: object, *, characters_max: int, may_be_empty: bool) -> str:
    """Return the text if both engines can keep it."""
    if not isinstance(text, str) or "\0" in text or not is_encodable(text):
        message = f"{field}: must be text without NUL or lone surrogates"
        raise InvalidArgument(message, fix="pass a plain string", field=field)
    if len(text) > characters_max or not (text or may_be_empty):
        message = f"{field}: must have 1 to {characters_max} characters, not {len(text)}"
        raise InvalidArgument(message, fix="pass a shorter one, or one at all", field=field)
    return text


def check_name(name: object) -> str:
    """Return a cursor's or worker's name if it can be one."""
    return check_text("name", name, characters_max=NAME_CHARACTERS_MAX, may_be_empty=False)


def check_position(position: object) -> str:
    """Return a position if it can be one: text, whatever it means to its source."""
    return check_text(
        "position", position, characters_max=POSITION_CHARACTERS_MAX, may_be_empty=True
    )


def check_lease_seconds(seconds: float) -> float:
    """Return the length of a lease if it can be one."""
    # A NaN is between no limits.
    if not (math.isfinite(seconds) and LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX):
        limits = f"{LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:g}"
        message = f"lease_seconds: must be {limits}, not {seconds!r}"
        raise InvalidArgument(message, fix="leave it out for 60", field="lease_seconds")
    return float(seconds)

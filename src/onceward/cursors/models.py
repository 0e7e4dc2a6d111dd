"""Cursor models: a cursor's state, operator actions on it, and their validation. No store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NewType

from onceward.errors import InvalidArgument
from onceward.keys.encoding import is_encodable
from onceward.stores import Row

#: The fencing token: grows with every grant of a lease and every move by an operator.
Epoch = NewType("Epoch", int)
#: Rewrites a position of one version into the form of the next.
PositionMigration = Callable[[str], str]
#: Migrations by the version they start from.
PositionMigrations = Mapping[int, PositionMigration]
#: Number of messages after the first position up to the second, inclusive; None is the start.
CountBetween = Callable[[str | None, str | None], int]
HistoryKind = Literal["seek", "pause", "resume", "steal", "rollback", "migration", "undo"]

LEASE_SECONDS: Final = 60.0
#: Renewals per lease before it would expire: every 20 s for one of 60 s.
HEARTBEATS_PER_LEASE: Final = 3
LEASE_SECONDS_MIN: Final = 0.05
LEASE_SECONDS_MAX: Final = 7 * 24 * 3600.0
NAME_CHARACTERS_MAX: Final = 200
#: Prefix of internal cursors, which have no messages; lists omit them.
OWN_PREFIX: Final = "~"
POSITION_CHARACTERS_MAX: Final = 10_000
REASON_CHARACTERS_MAX: Final = 2_000
#: What `list` and `history` return at most.
LIST_ROWS_MAX: Final = 10_000
#: How often a move is planned again because a worker advanced the cursor.
MOVE_TRIES_MAX: Final = 100
#: Rows that `list` reads at a time.
LIST_PAGE_ROWS: Final = 1_000


class Renewal(Enum):
    """Result of a renewal."""

    #: The lease is extended.
    RENEWED = "renewed"
    #: The cursor is paused: the lease is not extended, but the running batch may finish.
    PAUSED = "paused"


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorState:
    """The present state of one cursor; times are text in UTC."""

    name: str
    #: The last position that was processed; None before the first.
    position: str | None
    last_processed_at: str | None
    #: The worker that holds the lease, or held it when it expired.
    lease_owner: str | None
    lease_expires_at: str | None
    #: Whether a worker holds it now, by the store's clock.
    is_held: bool
    #: Failed attempts since the last message that succeeded.
    error_count: int
    is_paused: bool
    #: JSON of the user.
    metadata: str
    epoch: Epoch
    #: How often a worker took over an expired lease of another.
    steal_count: int
    #: Messages processed since the cursor was created.
    processed_count: int
    #: The version of the position's format.
    version: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
    """An action on a cursor other than processing, such as a seek or a takeover."""

    id: int
    cursor: str
    kind: HistoryKind
    happened_at: str
    #: The operator, or the worker that took over or migrated.
    actor: str
    reason: str
    from_position: str | None
    to_position: str | None
    #: The epoch after the action.
    epoch: Epoch
    #: The seek that this one undid.
    undoes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A seek or an undo: applied, or a dry run."""

    cursor: str
    from_position: str | None
    to_position: str | None
    #: Messages that will be processed a second time; None: unknown.
    repeated: int | None
    #: Messages that will never be processed; None: unknown.
    skipped: int | None
    #: Parked messages that the move discards, because the cursor will read them again; None:
    #: unknown, and they stay.
    discarded: int | None
    #: Messages that are restored, because the seek that discarded them is undone.
    restored: int
    #: The worker whose lease the move ends.
    interrupts: str | None
    #: The epoch after the move; None in a dry run.
    epoch: Epoch | None

    @property
    def is_dry_run(self) -> bool:
        """Return whether nothing was changed."""
        return self.epoch is None


def state_of(row: Row) -> CursorState:
    """Return the cursor in a row of `cursor_show` or `cursor_list`."""
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
    """Return the entry in a row of `cursor_history`."""
    names = HistoryEntry.__dataclass_fields__
    return HistoryEntry(**dict(zip(names, row, strict=True)))


def check_text(field: str, text: object, *, characters_max: int, may_be_empty: bool) -> str:
    """Return the text if both engines can store it."""
    if not isinstance(text, str) or "\0" in text or not is_encodable(text):
        message = f"{field}: must be text without NUL or lone surrogates, not {text!r:.60}"
        raise InvalidArgument(message, fix="pass a string without them", field=field)
    if len(text) > characters_max or not (text or may_be_empty):
        least = 0 if may_be_empty else 1
        message = f"{field}: must have {least} to {characters_max} characters, not {len(text)}"
        raise InvalidArgument(message, fix="pass a text of such a length", field=field)
    return text


def check_name(name: object) -> str:
    """Return a cursor's or worker's name if it is valid."""
    return check_text("name", name, characters_max=NAME_CHARACTERS_MAX, may_be_empty=False)


def check_position(position: object) -> str:
    """Return a position if it is valid: opaque text."""
    return check_text(
        "position", position, characters_max=POSITION_CHARACTERS_MAX, may_be_empty=True
    )


def check_lease_seconds(seconds: float) -> float:
    """Return the length of a lease if it is valid."""
    # Rejects NaN too.
    if not (math.isfinite(seconds) and LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX):
        limits = f"{LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:.0f} (a week)"
        message = f"lease_seconds: must be {limits}, not {seconds!r}"
        raise InvalidArgument(message, fix="leave it out for 60 s", field="lease_seconds")
    return float(seconds)

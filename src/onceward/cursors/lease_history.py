"""Lease history: read the past leases of a cursor, and its rejected stale writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onceward.stores import Row, Store

#: `released`: released, or granted again to the same worker. `stolen`: it expired, and another
#: worker took over. `moved`: an operator moved the cursor.
Ending = Literal["released", "stolen", "moved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A present or past lease of a worker; times are text in UTC."""

    cursor: str
    epoch: int
    worker: str
    granted_at: str
    #: None until the lease is released, taken over or moved.
    ended_at: str | None
    ending: Ending | None
    #: When it had expired, if it was taken over and had an expiry.
    expired_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedWrite:
    """A stale write that the store rejected."""

    cursor: str
    happened_at: str
    worker: str
    #: The stale fencing token.
    epoch: int
    #: The epoch that was current, and its owner.
    current_epoch: int | None
    current_owner: str | None
    #: `checkpoint`, `renew`, `guard`, `write` or `fail`.
    what: str


def grants_of(store: Store, cursor: str, limit: int) -> tuple[Grant, ...]:
    """Return the grants of one cursor, newest first."""
    return tuple(grant_of(row) for row in store.read("grant_list", name=cursor, limit=limit))


def rejected_writes_of(store: Store, cursor: str, limit: int) -> tuple[RejectedWrite, ...]:
    """Return the rejected writes of one cursor, newest first."""
    return tuple(
        rejected_write_of(row)
        for row in store.read("rejected_write_list", name=cursor, limit=limit)
    )


def grant_of(row: Row) -> Grant:
    """Return the grant in a row of `grant_list`."""
    return Grant(**dict(zip(Grant.__dataclass_fields__, row, strict=True)))


def rejected_write_of(row: Row) -> RejectedWrite:
    """Return the rejected write in a row of `rejected_write_list`."""
    return RejectedWrite(**dict(zip(RejectedWrite.__dataclass_fields__, row, strict=True)))

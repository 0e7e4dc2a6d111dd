"""Traces: who had which cursor when, and who came too late; what is left of the past of leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onceward.stores import Row, Store

#: `released`: given back, or granted anew to the same worker. `stolen`: it ran out, and another
#: worker took over. `moved`: somebody moved the cursor by hand.
Ending = Literal["released", "stolen", "moved"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A lease that a worker has, or had; times are text in UTC."""

    cursor: str
    epoch: int
    worker: str
    granted_at: str
    #: None while nobody else was granted it and nobody gave it back.
    ended_at: str | None
    ending: Ending | None
    #: When it had run out, if it was stolen and had an end.
    expired_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Something that a late holder tried, and the store refused."""

    cursor: str
    happened_at: str
    worker: str
    #: Under which epoch it was granted.
    epoch: int
    #: Which epoch counted then, and whose it was.
    current_epoch: int | None
    current_owner: str | None
    #: `checkpoint`, `renew`, `guard`, `write` or `fail`.
    what: str


def grants_of(store: Store, cursor: str, limit: int) -> tuple[Grant, ...]:
    """Return the grants of one cursor, newest first."""
    return tuple(grant_of(row) for row in store.read("grant_list", name=cursor, limit=limit))


def refusals_of(store: Store, cursor: str, limit: int) -> tuple[Refusal, ...]:
    """Return what was refused at one cursor, newest first."""
    return tuple(refusal_of(row) for row in store.read("refusal_list", name=cursor, limit=limit))


def grant_of(row: Row) -> Grant:
    """Return what a row of grants says."""
    return Grant(**dict(zip(Grant.__dataclass_fields__, row, strict=True)))


def refusal_of(row: Row) -> Refusal:
    """Return what a row of refusals says."""
    return Refusal(**dict(zip(Refusal.__dataclass_fields__, row, strict=True)))

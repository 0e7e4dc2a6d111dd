"""Models: one thing that the doctor looked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: `note`: something optional is not there, or was not looked at. `warn`: a promise may not hold.
#: `fail`: it does not.
Status = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    #: What was found.
    detail: str
    #: Why it matters.
    why: str = ""
    #: What to do when the status is not ok.
    fix: str = ""

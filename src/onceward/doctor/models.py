"""Doctor models: the result of one check, with its status, reason and fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: `note`: something optional is missing, or was not checked. `warn`: a guarantee may not hold.
#: `fail`: a guarantee does not hold.
Status = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    #: What was found.
    detail: str
    #: Why it matters.
    why: str = ""
    #: What to do when the status is not ok.
    fix: str = ""

"""Running call: find the idempotent call in which the current context runs."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from onceward.outcomes.claims import ClaimRequest
from onceward.outcomes.models import Fence
from onceward.outcomes.outcomes import Outcomes
from onceward.system import Clock


@dataclass(kw_only=True, slots=True)
class RunningCall:
    """The call whose function is running; its `effect()` steps use it."""

    outcomes: Outcomes
    request: ClaimRequest
    #: None in a transaction.
    fence: Fence | None
    retry_on: tuple[type[BaseException], ...]
    clock: Clock
    #: Names of its steps so far.
    steps: set[str] = field(default_factory=set)


#: The innermost idempotent call that runs in this context.
CURRENT_CALL: Final[ContextVar[RunningCall | None]] = ContextVar("call", default=None)


def restore_current_call(call: RunningCall, outer: RunningCall | None) -> None:
    """Make the surrounding call current again when this one ends."""
    # Not by a token: a destroyed task ends in the context of another, which must not change.
    if CURRENT_CALL.get() is call:
        CURRENT_CALL.set(outer)

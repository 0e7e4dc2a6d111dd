"""Migrating: changes of the schema that nobody waits long behind.

Whoever waits for the lock of a whole table makes everybody wait who comes after it. So a migration
asks for its locks for a moment, lets the others pass, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from onceward.errors import StoreBusy
from onceward.seams import Clock

T = TypeVar("T")
#: Begins a migration that commits by itself, as it goes, and goes on where it was when run again.
IN_PIECES: Final = "-- In pieces"
#: Before a migration. Less than others wait for us, and than the server waits before it looks for a
#: deadlock and ends one of two: we give up first.
LOCK_BRIEFLY: Final = "set local lock_timeout = '500ms'"
#: How long it is tried again.
TRYING_SECONDS_MAX: Final = 60.0
#: The first pause between two tries; each is twice as long as the one before, up to the longest.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.25, 5.0


def patiently(what: str, attempt: Callable[[], T], clock: Clock) -> T:
    """Try until no lock is in the way; StoreBusy when one is there for too long."""
    until = clock.monotonic() + TRYING_SECONDS_MAX
    pause = PAUSE_SECONDS
    while True:
        try:
            return attempt()
        except StoreBusy as exc:
            if clock.monotonic() >= until:
                raise _in_the_way(what, exc) from exc
        clock.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


def _in_the_way(what: str, last: StoreBusy) -> StoreBusy:
    message = f"{what} was in the way of others for {TRYING_SECONDS_MAX:g} s: {last.message}"
    fix = (
        "end the transactions that are open for long (pg_stat_activity shows them), or stop the "
        "workers, and run `onceward db migrate`; what was applied stays"
    )
    return StoreBusy(message, fix=fix, sqlstate=last.context.get("sqlstate"))

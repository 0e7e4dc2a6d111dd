"""Batched deletes: remove many rows in small commits, so that other writers are not blocked.

An SQLite file has one writer at a time. The kernel may give its lock back to the process that
released it before another one wakes up, so a loop of commits must pause, not only commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from onceward.errors import InvalidArgument
from onceward.system import Clock, SystemClock

#: Rows in one commit: default and maximum.
BATCH_ROWS: Final = 500
BATCH_ROWS_MAX: Final = 5_000
#: A pause lasts as long as the commit before it, within these limits: other writers get half of
#: the time.
PAUSE_SECONDS_MIN: Final = 0.005
PAUSE_SECONDS_MAX: Final = 1.0


def check_batch(rows: int) -> int:
    """Validate the number of rows per commit; too many would block other writers."""
    if not 1 <= rows <= BATCH_ROWS_MAX:
        message = f"batch: must be from 1 to {BATCH_ROWS_MAX}, not {rows}"
        raise InvalidArgument(
            message, fix="leave it out, or pass a number in that range", field="batch"
        )
    return rows


def in_batches(
    commit: Callable[[int], int],
    *,
    rows: int = BATCH_ROWS,
    batches_max: int | None = None,
    clock: Clock | None = None,
) -> int:
    """Call `commit` with a number of rows until it deletes fewer; return the total.

    Each call is one commit. Between two calls it pauses without a lock, for as long as the first
    one took.
    """
    clock = clock or SystemClock()
    total = count = 0
    while True:
        began = clock.monotonic()
        touched = commit(rows)
        took = clock.monotonic() - began
        total, count = total + touched, count + 1
        if touched < rows or count == batches_max:
            return total
        clock.sleep(min(max(took, PAUSE_SECONDS_MIN), PAUSE_SECONDS_MAX))

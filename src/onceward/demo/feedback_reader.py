"""Feedback reader: an agent that reads each judgement once: `STORE FEEDBACK CURSOR`.

It may be killed at any moment. It stores its position after each judgement, and processes each
under an idempotency key. After a kill the last one is delivered again, without a second effect.
"""

from __future__ import annotations

import sys
from typing import Final

from onceward.client import open as open_handle
from onceward.lab.client import FeedbackClient
from onceward.stores import Transaction
from onceward.system import SystemClock

#: How long it works after processing a judgement.
THINK_SECONDS: Final = 0.1


def main(store: str, feedback: str, cursor: str) -> None:
    """Read judgements until killed."""
    ow, clock = open_handle(store), SystemClock()

    @ow.once(scope="demo.hear", key=lambda entry_id: entry_id)
    def hear(entry_id: str, tx: Transaction) -> None:
        tx.execute("insert into demo_heard (entry) values (?)", [entry_id])

    with FeedbackClient(feedback, cursor=cursor, wait=5.0) as client:
        for entry in client:
            hear(entry["id"])  # type: ignore[call-arg]  # `tx` is filled in
            clock.sleep(THINK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])

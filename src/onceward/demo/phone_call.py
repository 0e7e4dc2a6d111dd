"""Phone call: leave an ambiguous outcome: call a buyer and get killed: `phone_call STORE NUMBER`.

Whether the buyer was reached is unknown afterwards, because a phone call has neither key nor
transaction. So the work is not repeated; an operator decides.
"""

from __future__ import annotations

import sys
from typing import Final

from onceward.client import open as open_handle
from onceward.system import SystemClock

SCOPE: Final = "demo.call_buyer"
RING_SECONDS: Final = 60.0
#: Lease of the call: after the kill, the outcome becomes ambiguous when it expires.
LEASE_SECONDS: Final = 5.0


def key_of(number: str) -> str:
    """Return the idempotency key of a call."""
    return f"call#{number}"


def main(store: str, number: str) -> None:
    """Call until killed."""
    ow = open_handle(store)

    @ow.once(scope=SCOPE, key=key_of, lease_seconds=LEASE_SECONDS)
    def call(number: str) -> str:
        ow.effect("ring", SystemClock().sleep, RING_SECONDS)
        return number

    call(number)


if __name__ == "__main__":
    main(*sys.argv[1:])

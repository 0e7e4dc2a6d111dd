"""Rememberer: an agent that writes all it knows, from the first fact to the last: `STORE HOME`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from onceward.demo import notes
from onceward.demo.attempts import Attempts
from onceward.demo.world import DemoWorld
from onceward.handle import open as open_handle
from onceward.memory import Memory
from onceward.seams import SystemClock

#: How long it takes to find out what is worth remembering.
LEARN_SECONDS: Final = 0.1


def main(store: str, home: str) -> None:
    """Write every fact; what was tried is noted before it is tried."""
    clock = SystemClock()
    attempts = Attempts(DemoWorld(home=Path(home), store_url=store))
    with Memory(open_handle(store), source="demo") as memory:
        for number in range(notes.FACTS):
            clock.sleep(LEARN_SECONDS)
            attempts.note(notes.PART, str(number))
            notes.write(memory, number)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Fact writer: an agent that records all its facts, from first to last: `STORE HOME`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from onceward.client import open as open_handle
from onceward.demo import memory_demo
from onceward.demo.attempt_log import Attempts
from onceward.demo.demo_home import DemoWorld
from onceward.memory import Memory
from onceward.system import SystemClock

#: How long the agent works before it records a fact.
LEARN_SECONDS: Final = 0.1


def main(store: str, home: str) -> None:
    """Write every fact; each attempt is recorded before it is made."""
    clock = SystemClock()
    attempts = Attempts(DemoWorld(home=Path(home), store_url=store))
    with Memory(open_handle(store), source="demo") as memory:
        for number in range(memory_demo.FACTS):
            clock.sleep(LEARN_SECONDS)
            attempts.note(memory_demo.PART, str(number))
            memory_demo.write(memory, number)


if __name__ == "__main__":
    main(*sys.argv[1:])

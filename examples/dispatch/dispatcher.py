"""A dispatcher in a process of its own, to be killed: `python dispatcher.py STORE HOME`."""

import logging
import signal
import sys
from pathlib import Path

import onceward
from onceward.dispatch import Dispatcher
from onceward.retries import FixedDelays

#: By default agents that fail are tried again after 5, 10, 20, 40 and 80 s.
SOON = FixedDelays(seconds=(0.3, 0.3))


def started(store: str, home: Path) -> Dispatcher:
    """Start a dispatcher that is in a hurry; it works in threads of its own."""
    logging.getLogger("onceward").setLevel(logging.ERROR)  # The demonstration tells the rest.
    dispatcher = Dispatcher(onceward.open(store), home=home, schedule=SOON)
    dispatcher.start()
    return dispatcher


if __name__ == "__main__":
    started(sys.argv[1], Path(sys.argv[2]))
    signal.pause()

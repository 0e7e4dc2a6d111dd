"""Dispatcher process: run the agents of a store's groups: `dispatcher_process STORE HOME`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

from onceward.client import open as open_handle
from onceward.dispatch.dispatcher import Dispatcher
from onceward.retries import FixedDelays
from onceward.system.logs import set_up

#: By default agents that fail are tried again after 5, 10, 20, 40 and 80 s.
SOON: Final = FixedDelays(seconds=(2.0, 4.0, 8.0))


def main(store: str, home: str) -> None:
    """Run agents until a stop signal or a kill."""
    set_up(as_json=True)
    dispatcher = Dispatcher(open_handle(store), home=Path(home) / "dispatch", schedule=SOON)
    # This thread only waits for a signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    dispatcher.start()
    signal.sigwait({signal.SIGTERM})
    dispatcher.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Dispatcher: runs the agents of a store's groups, to be killed: `dispatcher STORE HOME`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

from onceward.dispatch.dispatcher import Dispatcher
from onceward.handle import open as open_handle
from onceward.logs import set_up
from onceward.retries import Steps

#: By default agents that fail are tried again after 5, 10, 20, 40 and 80 s.
SOON: Final = Steps(seconds=(2.0, 4.0, 8.0))


def main(store: str, home: str) -> None:
    """Run agents until told to stop, or killed."""
    set_up(as_json=True)
    dispatcher = Dispatcher(open_handle(store), home=Path(home) / "dispatch", schedule=SOON)
    # In this thread nothing happens: whoever asks for the end finds it waiting for a signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    dispatcher.start()
    signal.sigwait({signal.SIGTERM})
    dispatcher.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

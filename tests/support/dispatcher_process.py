"""A dispatcher in a process of its own, until SIGTERM ends it well or anything else does not.

Run as `python -m tests.support.dispatcher_process URL HOME LOOKS`. Into the file LOOKS it writes a
line each time that it asked for the store's lease: `taken`, or `held` by another.
"""

import signal
import sys
from pathlib import Path
from queue import SimpleQueue

from onceward.client import open as open_handle
from onceward.cursors.lease import Lease
from onceward.dispatch.dispatcher import Dispatcher
from onceward.retries.retry_schedule import FixedDelays


def main(url: str, home: Path, looks: Path) -> None:
    stopping = SimpleQueue[None]()
    signal.signal(signal.SIGTERM, lambda *_: stopping.put(None))
    with open_handle(url) as ow:
        steps = FixedDelays(seconds=(0.1,) * 5)
        dispatcher = Dispatcher(ow, home=home, schedule=steps, poll_seconds=0.02)
        _note_looks(dispatcher, looks)
        dispatcher.start()
        stopping.get()
        dispatcher.stop()


def _note_looks(dispatcher: Dispatcher, looks: Path) -> None:
    acquired = dispatcher._acquired

    def noted() -> Lease | None:
        lease = acquired()
        with looks.open("a") as file:
            file.write("held\n" if lease is None else "taken\n")
        return lease

    dispatcher._acquired = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))

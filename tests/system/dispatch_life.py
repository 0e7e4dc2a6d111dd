"""A dispatcher in a process of its own, until SIGTERM ends it well or anything else does not.

Run as `python -m tests.system.dispatch_life URL HOME`.
"""

import signal
import sys
import threading
from pathlib import Path

from onceward.dispatch.dispatcher import Dispatcher
from onceward.handle import open as open_handle
from onceward.retries.schedule import Steps


def main(url: str, home: Path) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with open_handle(url) as ow:
        steps = Steps(seconds=(0.1,) * 5)
        dispatcher = Dispatcher(ow, home=home, schedule=steps, poll_seconds=0.02)
        dispatcher.start()
        stopping.wait()
        dispatcher.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

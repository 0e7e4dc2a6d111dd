"""DBOS workflows of one step: `python -m bench.peers.dbos_once URL`."""

import os
import sys
import time
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.turns import serve


def step(number: int) -> int:
    return number


def workflow(number: int) -> int:
    result: int = STEP(number)
    return result


STEP: Any = DBOS.step()(step)
WORKFLOW: Any = DBOS.workflow()(workflow)


def seconds(prefix: str, first: int, calls: int) -> float:
    """Return the time of one workflow; an id that was there before is a replay."""
    began = time.perf_counter()
    for number in range(first, first + calls):
        with SetWorkflowID(f"{prefix}-{number}"):
            WORKFLOW(number)
    return (time.perf_counter() - began) / calls


def main(url: str) -> None:
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL"})
    DBOS.launch()
    serve("dbos", {"seconds": seconds})
    os._exit(0)  # It has threads that outlive it.


if __name__ == "__main__":
    main(sys.argv[1])

"""The example of the middleware, run as a user would."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "fastapi_idempotent.py"


def test_web_and_worker_share_keys() -> None:
    """Two orders, asked for six times on two ways and with two tokens, are charged twice."""
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        "web, order-1:       200 {'charged': 'order-1'}",
        "web, order-1 again: 200 {'charged': 'order-1'} replayed",
        "web, a new token:   200 {'charged': 'order-1'} replayed",
        "worker, order-1:    {'charged': 'order-1'}",
        "worker, order-2:    {'charged': 'order-2'}",
        "web, order-2:       200 {'charged': 'order-2'} replayed",
        "web, without a key: 400 Idempotency-Key: the header is missing; the request was not run",
        "charges made: 2",
    ]

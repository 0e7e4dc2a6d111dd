"""`onceward --help`, beside a Python that does nothing."""

import subprocess
import sys
from pathlib import Path

from bench.table import Row, interleaved

LIMIT_SECONDS = 0.2


def rows() -> list[Row]:
    command = Path(sys.executable).with_name("onceward")
    python, help_page = interleaved(
        [
            lambda: subprocess.run([sys.executable, "-c", ""], check=True),
            lambda: subprocess.run([command, "--help"], check=True, capture_output=True),
        ],
        rounds=9,
    )
    return [
        Row(
            work="onceward --help, seconds",
            ours=f"{help_page:.3f} s",
            peer=f"python -c '' {python:.3f} s",
            ratio=help_page,
            goal=LIMIT_SECONDS,
            better="below",
        )
    ]

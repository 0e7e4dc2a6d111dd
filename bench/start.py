"""Measure the time of `import onceward`, of `onceward --help`, and until `onceward up` answers."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.table import Row, bound, limit
from bench.timing import Run, timed, turns
from bench.units import milli, plain

COMMAND = Path(sys.executable).with_name("onceward")
IMPORT = "import time; a = time.perf_counter(); import onceward; print(time.perf_counter() - a)"


def bare_python() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def help_page() -> None:
    subprocess.run([COMMAND, "--help"], check=True, capture_output=True)


def imported() -> float:
    """Return the seconds of the import alone."""
    ran = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True)
    return float(ran.stdout)


def answered() -> float:
    """Start the console in an empty home; return the seconds until its first answer."""
    with tempfile.TemporaryDirectory() as home:
        surroundings = {**os.environ, "HOME": home, "ONCEWARD_HOME": home}
        command = [str(COMMAND), "up", "--port", "0", "--json", "--no-open"]
        began = time.perf_counter()
        with subprocess.Popen(
            command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["url"].split("/")[2]
            asked = http.client.HTTPConnection(address, timeout=30)
            asked.request("GET", "/healthz")
            assert asked.getresponse().status == http.HTTPStatus.OK
            took = time.perf_counter() - began
            process.kill()
    return took


def rows(run: Run) -> list[Row]:
    found = turns(
        {
            "python": timed(bare_python),
            "import": imported,
            "help": timed(help_page),
            "up": answered,
        },
        run.repetitions(9),
    )
    bare = limit("python -c ''", found["python"])
    return [
        Row(work="`import onceward`", ours=found["import"], shown=milli, besides=(bound(0.08),)),
        Row(
            work="`onceward --help`",
            ours=found["help"],
            shown=milli,
            besides=(bare, bound(0.2)),
        ),
        Row(
            work="`onceward up` until its first answer",
            ours=found["up"],
            shown=plain,
            besides=(bare, bound(2.0)),
        ),
    ]

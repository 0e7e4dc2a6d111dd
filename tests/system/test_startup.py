"""Starting: what is loaded, and how much work that is.

Modules are counted, and seconds of a processor: both are the same on a busy machine, where a watch
would tell how busy it is.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import onceward

#: Beyond what Python itself loads.
IMPORT_MODULES_MAX, HELP_MODULES_MAX, UP_MODULES_MAX = 40, 400, 1_000
IMPORT_SECONDS_MAX, HELP_SECONDS_MAX, UP_SECONDS_MAX = 0.08, 0.2, 2.0
#: What Python alone takes where these limits were set; a slower machine gets more.
PYTHON_SECONDS = 0.012
#: What takes long to load, and what neither help nor most programs need.
HEAVY = {
    *("asyncio", "fastapi", "jsonschema_rs", "mcp", "orjson", "prometheus_client", "psycopg"),
    *("pydantic", "sqlite3", "starlette", "uvicorn", "watchfiles"),
}


def imported(err: str) -> set[str]:
    """Return the modules that `-X importtime` reported."""
    return {line.rpartition("|")[2].strip() for line in err.splitlines() if "import time:" in line}


def modules(*words: str) -> set[str]:
    """Return what a program loads that Python does not load anyway."""
    command = [sys.executable, "-X", "importtime", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"],
        capture_output=True,
        text=True,
        check=True,
    )
    return imported(ran.stderr) - imported(bare.stderr)


def processor_seconds(*words: str) -> float:
    """Return how much longer a program works than Python alone, in seconds of a common machine.

    The best of three counts: whatever else runs can only make it longer.
    """
    bare = bare_seconds()
    return (min(seconds_of(*words) for _ in range(3)) - bare) * min(1.0, PYTHON_SECONDS / bare)


def bare_seconds() -> float:
    """Return how long Python alone works."""
    return min(seconds_of("-c", "pass") for _ in range(3))


def seconds_of(*words: str) -> float:
    """Return how long a program works."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def top(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_the_library_loads_what_is_used() -> None:
    """Importing Onceward loads nothing from other packages, and little of itself."""
    found = modules("-c", "import onceward")
    assert top(found) - {"onceward"} <= set(sys.stdlib_module_names)
    assert {name for name in found if name.startswith("onceward")} == {
        "onceward",
        "onceward.version",
    }
    assert len(found) <= IMPORT_MODULES_MAX
    assert processor_seconds("-c", "import onceward") < IMPORT_SECONDS_MAX


def test_help_loads_no_command() -> None:
    """The first page of help is written from summaries: no store, no server, no protocol."""
    found = modules("-m", "onceward", "--help")
    assert top(found).isdisjoint(HEAVY)
    assert {name.split(".")[1] for name in found if name.startswith("onceward.")} == {
        *("cli", "errors", "version"),
    }
    assert len(found) <= HELP_MODULES_MAX
    assert processor_seconds("-m", "onceward", "--help") < HELP_SECONDS_MAX


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home that is empty."""
    return {**os.environ, "HOME": str(tmp_path), "ONCEWARD_HOME": str(tmp_path / "state")}


def test_a_server_answers_before_long(home: dict[str, str], tmp_path: Path) -> None:
    """From nothing to the first answer, in an empty home, is less than two seconds of work."""
    common = min(1.0, PYTHON_SECONDS / bare_seconds())
    took: list[float] = []
    while not took or (took[-1] >= UP_SECONDS_MAX and len(took) < 3):
        seconds, found = started_server(home, tmp_path / "errors")
        took.append(seconds * common)
    assert top(found).isdisjoint({"mcp", "psycopg", "psycopg_pool"})
    assert len(found) <= UP_MODULES_MAX
    assert took[-1] < UP_SECONDS_MAX, took


def started_server(home: dict[str, str], errors: Path) -> tuple[float, set[str]]:
    """Return how long a server works until its first answer, and what it loads for that."""
    command = [sys.executable, "-X", "importtime", "-m", "onceward", "up"]
    with errors.open("w") as file:
        process = subprocess.Popen(
            [*command, "--port", "0", "--no-open", "--json"],
            env=home,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            # Said once the server has answered at its address.
            _, _, fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")
            ticks = sum(map(int, fields.split()[11:13]))
        finally:
            process.terminate()
            process.communicate(timeout=120)
    return ticks / os.sysconf("SC_CLK_TCK"), imported(errors.read_text())


def test_the_version_is_written_in_one_place() -> None:
    """What pip knows is what the library says; everything else takes it from there."""
    assert version("onceward") == onceward.__version__
    source = Path(onceward.__file__).parent
    said = [path for path in source.rglob("*.py") if onceward.__version__ in path.read_text()]
    assert [path.name for path in said] == ["version.py"]

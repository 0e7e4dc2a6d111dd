"""Run another project that does the same work, in its own process and environment.

Each has its environment in `build/peers/`, made from the versions in
`bench/peers/NAME.txt`. A peer that cannot be installed is reported, and the others go on.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from bench.table import Beside
from bench.timing import Round, Seconds

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "peers"
#: How people call them.
NAMES = {"dbos": "DBOS", "procrastinate": "Procrastinate"}


class PeerFailed(Exception):
    """It ended in the middle of its work."""


class Peer:
    """One process of a peer, or the place of one that could not be had."""

    def __init__(
        self, name: str, process: "subprocess.Popen[str] | None", complaints: IO[str], missing: str
    ) -> None:
        """Speak with a process that has begun."""
        self._process = process
        self._complaints = complaints
        self.missing = missing
        self.label = NAMES.get(name, name)
        if process is not None:
            self.label += f" {self._answer()}"

    def ask(self, work: str, **given: object) -> Any:  # noqa: ANN401 - what the program answers
        """Let it do something, and return its answer; None when it is missing."""
        if self._process is None:
            return None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, "with": given}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def round(self, **given: object) -> Round:
        """Return a round of its work; it measures itself."""

        def round_() -> float:
            return math.nan if self.missing else float(self.ask("seconds", **given))

        return round_

    def beside(
        self, seconds: Seconds, goal: float | None, why: str = "", *, note: str = ""
    ) -> Beside:
        """Return what stands in the table."""
        return Beside(
            kind="peer",
            name=self.label + note,
            seconds=() if self.missing else seconds,
            goal=goal,
            why=why,
            missing=self.missing,
        )

    def _answer(self) -> Any:  # noqa: ANN401 - any JSON
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith('{"answer":'):
                return json.loads(line)["answer"]
        self._complaints.seek(0)
        raise PeerFailed(_last(self._complaints.read()))


@contextmanager
def peer(name: str, program: str, *words: str) -> Iterator[Peer]:
    """Start a program of `bench/peers/` with the peer's own Python, and end it afterwards."""
    problem = installed(name)
    with tempfile.TemporaryFile("w+") as complaints:
        if problem:
            yield Peer(name, None, complaints, problem)
            return
        python = PLACE / name / "bin" / "python"
        command = [str(python), "-W", "ignore", "-m", f"bench.peers.{program}", *words]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process:
            try:
                yield Peer(name, process, complaints, "")
            finally:
                process.kill()


@cache
def installed(name: str) -> str:
    """Make the environment of a peer, if there is none of these versions; return what is wrong."""
    versions = ROOT / "bench" / "peers" / f"{name}.txt"
    place = PLACE / name
    made = place / "made.txt"
    stamp = f"Python {sys.version.split()[0]}\n{versions.read_text()}"
    if made.exists() and made.read_text() == stamp:
        return ""
    print(f"  installing {name} into {place.relative_to(ROOT)} …", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True, symlinks=True)
    python = str(place / "bin" / "python")
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    ran = subprocess.run(
        [*install, "--requirement", str(versions)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        return f"{NAMES.get(name, name)} cannot be installed: {_last(ran.stderr)}"
    # Last: an interrupted environment is made again.
    made.write_text(stamp)
    return ""


def _last(text: str) -> str:
    """Return the last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")

"""Running: tests in a process of their own, against the source as it is or with a bug in it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree as ET

from tests.proof.bugs.bug import ROOT, SOURCE, Bug, put_back

#: How long a process may take beyond its tests: to start, to collect, to end.
AROUND_SECONDS: Final = 120.0
#: A test that fails like this has met code that cannot run at all, not code that is wrong.
CANNOT_RUN: Final = re.compile(
    r"^(?:Syntax|Indentation|Name|UnboundLocal|Import|ModuleNotFound|Attribute)Error\b"
    r"|syntax error|no such column|Missing binding|query parameter",
    re.MULTILINE,
)
#: The last line of a traceback.
ERROR: Final = re.compile(r"[\w.]*(?:Error|Failed|Lost|Crashed)\b(?!: Traceback)")
SAID_CHARACTERS_MAX: Final = 200
Ending = Literal["passed", "failed", "hung", "unusable"]


@dataclass(frozen=True, slots=True)
class Result:
    """How a test ended."""

    ending: Ending
    #: Its failure, or why it could not be run.
    said: str = ""
    #: How long its process took.
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        """Return how it ended, in a line."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        # What a process of the test's own printed says most at its end.
        named = [line for line in lines if ERROR.match(line)] if "Traceback" in self.said else []
        said = (named[-1:] or lines[:1] or [""])[0]
        return f"{self.ending}: {said}"[:SAID_CHARACTERS_MAX]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a bug."""

    bug: Bug
    is_caught: bool
    seconds: float
    #: How it was caught, or why not.
    why: str

    @property
    def repro(self) -> str:
        """Return the line that shows it again."""
        return f"REPRO: python -m tests.proof.bugs {self.bug.id}"


def hunt(bug: Bug) -> Verdict:
    """Put a bug in and see whether its test notices."""
    with tempfile.TemporaryDirectory(prefix="bug-") as place:
        source = Path(place) / "src"
        put_back(bug, source)
        result = run([bug.test], seconds=bug.seconds, source=source)[bug.test]
    return Verdict(bug, _is_caught(bug, result), result.seconds, result.summary)


def _is_caught(bug: Bug, result: Result) -> bool:
    if result.ending == "hung":
        return bug.is_noticed_by_hanging
    return result.ending == "failed" and not CANNOT_RUN.search(result.said)


def run(tests: Sequence[str], *, seconds: float, source: Path = SOURCE) -> dict[str, Result]:
    """Run tests with this source; processes that they start use the same one."""
    with tempfile.TemporaryDirectory(prefix="bug-") as place:
        report = Path(place) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", *tests, "-q", "-p", "no:cacheprovider"),
            *("--junitxml", str(report), "--basetemp", f"{place}/t"),
            *("--timeout", str(seconds), "--timeout-method", "signal"),
        ]
        began = time.monotonic()
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(source, Path(place)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds * len(tests) + AROUND_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return dict.fromkeys(tests, Result("hung", "had to be killed"))
        took = time.monotonic() - began
        if process.returncode not in (0, 1) or not report.exists():
            said = f"pytest ended with {process.returncode}: {output.strip()[-300:]}"
            return dict.fromkeys(tests, Result("unusable", said, took))
        return _read(report, tests, took)


def environment(source: Path, place: Path) -> dict[str, str]:
    """Return an environment whose Python takes `source` before what is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {
        **kept,
        "PYTHONPATH": str(source),
        # What a bug lets Hypothesis find is of no use later.
        "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
    }


def _read(report: Path, tests: Sequence[str], took: float) -> dict[str, Result]:
    """Tell from pytest's report how each test itself ended."""
    cases: dict[tuple[str | None, str | None], list[ET.Element]] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        cases.setdefault((case.get("classname"), case.get("name")), []).append(case)
    found = {}
    for test in tests:
        path, _, name = test.partition("::")
        place = path.removesuffix(".py").replace("/", "."), name
        found[test] = _result(cases.get(place, []), took)
    return found


def _result(cases: Sequence[ET.Element], took: float) -> Result:
    """Return how a test ended, which has a second case when its end failed too."""
    if not cases:
        return Result("unusable", "it was not run", took)
    for case in cases:
        error, failure = case.find("error"), case.find("failure")
        if error is not None:
            return Result("unusable", _said(error), took)
        if failure is not None:
            said = _said(failure)
            return Result("hung" if "from pytest-timeout" in said else "failed", said, took)
        if case.find("skipped") is not None:
            return Result("unusable", "it was skipped", took)
    return Result("passed", "", took)


def _said(element: ET.Element) -> str:
    """Return what went wrong; the message of a report is cut short, its text is not."""
    errors = [line[1:].strip() for line in (element.text or "").splitlines() if line[:2] == "E "]
    return "\n".join(errors) or element.text or str(element.get("message"))

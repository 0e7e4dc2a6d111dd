"""Run every campaign, then write the report and the pages about it: `make prove`.

Words after the command go to pytest, such as a path to run only a part; nothing is written then.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

from tests.proof import pages, report
from tests.support import evidence

DIRECTORY = report.ROOT / "build" / "evidence"
#: One more than two cores: half of the campaigns wait for a lease most of the time.
WORKERS = "3"


def main(words: list[str]) -> int:
    """Run it, and return pytest's own exit code."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    began = time.monotonic()
    code = _pytest("-m", "prove", "--prove", "--timeout=3600", *words)
    if code == 0 and not words and (named := _named_tests()):
        code = _pytest("-m", "not prove", *named)
    seconds = time.monotonic() - began
    if code or words:
        print(f"nothing was written: {'a part was run' if words else 'something failed'}")
        return code
    made = report.made_of(DIRECTORY, seconds)
    report.write(made)
    pages.write(made)
    print(f"{seconds / 60:.1f} min; wrote", report.REPORT.name, "docs/evidence.md GUARANTEES.md")
    return 0


def _pytest(*words: str) -> int:
    command = [sys.executable, "-m", "pytest", "--workers", WORKERS, "-q"]
    return subprocess.run(
        [*command, f"--evidence={DIRECTORY}", *words], cwd=report.ROOT, check=False
    ).returncode


def _named_tests() -> list[str]:
    """Return the tests of those promises that no campaign looks after."""
    proved = {claim for entry in evidence.lines(DIRECTORY, "entries") for claim in entry["claims"]}
    wanted = [each for each in report.promises() if each.id not in proved]
    found = {test for each in wanted for test in each.tests}
    for hole in {hole for each in wanted for hole in each.holes}:
        found |= set(report.tests_of(hole))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Command: `python -m tests.proof.bugs [ID …] [--json]`, a table of bugs and what caught them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from tests.proof.bugs.bank import BUGS, CANARY
from tests.proof.bugs.running import Verdict, hunt, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the named bugs back, or all of them; return 1 if one is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.bugs", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="which bugs; all if none is named")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    asked = parser.parse_args(arguments)
    known = {bug.id: bug for bug in (*BUGS, CANARY)}
    unknown = [each for each in asked.ids if each not in known]
    if unknown:
        parser.error(f"there is no bug {unknown[0]!r}; there are: {', '.join(known)}")
    wanted = [known[each] for each in asked.ids] or list(BUGS)
    tests = list(dict.fromkeys(bug.test for bug in wanted))
    without = run(tests, seconds=max(bug.seconds for bug in wanted))
    escaped = 0
    for bug in wanted:
        verdict = hunt(bug)
        if without[bug.test].ending != "passed":
            why = f"its test does not pass without it: {without[bug.test].summary}"
            verdict = replace(verdict, is_caught=False, why=why)
        escaped += not verdict.is_caught
        print(_json(verdict) if asked.json else _row(verdict), flush=True)
    return 1 if escaped else 0


def _row(verdict: Verdict) -> str:
    bug = verdict.bug
    _, _, test = bug.test.rpartition("::")
    said = f"{verdict.seconds:5.1f} s" if verdict.is_caught else f"NOT CAUGHT, {verdict.why}"
    return f"{bug.id:32} {bug.breaks:3} {bug.name:80} {test:70.70} {said}"


def _json(verdict: Verdict) -> str:
    return json.dumps(
        {
            "bug": verdict.bug.id,
            "what": verdict.bug.name,
            "test": verdict.bug.test,
            "caught": verdict.is_caught,
            "seconds": round(verdict.seconds, 2),
            "why": verdict.why,
        }
    )


if __name__ == "__main__":
    sys.exit(main())

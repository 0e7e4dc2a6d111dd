"""A small stand-in for a spec maintainer: it keeps the changelog, and does nothing twice."""

import os
import re
import sys
from pathlib import Path

CHANGELOG = Path("CHANGELOG.md")


def main() -> int:
    """Add the task's goal to the changelog, unless the task is there already."""
    task = os.environ["ONCEWARD_TASK"]
    line = rf"^Task {re.escape(task)}(?: \(round \d+\))?: (.+)$"
    found = re.search(line, sys.stdin.read(), re.MULTILINE)
    text = CHANGELOG.read_text()
    if found is None or f"- {task}: " in text:
        print("the changelog is up to date")
        return 0
    written = CHANGELOG.with_name(".changelog")
    written.write_text(f"{text}\n- {task}: {found[1]}\n")
    os.replace(written, CHANGELOG)  # noqa: PTH105 - says that it is one step
    print(f"added {task}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

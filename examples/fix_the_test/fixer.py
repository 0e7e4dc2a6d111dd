"""A small stand-in for a coding agent: it repairs Python by changing one operator.

It reads a prompt, looks for the modules that are named in it, and tries one candidate after the
other in a copy of this directory. Only the one with which the tests pass is written here, in one
step: after a kill the old module is there or the repaired one, and it may run again.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

#: What a slip of the pen looks like.
SLIPS = {">": ">=", ">=": ">", "<": "<=", "<=": "<", "==": "!=", "!=": "==", "+": "-", "-": "+"}


def test_output(directory: Path) -> str | None:
    """Run the tests; return what they print if they fail, None if they pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x"]
    ran = subprocess.run(  # noqa: S603 - a fixed command line
        command, cwd=directory, capture_output=True, text=True, check=False
    )
    return ran.stdout if ran.returncode else None


def named_modules(prompt: str) -> list[Path]:
    """Return the modules that a prompt speaks of, without the tests."""
    names = dict.fromkeys(re.findall(r"\w[\w/]*\.py", prompt))
    return [Path(name) for name in names if Path(name).is_file() and not name.startswith("test_")]


def candidates(source: str) -> Iterator[tuple[str, str]]:
    """Yield the source with one operator changed, and what was changed."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP and token.string in SLIPS:
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            changed = line[:start] + SLIPS[token.string] + line[end:]
            detail = f"line {row}: {token.string} becomes {SLIPS[token.string]}"
            yield "".join([*lines[: row - 1], changed, *lines[row:]]), detail


def repair(module: Path) -> str | None:
    """Find a changed operator with which the tests pass, and write it; return what was changed."""
    for source, detail in candidates(module.read_text()):
        print(f"trying {module} {detail}", flush=True)
        with tempfile.TemporaryDirectory() as copy:
            for file in Path().glob("*.py"):
                shutil.copy(file, copy)
            shutil.copy("pytest.ini", copy)
            (Path(copy) / module).write_text(source)
            if test_output(Path(copy)) is None:
                repaired = module.with_name(f".{module.name}.repaired")
                repaired.write_text(source)
                os.replace(repaired, module)  # noqa: PTH105 - says that it is one step
                return detail
    return None


def main() -> int:
    """Repair what the prompt names: 0 when the tests pass, 1 when no candidate helps."""
    prompt = sys.stdin.read()
    failing = test_output(Path())
    if failing is None:
        print("the tests pass, there is nothing to repair")
        return 0
    print(failing.splitlines()[-1] if failing else "the tests fail")
    for module in named_modules(prompt):
        if detail := repair(module):
            print(f"repaired {module} {detail}")
            return 0
    print("no single operator repairs it")
    return 1


if __name__ == "__main__":
    sys.exit(main())

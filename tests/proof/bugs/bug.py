"""Bug: one mistake as data, and a copy of the source that has it.

The text that a bug replaces must stand in its file exactly once. When it does not, the source has
changed and the bug must be thought over: the bank fails rather than test nothing.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SOURCE: Final = ROOT / "src"


class Rotten(AssertionError):
    """A bug that does not fit the source any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bug:
    """A mistake, and who must notice it."""

    #: Short, for the command line.
    id: str
    #: What is wrong with the code.
    name: str
    #: What would go wrong for a user.
    harm: str
    #: Below src/onceward.
    file: str
    find: str
    replace: str
    #: The one test that must turn red, as pytest names it.
    test: str
    #: The promise that it breaks, as in GUARANTEES.md.
    breaks: str
    #: How long the test may take to notice: longer than what it waits for in vain.
    seconds: float = 180.0
    #: Whether the test notices by waiting in vain; else a test that hangs has not noticed.
    is_noticed_by_hanging: bool = False


def broken_text(bug: Bug, source: Path = SOURCE) -> str:
    """Return the file of a bug with the mistake in it."""
    file = source / "onceward" / bug.file
    if not file.is_file():
        message = f"{bug.id}: there is no {bug.file}"
        raise Rotten(message)
    text = file.read_text(encoding="utf-8")
    found = text.count(bug.find)
    if found != 1:
        message = f"{bug.id}: its text stands {found} times in {bug.file}, not once: {bug.find!r}"
        raise Rotten(message)
    if bug.find == bug.replace:
        message = f"{bug.id}: changes nothing"
        raise Rotten(message)
    return text.replace(bug.find, bug.replace)


def put_back(bug: Bug, target: Path, source: Path = SOURCE) -> None:
    """Make a copy of the source at `target` that has this mistake; the source stays as it is."""
    broken = broken_text(bug, source)
    shutil.copytree(source, target, copy_function=_link)
    file = target / "onceward" / bug.file
    file.unlink()
    file.write_text(broken, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _link(source: str, target: str) -> None:
    """Share the content where the file system can: whoever writes a file here unlinks it first."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

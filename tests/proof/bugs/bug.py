"""Bug: one mistake as data, and a copy of the source that has it.

The text that a bug replaces must stand in its file, or its query, exactly once. When it does not,
the source has changed and the bug must be thought over: the bank fails rather than test nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
SOURCE: Final = ROOT / "src"
_TITLE: Final = "(?:-- (?:name|fragment): |create function )"


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
    #: How long the test may take to notice: longer than its longest wait.
    seconds: float = 180.0
    #: The block that holds the text: a query or a fragment, or a function of the schema.
    query: str = ""
    #: Whether the test notices by waiting without result; else a test that hangs has not noticed.
    is_noticed_by_hanging: bool = False


def broken_text(bug: Bug, source: Path = SOURCE) -> str:
    """Return the file of a bug with the mistake in it."""
    file = source / "onceward" / bug.file
    if not file.is_file():
        message = f"{bug.id}: there is no {bug.file}"
        raise Rotten(message)
    text = file.read_text(encoding="utf-8")
    start, end = _block(bug, text)
    found = text.count(bug.find, start, end)
    if found != 1:
        place = f"{bug.file} {bug.query}".rstrip()
        message = f"{bug.id}: its text stands {found} times in {place}, not once: {bug.find!r}"
        raise Rotten(message)
    if bug.find == bug.replace:
        message = f"{bug.id}: changes nothing"
        raise Rotten(message)
    return text[:start] + text[start:end].replace(bug.find, bug.replace) + text[end:]


def _block(bug: Bug, text: str) -> tuple[int, int]:
    """Return where the query of a bug begins and ends in its file; all of it without one."""
    if not bug.query:
        return 0, len(text)
    title = re.search(rf"^{_TITLE}{bug.query}\b", text, re.MULTILINE)
    if title is None:
        message = f"{bug.id}: {bug.file} has no query {bug.query}"
        raise Rotten(message)
    after = re.compile(f"^{_TITLE}", re.MULTILINE).search(text, title.end())
    return title.start(), after.start() if after else len(text)


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
    """Share the content where the file system can: a process that writes a file here unlinks it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

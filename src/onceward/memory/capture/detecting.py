"""Detecting: the errors and warnings in what a command printed, each once, errors first.

How a single line looks is a row of `detectors`; what spans several lines is in `blocks`. Takes time
in proportion to the output, whatever that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from onceward.memory.capture.blocks import Npm, Pytest, Tracebacks
from onceward.memory.capture.detectors import HINT, ROWS, Row
from onceward.memory.capture.issues import ISSUES_MAX, Findings, Issue, plain

#: What stands further behind in a line is not looked at.
LINE_CHARACTERS_MAX: Final = 2_000

_ESLINT: Final = re.compile(
    r"\s{1,8}(?P<place>\d+:\d+)\s+(?P<level>error|warning)\s+(?P<message>\S.*)"
)
#: In front of the place, where rustc and ruff name it.
_ARROW: Final = "--> "
_RUFF: Final = re.compile(r"(?P<kind>[A-Z]+\d+|[a-z]+(?:-[a-z]+)+):?(?: \[\*\])? (?P<message>.+)")
#: `x_test.go:9: ` before what a test says.
_PLACE: Final = re.compile(r"^[^\s:]+:\d+(?::\d+)?: ")


def detect(stdout: str, stderr: str, exit_code: int) -> tuple[Issue, ...]:
    """Return what went wrong, errors first, at most fifty; nothing is said twice.

    A command that failed without a word that is recognised is an issue of its own.
    """
    found = Findings()
    last = ""
    for text in (stdout, stderr):
        reader = _Reader(found)
        for line in _lines(text):
            reader.take(line)
            last = line
        reader.end()
    if exit_code != 0 and not found.errors:
        said = f": {last.strip()}" if last else ""
        message = f"command failed with exit code {exit_code}{said}"
        found.add(Issue(is_warning=False, message=message, kind="exit", detector="exit code"))
    return (*found.errors.values(), *found.warnings.values())[:ISSUES_MAX]


def _lines(text: str) -> Iterator[str]:
    for line in plain(text).split("\n"):
        if line and not line.isspace():
            yield line[:LINE_CHARACTERS_MAX].rstrip()


class _Reader:
    """Reads the lines of one stream."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._tracebacks = Tracebacks(found)
        self._pytest = Pytest(found)
        self._npm = Npm(found)
        #: What waits for its message in the next line.
        self._begun: tuple[Row, str] | None = None
        #: The last line that was not indented; eslint names the file there, ruff the rule.
        self._heading = ""

    def take(self, line: str) -> None:
        """Look at the next line."""
        if self._begun is not None:
            self._end_begun(line)
            return
        if self._tracebacks.take(line) or self._pytest.take(line) or self._npm.take(line):
            return
        if not line[0].isspace():
            self._heading = line
        elif line.lstrip().startswith(_ARROW):
            self._locate(line.lstrip().removeprefix(_ARROW))
        if HINT.search(line):
            self._match(line)

    def end(self) -> None:
        """Take what was begun for what it is."""
        if self._begun is not None:
            self._end_begun("")

    def _match(self, line: str) -> None:
        linted = _ESLINT.match(line)
        if linted is not None:
            self._add_linted(linted)
            return
        for row in ROWS:
            matched = row.pattern.match(line)
            if matched is not None:
                self._add(row, matched)
                return

    def _add(self, row: Row, matched: re.Match[str]) -> None:
        groups = matched.groupdict()
        if row.is_continued:
            self._begun = (row, groups.get("lead") or "")
            return
        level = (groups.get("level") or "").lower()
        is_warning = row.is_warning or level.startswith(("warn", "notice", "deprecated"))
        kind = groups.get("kind") or level or row.kind
        place = matched.string[: min(map(matched.start, filter(groups.get, groups)))]
        self._found.add(
            Issue(
                is_warning=is_warning,
                message=groups["message"],
                kind="warning" if kind == "warn" else kind,
                detector=row.name,
                context=place.strip(" :-"),
            )
        )

    def _add_linted(self, matched: re.Match[str]) -> None:
        message, _, rule = matched["message"].rpartition("  ")
        self._found.add(
            Issue(
                is_warning=matched["level"] == "warning",
                message=message or rule,
                kind=rule if message else matched["level"],
                detector="eslint",
                context=f"{self._heading}:{matched['place']}",
            )
        )

    def _locate(self, place: str) -> None:
        """Take the place of what was said in the line before; of ruff's codes only this tells."""
        ruled = _RUFF.match(self._heading)
        if ruled is None:
            self._found.locate(place)
            return
        self._found.add(
            Issue(
                is_warning=False,
                message=ruled["message"],
                kind=ruled["kind"],
                detector="linter",
                context=place,
            )
        )

    def _end_begun(self, line: str) -> None:
        assert self._begun is not None
        (row, lead), self._begun = self._begun, None
        told = _PLACE.sub("", line.strip())
        message = ": ".join(filter(None, (lead, told)))
        self._found.add(
            Issue(is_warning=False, message=message, kind=row.kind, detector=row.name, context=lead)
        )

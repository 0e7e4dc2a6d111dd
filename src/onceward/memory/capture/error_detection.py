"""Error detection: the distinct errors and warnings in a command's output, errors first.

Single lines are matched by `error_patterns`, multi-line reports by `multiline_errors`. Takes linear
time for any output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from onceward.memory.capture.error_patterns import ERROR_HINT, ERROR_PATTERNS, ErrorPattern
from onceward.memory.capture.issues import ISSUES_MAX, Findings, Issue, strip_control_characters
from onceward.memory.capture.multiline_errors import NpmParser, PytestParser, TracebackParser

#: The rest of a longer line is ignored.
LINE_CHARACTERS_MAX: Final = 2_000

_ESLINT: Final = re.compile(
    r"\s{1,8}(?P<place>\d+:\d+)\s+(?P<level>error|warning)\s+(?P<message>\S.*)"
)
#: Precedes the location in the output of rustc and ruff.
_ARROW: Final = "--> "
_RUFF: Final = re.compile(r"(?P<kind>[A-Z]+\d+|[a-z]+(?:-[a-z]+)+):?(?: \[\*\])? (?P<message>.+)")
#: `x_test.go:9: ` before a test's message.
_PLACE: Final = re.compile(r"^[^\s:]+:\d+(?::\d+)?: ")


def detect(stdout: str, stderr: str, exit_code: int) -> tuple[Issue, ...]:
    """Return the distinct issues, errors first, at most fifty.

    A failed command without a recognised error has an issue for its exit code.
    """
    found = Findings()
    last = ""
    for text in (stdout, stderr):
        reader = _StreamParser(found)
        for line in _lines(text):
            reader.feed(line)
            last = line
        reader.end()
    if exit_code != 0 and not found.errors:
        detail = f": {last.strip()}" if last else ""
        message = f"command failed with exit code {exit_code}{detail}"
        found.add(Issue(is_warning=False, message=message, kind="exit", detector="exit code"))
    return (*found.errors.values(), *found.warnings.values())[:ISSUES_MAX]


def _lines(text: str) -> Iterator[str]:
    for line in strip_control_characters(text).split("\n"):
        if line and not line.isspace():
            yield line[:LINE_CHARACTERS_MAX].rstrip()


class _StreamParser:
    """Parses the lines of one stream."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._tracebacks = TracebackParser(found)
        self._pytest = PytestParser(found)
        self._npm = NpmParser(found)
        #: A match whose message is on the next line.
        self._pending_match: tuple[ErrorPattern, str] | None = None
        #: The last line without indentation: the file for eslint, the rule for ruff.
        self._heading = ""

    def feed(self, line: str) -> None:
        """Parse the next line."""
        if self._pending_match is not None:
            self._finish_pending(line)
            return
        if self._tracebacks.feed(line) or self._pytest.feed(line) or self._npm.feed(line):
            return
        if not line[0].isspace():
            self._heading = line
        elif line.lstrip().startswith(_ARROW):
            self._locate(line.lstrip().removeprefix(_ARROW))
        if ERROR_HINT.search(line):
            self._match(line)

    def end(self) -> None:
        """Finish a pending match at the end of the stream."""
        if self._pending_match is not None:
            self._finish_pending("")

    def _match(self, line: str) -> None:
        linted = _ESLINT.match(line)
        if linted is not None:
            self._add_linted(linted)
            return
        for row in ERROR_PATTERNS:
            matched = row.pattern.match(line)
            if matched is not None:
                self._add(row, matched)
                return

    def _add(self, row: ErrorPattern, matched: re.Match[str]) -> None:
        groups = matched.groupdict()
        if row.message_on_next_line:
            self._pending_match = (row, groups.get("lead") or "")
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
        """Set the location of the previous issue; for ruff, report the issue."""
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

    def _finish_pending(self, line: str) -> None:
        assert self._pending_match is not None
        (row, lead), self._pending_match = self._pending_match, None
        text = _PLACE.sub("", line.strip())
        message = ": ".join(filter(None, (lead, text)))
        self._found.add(
            Issue(is_warning=False, message=message, kind=row.kind, detector=row.name, context=lead)
        )

"""Error detection: the distinct errors and warnings in a command's output, errors first.

Single lines are matched by `ERROR_PATTERNS`, multi-line reports by parsers whose `feed` returns
whether the line was consumed. Takes linear time for any output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from onceward.memory.capture.issues import (
    ERROR_HINT,
    ERROR_PATTERNS,
    ISSUES_MAX,
    ErrorPattern,
    Findings,
    Issue,
    strip_control_characters,
)

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


# --- reports of several lines ---------------------------------------------------------------------

_TRACEBACK: Final = "Traceback (most recent call last)"
_GROUPED: Final = "Exception Group "
#: Margin characters of exception groups.
_MARGIN: Final = " |+-"
_RAISED: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*+)(?::\s*(?P<text>.*))?$")
_UNITTEST: Final = re.compile(r"(?:FAIL|ERROR): (?P<test>\S+ \([^()]*\))")
#: Larger than any indentation.
_MAX_INDENT: Final = 1_000_000
#: Precedes the name of a failed test in unittest's output.
_SEPARATOR: Final = "=" * 70
#: Exceptions that end a program on request.
_EXIT_EXCEPTIONS: Final = frozenset({"KeyboardInterrupt", "SystemExit"})


class TracebackParser:
    """Parses Python tracebacks, including chains and groups, and unittest's test names."""

    def __init__(self, found: Findings) -> None:
        """Add issues to these findings."""
        self._found = found
        #: Indentation of a traceback's last line; None outside a traceback.
        self._indent: int | None = None
        #: Prefix of every line, from a log or a container.
        self._prefix = ""
        self._frame = self._source = self._test = ""
        self._is_ruled = False

    def feed(self, line: str) -> bool:
        """Parse the next line; return whether it was consumed."""
        was_ruled, self._is_ruled = self._is_ruled, line.startswith(_SEPARATOR)
        if was_ruled and (test := _UNITTEST.match(line)):
            self._test = test["test"]
            return True
        if _TRACEBACK in line:
            self._begin(line)
            return True
        if self._prefix:
            line = line.removeprefix(self._prefix)
        inner = line.lstrip(_MARGIN)
        indent = len(line) - len(inner)
        if inner.startswith('File "') and ", line " in inner:
            # A syntax error has no traceback header.
            self._indent = max(0, indent - 2) if self._indent is None else self._indent
            self._frame = inner
            return True
        if self._indent is None:
            self._indent = _MAX_INDENT if _is_part(line, inner) else None
            return self._indent is not None
        return self._go_on(inner, indent)

    def _go_on(self, inner: str, indent: int) -> bool:
        """Parse a line inside a traceback, or its last line."""
        assert self._indent is not None
        if indent <= self._indent and inner:
            return self._end(inner)
        if inner.strip("^~ "):
            self._source = inner
        return True

    def _begin(self, line: str) -> None:
        before = line[: line.index(_TRACEBACK)].removesuffix(_GROUPED)
        is_margin = not before.strip(_MARGIN)
        self._indent, self._prefix = (len(before), "") if is_margin else (0, before)
        self._frame = self._source = ""

    def _end(self, line: str) -> bool:
        raised = _RAISED.match(line)
        self._indent = None
        if raised is None:
            return False
        kind, text = raised["kind"], raised["text"] or self._source
        if kind not in _EXIT_EXCEPTIONS:
            self._found.add(
                Issue(
                    is_warning=False,
                    message=f"{kind}: {text}" if text else kind,
                    kind=kind,
                    detector="unittest" if self._test else "python",
                    context=self._test or self._frame,
                )
            )
        return True


def _is_part(line: str, inner: str) -> bool:
    """Return whether a line separates the exceptions of a group: `+---------------- 1 ----`."""
    number = inner.rstrip("- ")
    is_ruled = inner.endswith("----") and line.lstrip(" |").startswith("+")
    return is_ruled and (number.isdigit() or number == "...")


_SUMMARY_TITLE: Final = " short test summary info "
_REPORTED: Final = re.compile(r"(?:FAILED|ERROR) (?P<test>\S.*)")
_TITLES: Final = ("ERROR at setup of ", "ERROR at teardown of ", "ERROR collecting ")
_ERROR_NAME: Final = re.compile(r"(?P<kind>(?>(?:[A-Za-z_]\w*\.)*)[A-Z]\w*)(?::|$)")


class PytestParser:
    """Parses pytest reports: lines marked with E, or else the short summary."""

    def __init__(self, found: Findings) -> None:
        """Add issues to these findings."""
        self._found = found
        #: The test of this report; empty outside a report.
        self._test = ""
        self._source = ""
        self._was_marked = self._is_summary = False
        #: Tests with a report, for which the summary is skipped.
        self._explained: set[str] = set()

    def feed(self, line: str) -> bool:
        """Parse the next line; return whether it was consumed."""
        first = line[0]
        is_marked = first == "E" and line.startswith("E   ") and bool(self._test)
        was_marked, self._was_marked = self._was_marked, is_marked
        if is_marked:
            if not was_marked:
                self._add(line[1:].strip())
            return True
        if first == ">":
            self._source = line[1:].strip()
        elif first == "_" and line.startswith("___") and line.endswith("___"):
            self._open(line.strip("_").strip())
            return True
        elif first == "=" and line.startswith("===") and line.endswith("==="):
            self._is_summary = _SUMMARY_TITLE in line
            self._test = ""
        elif self._is_summary and (reported := _REPORTED.match(line)):
            self._sum_up(reported["test"])
            return True
        return False

    def _open(self, title: str) -> None:
        for each in _TITLES:
            title = title.removeprefix(each)
        self._test, self._source = title, ""

    def _add(self, text: str) -> None:
        self._explained.add(self._test)
        if _ERROR_NAME.fullmatch(text) and self._source:
            text = f"{text}: {self._source}"
        self._report(text, self._test)

    def _sum_up(self, line: str) -> None:
        test, _, text = line.partition(" - ")
        _, _, name = test.partition("::")
        is_known = {test, name.replace("::", ".")} & self._explained
        # Native tracebacks have no E marks, and begin with AssertionError.
        if not is_known and not (text and self._found.has(f"AssertionError: {text}")):
            self._report(text or f"{test} failed", test)

    def _report(self, text: str, test: str) -> None:
        named = _ERROR_NAME.match(text)
        kind = (
            "AssertionError" if text.startswith("assert ") else named["kind"] if named else "test"
        )
        self._found.add(
            Issue(is_warning=False, message=text, kind=kind, detector="pytest", context=test)
        )


_NPM: Final = re.compile(r"npm (?:error|ERR!)(?:\s(?P<text>.*))?$")
_NPM_FACTS: Final = frozenset(
    {
        "",
        "code",
        "syscall",
        "path",
        "errno",
        "dest",
        "command",
        "cwd",
        "workspace",
        "location",
        "at",
    }
)
_NPM_PROSE: Final = ("A complete log", "Lifecycle script", "To see a list", "in workspace")


class NpmParser:
    """Parses blocks of npm errors; the first sentence is the message."""

    def __init__(self, found: Findings) -> None:
        """Add issues to these findings."""
        self._found = found
        self._kind = ""
        self._has_message = False

    def feed(self, line: str) -> bool:
        """Parse the next line; return whether it was consumed."""
        matched = _NPM.match(line) if line.startswith("npm ") else None
        if matched is None:
            self._kind, self._has_message = "", False
            return False
        text = (matched["text"] or "").strip()
        word, _, value = text.partition(" ")
        if word == "code":
            self._kind = value
        elif not self._has_message and word not in _NPM_FACTS and not text.startswith(_NPM_PROSE):
            self._has_message = True
            kind = self._kind or "error"
            self._found.add(Issue(is_warning=False, message=text, kind=kind, detector="npm"))
        return True

"""Blocks: problems that take several lines to say: tracebacks, reports of pytest, errors of npm.

`take` of each says whether the line was theirs, so that nobody else looks at it.
"""

from __future__ import annotations

import re
from typing import Final

from onceward.memory.capture.issues import Findings, Issue

_TRACEBACK: Final = "Traceback (most recent call last)"
_GROUPED: Final = "Exception Group "
#: In front of the parts of a group of exceptions.
_MARGIN: Final = " |+-"
_RAISED: Final = re.compile(r"(?P<kind>[A-Za-z_][\w.]*+)(?::\s*(?P<text>.*))?$")
_UNITTEST: Final = re.compile(r"(?:FAIL|ERROR): (?P<test>\S+ \([^()]*\))")
#: Further in than any line.
_ANYWHERE: Final = 1_000_000
#: Above the name of a test that failed.
_RULER: Final = "=" * 70
#: Somebody wanted it to end.
_NO_ISSUES: Final = frozenset({"KeyboardInterrupt", "SystemExit"})


class Tracebacks:
    """Tracebacks of Python, chained ones and groups too; unittest says of which test."""

    def __init__(self, found: Findings) -> None:
        """Report what is found there."""
        self._found = found
        #: How far in the last line of the traceback stands; None outside of one.
        self._indent: int | None = None
        #: What a log or a container puts before every line.
        self._prefix = ""
        self._frame = self._source = self._test = ""
        self._is_ruled = False

    def take(self, line: str) -> bool:
        """Take the next line; say whether it was ours."""
        was_ruled, self._is_ruled = self._is_ruled, line.startswith(_RULER)
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
            # A syntax error has no other headline.
            self._indent = max(0, indent - 2) if self._indent is None else self._indent
            self._frame = inner
            return True
        if self._indent is None:
            self._indent = _ANYWHERE if _is_part(line, inner) else None
            return self._indent is not None
        return self._go_on(inner, indent)

    def _go_on(self, inner: str, indent: int) -> bool:
        """Take a line of the traceback, or its last one."""
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
        if kind not in _NO_ISSUES:
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
    """Say whether a line separates the exceptions of a group: `+---------------- 1 ----`."""
    number = inner.rstrip("- ")
    is_ruled = inner.endswith("----") and line.lstrip(" |").startswith("+")
    return is_ruled and (number.isdigit() or number == "...")


_SUMMARY_TITLE: Final = " short test summary info "
_REPORTED: Final = re.compile(r"(?:FAILED|ERROR) (?P<test>\S.*)")
_TITLES: Final = ("ERROR at setup of ", "ERROR at teardown of ", "ERROR collecting ")
_ERROR_NAME: Final = re.compile(r"(?P<kind>(?>(?:[A-Za-z_]\w*\.)*)[A-Z]\w*)(?::|$)")


class Pytest:
    """Reports of pytest: what is marked with E, and the short summary where there is no such."""

    def __init__(self, found: Findings) -> None:
        """Report what is found there."""
        self._found = found
        #: The test whose report this is; empty outside of reports.
        self._test = ""
        self._source = ""
        self._was_marked = self._is_summary = False
        #: Tests of which more is known than the summary says.
        self._explained: set[str] = set()

    def take(self, line: str) -> bool:
        """Take the next line; say whether it was ours."""
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
        # With native tracebacks there are no marks, and a name before what was asserted.
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


class Npm:
    """Blocks of npm's errors: facts line by line, of which the first sentence is the message."""

    def __init__(self, found: Findings) -> None:
        """Report what is found there."""
        self._found = found
        self._kind = ""
        self._has_said = False

    def take(self, line: str) -> bool:
        """Take the next line; say whether it was ours."""
        matched = _NPM.match(line) if line.startswith("npm ") else None
        if matched is None:
            self._kind, self._has_said = "", False
            return False
        text = (matched["text"] or "").strip()
        word, _, value = text.partition(" ")
        if word == "code":
            self._kind = value
        elif not self._has_said and word not in _NPM_FACTS and not text.startswith(_NPM_PROSE):
            self._has_said = True
            kind = self._kind or "error"
            self._found.add(Issue(is_warning=False, message=text, kind=kind, detector="npm"))
        return True

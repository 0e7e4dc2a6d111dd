"""Capturing: what a command did, recorded with all that it showed, and what was known about that.

One run is one write: the run, the command, its errors and warnings, and what they say about fixes.
Recording the same run again changes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from logging import INFO
from pathlib import PurePath
from typing import Any, Final, TypeVar

from onceward.errors import EntityMissing, InvalidArgument
from onceward.memory.capture.detecting import detect
from onceward.memory.capture.gathering import Gathering
from onceward.memory.capture.issues import Issue, plain
from onceward.memory.capture.passing import Passed
from onceward.memory.capture.proving import Seen, Verdict, verdicts
from onceward.memory.client import Memory
from onceward.memory.graph import Graph
from onceward.memory.models import Fate, Origin
from onceward.memory.naming import command_line, issue_name
from onceward.memory.recorded import Recorded
from onceward.memory.recording import Recorder

#: Who wrote it, in the origin of everything that is captured.
SOURCE: Final = "capture"
#: About how many issues it is told what is known.
RECALLED_MAX: Final = 10
_EVENTS_MAX: Final = 10
#: What no name of a tool begins or ends with.
_EDGES: Final = re.compile(r"^[\s@#]+|[\s@#]+$")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a command ran, and who ran it."""

    cwd: str
    mode: str = ""
    repo: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedIssue:
    """An issue of this run, and what is known about it."""

    name: str
    issue: Issue
    #: Whether nobody had recorded it before.
    is_new: bool
    #: The answer of `recall`; of a new issue, that for the closest one with a fix, if any.
    known: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """What was recorded of a run."""

    run: str
    command: str
    issues: tuple[CapturedIssue, ...]
    #: What this run says about fixes.
    verdicts: tuple[Verdict, ...]


def capture(memory: Memory, passed: Passed, place: Place) -> Captured:
    """Record a command that ran, and return what is known about its issues, as far as it can be."""
    found = _Capture(memory.graph, passed, place)
    near = _if_possible(lambda: _near(memory, found.issues)) or {}
    with memory.calls.begin("capture", INFO) as call:
        call.about_text(passed.cmd)
        recorded = call.attempt(found.write)

    def known(name: str) -> dict[str, Any] | None:
        return _if_possible(lambda: memory.recall(name))

    told = [
        replace(each, known=near.get(each.name) if each.is_new else known(each.name))
        for each in recorded.issues[:RECALLED_MAX]
    ]
    return replace(recorded, issues=(*told, *recorded.issues[RECALLED_MAX:]))


def _if_possible(ask: Callable[[], T]) -> T | None:
    """Return an answer, or nothing: what is known helps, but it is the record that counts."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - the call has logged it
        return None


def _near(memory: Memory, issues: Mapping[str, Issue]) -> dict[str, dict[str, Any]]:
    """Return what is known about issues that are like those that nobody has recorded yet.

    To be asked before they are recorded: afterwards nothing is closer to them than themselves.
    """
    names = list(issues)[:RECALLED_MAX]
    known = {each.name for each in memory.graph.open(names).entities} if names else set()
    answers = {name: memory.recall(issues[name].message) for name in names if name not in known}
    return {name: answer for name, answer in answers.items() if answer["fixes"]}


class _Capture:
    """One run on its way into the graph."""

    def __init__(self, graph: Graph, passed: Passed, place: Place) -> None:
        self._graph = graph
        self._tool = self._text(_tool(passed.cmd))
        self._passed = replace(passed, cmd=self._text(passed.cmd))
        self._place = Place(
            cwd=self._text(place.cwd),
            mode=self._text(place.mode),
            repo=self._text(place.repo),
            branch=self._text(place.branch),
        )
        # Before anything is cut: half of a secret would not be recognised.
        self._stdout, self._stderr = (
            graph.redactor.text(plain(text)) for text in (passed.stdout, passed.stderr)
        )
        #: By name, in the order of weight.
        self.issues: dict[str, Issue] = {}
        for each in detect(self._stdout, self._stderr, passed.exit_code):
            # One without a name says nothing but times and hashes.
            with suppress(InvalidArgument):
                name = issue_name(each.message, graph.redactor, is_warning=each.is_warning)
                self.issues.setdefault(name, each)

    def write(self) -> Captured:
        """Write all of it; what was decided is decided anew when this is repeated."""
        try:
            return self._write(is_judging=True)
        except EntityMissing:  # A fix was deleted meanwhile.
            return self._write(is_judging=False)

    def _text(self, text: str) -> str:
        """Return what the system said as text: arguments and paths may be any bytes."""
        return self._graph.redactor.text(text).encode(errors="replace").decode()

    def _seen(self, run: str) -> Seen:
        return Seen(
            run=run,
            cmd=self._passed.cmd,
            cwd=self._place.cwd,
            repo=self._place.repo,
            started_at=self._passed.started_at,
            ended_at=self._passed.ended_at,
            is_success=self._passed.exit_code == 0,
            issues=self.issues.keys(),
        )

    def _write(self, *, is_judging: bool) -> Captured:
        place = self._place
        gathering = Gathering(self._graph)
        recorder = Recorder(
            gathering,
            origin=Origin(source=SOURCE),
            mode=place.mode,
            repo=place.repo,
            branch=place.branch,
        )
        run, command = self._record_run(recorder)
        for each in self.issues.values():
            self._record_issue(recorder, command.name, each)
        judged = verdicts(self._graph, self._seen(run.name)) if is_judging else ()
        for verdict in judged:
            self._record_verdict(recorder, verdict)
        written = self._graph.write(gathering.batch, Origin(source=SOURCE, run=run.name))
        new = {each.name for each in written.entities if each.fate is Fate.CREATED}
        if run.name not in new:
            # Recorded before, and perhaps nobody has heard of it: what it found new is still so.
            known = self._graph.open([*self.issues]).entities if self.issues else ()
            new |= {each.name for each in known if each.run == run.name}
        return Captured(
            run=run.name,
            command=command.name,
            issues=tuple(
                CapturedIssue(name=name, issue=issue, is_new=name in new)
                for name, issue in self.issues.items()
            ),
            verdicts=judged,
        )

    def _record_run(self, recorder: Recorder) -> tuple[Recorded, Recorded]:
        passed, place = self._passed, self._place
        run = recorder.run(
            started_at=passed.started_at,
            cmd=passed.cmd,
            exit_code=passed.exit_code,
            summary=self._summary(),
            success=passed.exit_code == 0,
            duration_ms=passed.duration_ms,
            key_events=[each.message for each in list(self.issues.values())[:_EVENTS_MAX]],
            tools=[self._tool],
            cwd=place.cwd,
            stdout_head=self._stdout,
            stderr_head=self._stderr,
            ts=passed.ended_at,
        )
        # Without its duration: the same result twice is the same observation.
        command = recorder.command(
            passed.cmd,
            exit_code=passed.exit_code,
            cwd=place.cwd,
            stdout_head=self._stdout,
            stderr_head=self._stderr,
            run=run.name,
            ts=passed.ended_at,
        )
        return run, command

    def _record_issue(self, recorder: Recorder, command: str, issue: Issue) -> None:
        recorder.error(
            issue.message,
            kind=issue.kind,
            detector=issue.detector,
            context=issue.context or None,
            command=command,
            is_warning=issue.is_warning,
            ts=self._passed.ended_at,
        )

    def _record_verdict(self, recorder: Recorder, verdict: Verdict) -> None:
        # Each attempt counts, though all else about its outcome may be the same.
        attempt = f", attempt {verdict.attempt}" if verdict.attempt > 1 else ""
        recorder.outcome(
            verdict.fix,
            status=verdict.status,
            verification_method=f"command: {self._line()}{attempt}",
            duration_to_verify=verdict.duration_ms,
            ts=self._passed.ended_at,
        )

    def _line(self) -> str:
        return command_line(self._passed.cmd, self._graph.redactor)

    def _summary(self) -> str:
        warnings = sum(each.is_warning for each in self.issues.values())
        errors = len(self.issues) - warnings
        counts = [_count(errors, "error"), _count(warnings, "warning")]
        parts = [f"exit code {self._passed.exit_code}", *filter(None, counts)]
        return f"{self._line()}: {', '.join(parts)}"


def _tool(cmd: str) -> str:
    """Return what the first word of a command is called; a name of nothing but marks is none."""
    try:
        first = shlex.split(cmd)[0]
    except ValueError:  # A quotation without an end.
        first = cmd.split(maxsplit=1)[0]
    return _EDGES.sub("", PurePath(first).name) or "unknown"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}" if number else ""

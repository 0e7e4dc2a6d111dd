"""Command capture: record a command's run, and return what is known about its issues.

The run, the command, its errors and warnings, and the outcomes of fixes are one atomic write.
Recording the same run again changes nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from logging import INFO
from pathlib import Path, PurePath
from typing import Any, Final, TypeVar

from onceward.errors import EntityMissing, InvalidArgument
from onceward.memory.capture.error_detection import detect
from onceward.memory.capture.fix_verification import FixVerdict, ObservedRun, verify_fixes
from onceward.memory.capture.issues import Issue, strip_control_characters
from onceward.memory.capture.run_command import CommandResult
from onceward.memory.client import Memory
from onceward.memory.entity_names import command_line, issue_name
from onceward.memory.graph import Graph
from onceward.memory.graph.graph import UnwrittenGraph
from onceward.memory.models import WriteOrigin, WriteStatus
from onceward.memory.recorder import Recorded, Recorder

#: The source of captured items.
SOURCE: Final = "capture"
#: Limit for issues that are looked up in the memory.
RECALLED_MAX: Final = 10
_EVENTS_MAX: Final = 10
#: Characters that a tool's name cannot begin or end with.
_NAME_EDGES: Final = re.compile(r"^[\s@#]+|[\s@#]+$")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandContext:
    """The directory, repository and branch of a command, and the mode of its caller."""

    cwd: str
    mode: str = ""
    repo: str = ""
    branch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedIssue:
    """An issue of this run, and what is known about it."""

    name: str
    issue: Issue
    #: Whether this run recorded it first.
    is_new: bool
    #: The result of `recall`; for a new issue that of the most similar one with a fix, if any.
    known: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """The records of a run."""

    run: str
    command: str
    issues: tuple[CapturedIssue, ...]
    #: Outcomes of fixes that this run verified.
    verdicts: tuple[FixVerdict, ...]


def capture(memory: Memory, result: CommandResult, context: CommandContext) -> Captured:
    """Record a command that ran, and return what is known about its issues if possible."""
    found = _Capture(memory.graph, result, context)
    near = _result_or_none(lambda: _similar_issues(memory, found.issues)) or {}
    with memory.calls.begin("capture", INFO) as call:
        call.set_text_key(result.cmd)
        recorded = call.run(found.write)

    def known(name: str) -> dict[str, Any] | None:
        return _result_or_none(lambda: memory.recall(name))

    with_known = [
        replace(each, known=near.get(each.name) if each.is_new else known(each.name))
        for each in recorded.issues[:RECALLED_MAX]
    ]
    return replace(recorded, issues=(*with_known, *recorded.issues[RECALLED_MAX:]))


def _result_or_none(ask: Callable[[], T]) -> T | None:
    """Return the function's result; None on an error, because the record matters more."""
    try:
        return ask()
    except Exception:  # noqa: BLE001 - the call has logged it
        return None


def _similar_issues(memory: Memory, issues: Mapping[str, Issue]) -> dict[str, dict[str, Any]]:
    """Return what is known about issues similar to the new ones.

    Must be called before these are recorded, because each would match itself.
    """
    names = list(issues)[:RECALLED_MAX]
    known = {each.name for each in memory.graph.open(names).entities} if names else set()
    answers = {name: memory.recall(issues[name].message) for name in names if name not in known}
    return {name: answer for name, answer in answers.items() if answer["fixes"]}


class _Capture:
    """Records one run."""

    def __init__(self, graph: Graph, result: CommandResult, context: CommandContext) -> None:
        self._graph = graph
        self._tool = self._text(_tool_name(result.cmd))
        self._result = replace(result, cmd=self._text(result.cmd))
        self._context = CommandContext(
            cwd=self._text(context.cwd),
            mode=self._text(context.mode),
            repo=self._text(context.repo),
            branch=self._text(context.branch),
        )
        # Redact before truncation, which could split a secret.
        self._stdout, self._stderr = (
            graph.redactor.text(strip_control_characters(text))
            for text in (result.stdout, result.stderr)
        )
        #: By name, most important first.
        self.issues: dict[str, Issue] = {}
        for each in detect(self._stdout, self._stderr, result.exit_code):
            # A message of only times and hashes has no name.
            with suppress(InvalidArgument):
                name = issue_name(each.message, graph.redactor, is_warning=each.is_warning)
                self.issues.setdefault(name, each)

    def write(self) -> Captured:
        """Write all records; a retry verifies the fixes again."""
        try:
            return self._write(is_judging=True)
        except EntityMissing:  # A fix was deleted concurrently.
            return self._write(is_judging=False)

    def _text(self, text: str) -> str:
        """Return redacted, valid Unicode; arguments and paths may be any bytes."""
        return self._graph.redactor.text(text).encode(errors="replace").decode()

    def _seen(self, run: str) -> ObservedRun:
        return ObservedRun(
            run=run,
            cmd=self._result.cmd,
            cwd=self._context.cwd,
            repo=self._context.repo,
            started_at=self._result.started_at,
            ended_at=self._result.ended_at,
            is_success=self._result.exit_code == 0,
            issues=self.issues.keys(),
        )

    def _write(self, *, is_judging: bool) -> Captured:
        context = self._context
        gathering = UnwrittenGraph(self._graph, WriteStatus.CREATED)
        recorder = Recorder(
            gathering,
            origin=WriteOrigin(source=SOURCE),
            mode=context.mode,
            repo=context.repo,
            branch=context.branch,
        )
        run, command = self._record_run(recorder)
        for each in self.issues.values():
            self._record_issue(recorder, command.name, each)
        judged = verify_fixes(self._graph, self._seen(run.name)) if is_judging else ()
        for verdict in judged:
            self._record_verdict(recorder, verdict)
        written = self._graph.write(gathering.batch, WriteOrigin(source=SOURCE, run=run.name))
        new = {each.name for each in written.entities if each.status is WriteStatus.CREATED}
        if run.name not in new:
            # The run was recorded by an earlier attempt: its new issues are still new.
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
        result, context = self._result, self._context
        run = recorder.run(
            started_at=result.started_at,
            cmd=result.cmd,
            exit_code=result.exit_code,
            summary=self._summary(),
            success=result.exit_code == 0,
            duration_ms=result.duration_ms,
            key_events=[each.message for each in list(self.issues.values())[:_EVENTS_MAX]],
            tools=[self._tool],
            cwd=context.cwd,
            stdout_head=self._stdout,
            stderr_head=self._stderr,
            ts=result.ended_at,
        )
        # Without a duration, so that equal results are the same observation.
        command = recorder.command(
            result.cmd,
            exit_code=result.exit_code,
            cwd=context.cwd,
            stdout_head=self._stdout,
            stderr_head=self._stderr,
            run=run.name,
            ts=result.ended_at,
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
            ts=self._result.ended_at,
        )

    def _record_verdict(self, recorder: Recorder, verdict: FixVerdict) -> None:
        # The attempt makes otherwise equal outcomes distinct.
        attempt = f", attempt {verdict.attempt}" if verdict.attempt > 1 else ""
        recorder.outcome(
            verdict.fix,
            status=verdict.status,
            verification_method=f"command: {self._line()}{attempt}",
            duration_to_verify=verdict.duration_ms,
            ts=self._result.ended_at,
        )

    def _line(self) -> str:
        return command_line(self._result.cmd, self._graph.redactor)

    def _summary(self) -> str:
        warnings = sum(each.is_warning for each in self.issues.values())
        errors = len(self.issues) - warnings
        counts = [_count(errors, "error"), _count(warnings, "warning")]
        parts = [f"exit code {self._result.exit_code}", *filter(None, counts)]
        return f"{self._line()}: {', '.join(parts)}"


def _tool_name(cmd: str) -> str:
    """Return the name of the program in a command line; `unknown` if it has none."""
    try:
        first = shlex.split(cmd)[0]
    except ValueError:  # An unclosed quotation.
        first = cmd.split(maxsplit=1)[0]
    return _NAME_EDGES.sub("", PurePath(first).name) or "unknown"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}" if number else ""


# --- the checkout of a directory ------------------------------------------------------------------

#: Timeout of a git command.
GIT_SECONDS_MAX: Final = 5.0
#: `owner/name` at the end of a remote URL.
_OWNED: Final = re.compile(r"[:/]([^/:@\s]+/[^/:@\s]+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkout:
    """A repository and branch; empty if unknown."""

    #: `owner/name` of its remote, or else its path.
    repo: str = ""
    branch: str = ""


def checkout_of(directory: Path) -> Checkout:
    """Return the checkout of a directory; empty without git or outside a repository."""
    root = _git(directory, "rev-parse", "--show-toplevel")
    if not root:
        return Checkout()
    address = _git(directory, "remote", "get-url", "origin").removesuffix("/").removesuffix(".git")
    owned = _OWNED.search(address) if "://" in address or "@" in address else None
    return Checkout(
        repo=owned[1] if owned else root,
        branch=_git(directory, "symbolic-ref", "--quiet", "--short", "HEAD"),
    )


def current_root() -> str:
    """Return the root of the checkout of the current directory; empty if there is none."""
    try:
        here = Path.cwd()
    except OSError:  # Removed, or not accessible.
        return ""
    return next((str(e) for e in (here, *here.parents) if os.path.exists(e / ".git")), "")  # noqa: PTH110 - never raises


def _git(directory: Path, *words: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - fixed words
            ["git", *words],  # noqa: S607 - the git that the user has
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace").strip() if ran.returncode == 0 else ""

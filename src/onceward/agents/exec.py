"""Exec: wrap any program as an agent. Prompt in; changed files, tests and a verdict out.

Decides what a program's exit means for its command. Prompts, program runs, tree differences and
verdicts have their own modules.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts, program_lock
from onceward.agents.answer_cache import cache_folder
from onceward.agents.changed_files import (
    Baseline,
    BaselineStore,
    FileDigests,
    TreeDifference,
    read_tree,
)
from onceward.agents.exec_options import ACTIONS, ExecOptions
from onceward.agents.handler_results import HandlerResult
from onceward.agents.kit import Agent, Command
from onceward.agents.program_output import ProgramOutput
from onceward.agents.program_run import Program, ProgramResult, run_program
from onceward.agents.prompts import PromptRequest, as_argument, prompt
from onceward.agents.question_detection import BUILDER_LINES, JUDGE_LINES, find_question
from onceward.agents.review_verdicts import (
    NoVerdict,
    ReviewVerdict,
    read_verdict,
    verdict_instruction,
)
from onceward.errors import OncewardError
from onceward.keys import canonical_json
from onceward.keys.snapshot import DigestCache
from onceward.system import Clock, SystemClock
from onceward.system.redaction import Redactor

#: Exit code that asks for a retry later (EX_TEMPFAIL of sysexits.h).
EXIT_RETRY_LATER: Final = 75
#: Time reserved before the deadline to send the answer; at the deadline the agent is killed.
MARGIN_SECONDS: Final = 1.0
MARGIN_SHARE: Final = 0.1
#: Bytes of artifacts in an answer, which is one line. Receipts record the complete tree.
ARTIFACTS_BYTES_MAX: Final = 128 * 1024
NAMES_BYTES_MAX: Final = 16 * 1024
OUTPUT_CHARACTERS_MAX: Final = 4000
_ARTIFACT_BYTES: Final = 120
_FAILED_TEST: Final = re.compile(r"^FAILED (\S+)")


class ProgramFailed(OncewardError):
    """The program exited with a code that means failure."""

    code = "PROGRAM_FAILED"


class ProgramInterrupted(OncewardError):
    """The program was killed by a signal, or exited with 75 to ask for a retry."""

    code = "PROGRAM_INTERRUPTED"
    retryable = True


class TimedOut(OncewardError):
    """The program exceeded its timeout; its process group was killed."""

    code = "TIMED_OUT"
    retryable = True


class QuestionAsked(OncewardError):
    """The program changed nothing and asked a question, which cannot be answered while it runs."""

    code = "QUESTION_ASKED"


def program_error(
    line: Sequence[str], result: ProgramResult, seconds: float = 0.0
) -> OncewardError:
    """Return the error for a program that failed, was killed or exceeded `seconds`."""
    # Truncated: the last argument may be a long prompt.
    shown, code = shlex.join(line)[:200], result.exit_code
    if result.has_timed_out:
        message = f"{shown} was killed after {seconds:g} s, its timeout{_output_excerpt(result)}"
        fix = "make it faster, or raise --timeout and, in a run, limits.timeout_seconds"
        return TimedOut(message, fix=fix)
    if code is None:
        by = _signal_name(result.signal)
        return ProgramInterrupted(f"{shown} was killed by {by}{_output_excerpt(result)}")
    kind: type[OncewardError] = ProgramFailed
    if code == EXIT_RETRY_LATER:
        kind, shown = ProgramInterrupted, f"{shown} asks for a retry later: it"
    return kind(f"{shown} ended with exit code {code}{_output_excerpt(result)}")


def exec_agent(
    options: ExecOptions, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
) -> Agent:
    """Return an agent that runs the program for each of its commands."""
    env = dict(os.environ if environ is None else environ)
    fields = canonical_json(asdict(options))
    agent = Agent(options.type, version=hashlib.sha256(fields).hexdigest(), environ=env)
    runner = _ProgramRunner(options, agent, env, clock or SystemClock())
    agent.before_work = runner.begin
    agent.on(*(options.actions or ACTIONS[options.type]))(runner.work)
    return agent


class _ProgramRunner:
    """Handles commands by running the program."""

    def __init__(
        self, options: ExecOptions, agent: Agent, env: Mapping[str, str], clock: Clock
    ) -> None:
        self._options = options
        self._env = env
        self._clock = clock
        self._redactor = Redactor.from_environment(env)
        kept = cache_folder(options.type, agent.workspace, env)
        self._lock = kept / program_lock.FILE_NAME
        self._digests = DigestCache()
        self._cache, self._run_id = agent.cache, agent.run_id
        self._baselines = BaselineStore(kept / "begun", run=agent.run_id, digests=self._digests)

    def begin(self, command: Command) -> None:
        """Record the tree before the command, and before any of its files are restored."""
        expected = [each["path"] for each in command.expected_outputs]
        done = self._cache.stored(command.key, run=self._run_id)
        if done is None:
            self._baselines.get_or_record(command.key, command.workspace, also=expected)
            return
        self._baselines.record_redo(command.key, command.workspace, done, also=expected)
        # After the record: a kill between the two leaves a redo that begins again.
        self._cache.drop(command.key, run=self._run_id)

    def work(self, command: Command) -> HandlerResult:
        """Run the program, then the check; return the result."""
        expected = [each["path"] for each in command.expected_outputs]
        before = self._baselines.get_or_record(command.key, command.workspace, also=expected)
        # Earlier attempts may have changed files; a question counts only if this one did not.
        start = self._tree(command)
        result = self._run_program(command)
        self._raise_on_failure(result)
        now = self._tree(command)
        if self._options.type == "builder":
            if now == start:
                self._raise_on_question(result, BUILDER_LINES)
            return self._build_result(command, before, now)
        return self._review_result(command, result, before, now)

    def _build_result(self, command: Command, before: Baseline, now: FileDigests) -> HandlerResult:
        tests = self._tests(command, has_changed=before.is_changed(now))
        if self._options.check is not None:
            # Files that the check wrote are part of the tree, but not of the work.
            now = self._tree(command)
        paths, payload = self._changes(command, before.changes(now))
        # A person may have written some of them while the program ran.
        payload |= {"observed": True} if paths else {}
        return self._result("completed", {**payload, "tests": tests}, paths)

    def _review_result(
        self, command: Command, result: ProgramResult, before: Baseline, now: FileDigests
    ) -> HandlerResult:
        has_changed = before.is_changed(now)
        verdict = self._verdict(result, has_changed=has_changed)
        paths, payload = self._changes(command, before.changes(now))
        if paths and self._options.type == "reviewer":
            payload["observed"] = True  # A person may have made some changes: do not approve them.
        if verdict.comments:
            payload["comments"] = list(verdict.comments)
        if verdict.status == "updated" and not has_changed:
            payload["unchanged"] = True
        return self._result(verdict.status, payload, paths)

    def _verdict(self, result: ProgramResult, *, has_changed: bool) -> ReviewVerdict:
        form = self._options.verdict
        assert form is not None, self._options
        if form == "exit" and result.exit_code == 0 and not has_changed:
            self._raise_on_question(result, JUDGE_LINES)
        try:
            return read_verdict(
                form,
                self._options.type,
                exit_code=result.exit_code or 0,
                output=result.stdout if form != "exit" else "\n".join(result.tail),
                has_changed=has_changed,
            )
        except NoVerdict:
            if not has_changed:
                self._raise_on_question(result, BUILDER_LINES)
            raise

    def _raise_on_question(self, result: ProgramResult, last: int) -> None:
        """Raise QuestionAsked if the program's last lines ask a question."""
        question = find_question(result.tail, last=last)
        if question is not None:
            message = f"the program changed no file and asks: {question}"
            raise QuestionAsked(message, fix="answer it in the task's goal, and run the task again")

    def _tree(self, command: Command) -> FileDigests:
        expected = [each["path"] for each in command.expected_outputs]
        return read_tree(command.workspace, self._digests, also=expected)

    def _result(
        self, status: str, payload: Mapping[str, Any], paths: Sequence[str]
    ) -> HandlerResult:
        redacted = self._redactor.value(payload)
        assert isinstance(redacted, dict), status
        return HandlerResult(status=status, payload=redacted, artifacts=paths)

    # --- the program -----------------------------------------------------------------------------

    def _run_program(self, command: Command) -> ProgramResult:
        options, form = self._options, self._options.verdict
        verdict = verdict_instruction(form, options.type) if form else None
        request = PromptRequest(
            action=command.action,
            task_id=command.task_id,
            inputs=command.inputs,
            expected_outputs=command.expected_outputs,
            context=command.context,
            check=options.check,
            verdict=verdict,
        )
        text = prompt(request, options.template)
        line, stdin = options.program, None if options.is_argument else text
        if options.is_argument:
            line = (*line, as_argument(text, options.template))
        return self._run(command, line, stdin=stdin, seconds=options.seconds)

    def _run(
        self,
        command: Command,
        line: Sequence[str],
        *,
        stdin: str | None = None,
        seconds: float | None = None,
    ) -> ProgramResult:
        left = self._seconds_left(command, line)
        program = Program(
            command=line,
            directory=command.workspace,
            environment={**self._env, **_variables(command)},
            seconds=left if seconds is None else min(left, seconds),
            stdin=stdin,
            lock=self._lock,
        )
        # Only builders have progress events; the log has the complete output.
        emit = command.progress if self._options.type == "builder" else lambda _: None
        output = ProgramOutput(emit, self._redactor, self._clock)
        result = run_program(program, on_line=output.line, clock=self._clock)
        output.end()
        if result.has_timed_out:
            raise program_error(line, result, program.seconds)
        return result

    def _seconds_left(self, command: Command, line: Sequence[str]) -> float:
        """Return the seconds left until the answer must be sent."""
        left = (datetime.fromisoformat(command.deadline) - self._clock.now()).total_seconds()
        left -= min(MARGIN_SECONDS, left * MARGIN_SHARE)
        if left <= 0:
            shown = shlex.join(line)[:200]
            message = f"the command's deadline {command.deadline} has passed; {shown} was not run"
            raise TimedOut(message, fix="raise limits.timeout_seconds of this action")
        return left

    def _raise_on_failure(self, result: ProgramResult) -> None:
        """Raise if the program failed; with `--verdict exit`, exit code 1 is a verdict."""
        code = result.exit_code
        if code != 0 and not (code == 1 and self._options.verdict == "exit"):
            raise program_error(self._options.program, result)

    # --- the result ------------------------------------------------------------------------------

    def _tests(self, command: Command, *, has_changed: bool) -> dict[str, Any]:
        """Run the check; report `pass` only if it passes after a change."""
        check = self._options.check
        if check is None:
            required = sum(each["required"] for each in command.expected_outputs)
            unchecked = {"status": "unchecked" if has_changed else "unchanged"}
            return {**unchecked, "required_outputs": required} if required else unchecked
        result = self._run(command, ("/bin/sh", "-c", check))
        output = "\n".join(result.tail)[-OUTPUT_CHARACTERS_MAX:]
        passed = "pass" if has_changed else "unchanged"
        code = result.exit_code
        how = {"signal": _signal_name(result.signal)} if code is None else {"exit_code": code}
        tests: dict[str, Any] = {"status": passed if code == 0 else "fail", **how, "output": output}
        if tests["status"] == "fail" and self._options.allows_failures:
            failed = [found[1] for each in result.tail if (found := _FAILED_TEST.match(each))]
            tests["allowed_failures"] = failed or [check]
        return tests

    def _changes(
        self, command: Command, changed: TreeDifference
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the artifacts, and a payload with deletions and other changes."""
        expected = [each["path"] for each in command.expected_outputs]
        present = [path for path in expected if (command.workspace / path).is_file()]
        paths: list[str] = []
        others: list[str] = []
        bytes_left = ARTIFACTS_BYTES_MAX
        candidates = list(dict.fromkeys([*present, *changed.changed]))
        for number, path in enumerate(candidates):
            bytes_left -= len(path.encode()) + _ARTIFACT_BYTES
            if bytes_left < 0:
                others += candidates[number:]
                break
            # Links and invalid names are part of the tree but cannot be artifacts.
            (paths if _is_artifact(path, command.workspace) else others).append(path)
        payload: dict[str, Any] = {}
        for name, found in (("deleted", changed.deleted), ("other_changes", others)):
            if found:
                payload[name] = _bounded(found)
        return paths, payload


def _is_artifact(path: str, workspace: Path) -> bool:
    try:
        artifacts.describe(workspace, path)
    except OncewardError:
        return False
    return True


def _bounded(names: Sequence[str]) -> list[str]:
    """Return as many names as fit into a message, and the number of those left out."""
    kept: list[str] = []
    bytes_left = NAMES_BYTES_MAX
    for each in names:
        bytes_left -= len(each.encode()) + 3
        if bytes_left < 0:
            return [*kept, f"… and {len(names) - len(kept)} more"]
        kept.append(each)
    return kept


def _variables(command: Command) -> dict[str, str]:
    return {
        "ONCEWARD_TASK": command.task_id,
        "ONCEWARD_ACTION": command.action,
        "ONCEWARD_KEY": command.key,
        "ONCEWARD_ROUND": str(command.inputs.get("round", 1)),
    }


def _output_excerpt(result: ProgramResult) -> str:
    last = "\n".join(result.tail[-5:])[-500:]
    return f": {last}" if last else ""


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"

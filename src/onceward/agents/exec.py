"""Exec: any program as an agent. A prompt goes in; changed files, tests and a verdict come out.

Owns what a program's end means for the command it was run for. How prompts read, programs run,
trees differ and verdicts are said is each a module of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from onceward.agents import artifacts
from onceward.agents.cache import cache_folder
from onceward.agents.kit import Agent, Command
from onceward.agents.output import Output
from onceward.agents.programs import Ended, Program, run_program
from onceward.agents.prompts import Request, as_argument, prompt
from onceward.agents.questions import BUILDER_LINES, JUDGE_LINES, question_in
from onceward.agents.results import Result
from onceward.agents.trees import Beginnings, Difference, Tree, difference, tree
from onceward.agents.verdicts import FORMS, WORDS, NoVerdict, Verdict, instruction, read_verdict
from onceward.errors import InvalidArgument, OncewardError
from onceward.keys import canonical_json
from onceward.keys.snapshot import Digests
from onceward.seams import Clock, SystemClock
from onceward.secrets import Redactor

#: What an agent of each type is asked to do.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "builder": ("implement", "implement_changes"),
    "reviewer": ("review",),
    "spec_maintainer": ("update_spec",),
}
#: The exit code by which a program says that it may work later (EX_TEMPFAIL of sysexits.h).
EXIT_LATER: Final = 75
#: An answer has to be on its way before the deadline, or the orchestrator kills us first.
MARGIN_SECONDS: Final = 1.0
MARGIN_SHARE: Final = 0.1
#: Artifacts named in an answer, which is one line; the receipts know the whole tree anyway.
ARTIFACTS_BYTES_MAX: Final = 128 * 1024
NAMES_BYTES_MAX: Final = 16 * 1024
OUTPUT_CHARACTERS_MAX: Final = 4000
_ARTIFACT_BYTES: Final = 120
_FAILED_TEST: Final = re.compile(r"^FAILED (\S+)")


class ProgramFailed(OncewardError):
    """The program ended with an exit code that says it failed."""

    code = "PROGRAM_FAILED"


class ProgramInterrupted(OncewardError):
    """Something outside ended the program, or it says that it may work later; try again."""

    code = "PROGRAM_INTERRUPTED"
    retryable = True


class TimedOut(OncewardError):
    """The program took longer than it may, and was ended with all that it started."""

    code = "TIMED_OUT"
    retryable = True


class QuestionAsked(OncewardError):
    """The program did nothing and asked a question, which nobody can answer while it runs."""

    code = "QUESTION_ASKED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrapping:
    """How a program is made an agent."""

    type: str
    #: The program and its arguments.
    program: tuple[str, ...]
    #: Which commands it takes; those of its type unless said otherwise.
    actions: tuple[str, ...] = ()
    #: A prompt with placeholders; without, one that says all there is to say.
    template: str | None = None
    #: Whether the prompt is the program's last argument instead of its standard input.
    is_argument: bool = False
    #: A line for the shell that decides whether the tests pass; without, they are unchecked.
    check: str | None = None
    #: How a verdict is said; None for builders, who give none.
    verdict: str | None = None
    #: Whether failing tests are an answer that can be gone on with.
    allows_failures: bool = False
    #: How long the program may take; the command's deadline counts in any case.
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work before any command comes."""
        if self.type not in ACTIONS:
            _refuse("--type", f"{self.type!r} is no type of agent", ", ".join(ACTIONS))
        if not self.program or not self.program[0]:
            _refuse("program", "is missing", "a program and its arguments after `--`")
        judges = self.type in WORDS
        if judges and self.verdict not in FORMS:
            _refuse("--verdict", f"{self.verdict!r} is no form of verdict", ", ".join(FORMS))
        if judges and (self.check is not None or self.allows_failures):
            _refuse("--check", f"a {self.type} runs no check, it judges", "--verdict exit")
        if not judges and self.verdict is not None:
            _refuse("--verdict", "a builder gives no verdict", "--check, or another --type")
        if self.seconds is not None and self.seconds <= 0:
            _refuse("--timeout", "must be more than 0", "seconds, such as 300")


def _refuse(option: str, problem: str, right: str) -> NoReturn:
    message = f"{option}: {problem}"
    raise InvalidArgument(message, fix=f"say {right}", field=option.lstrip("-"))


def failure(line: Sequence[str], ended: Ended, seconds: float = 0.0) -> OncewardError:
    """Return what it means that a program ended like this, after at most so many seconds."""
    # A prompt as its last word would be a page.
    shown, code = shlex.join(line)[:200], ended.exit_code
    if ended.has_timed_out:
        return TimedOut(f"{shown} took longer than {seconds:.0f} s{_said(ended)}")
    if code is None:
        by = _signal_name(ended.signal)
        return ProgramInterrupted(f"{shown} was ended by {by}{_said(ended)}")
    kind = ProgramInterrupted if code == EXIT_LATER else ProgramFailed
    return kind(f"{shown} ended with exit code {code}{_said(ended)}")


def exec_agent(
    wrapping: Wrapping, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
) -> Agent:
    """Return an agent that runs the program for each of its commands."""
    env = dict(os.environ if environ is None else environ)
    options = canonical_json(asdict(wrapping))
    agent = Agent(wrapping.type, version=hashlib.sha256(options).hexdigest(), environ=env)
    worker = _Worker(wrapping, agent, env, clock or SystemClock())
    agent.on(*(wrapping.actions or ACTIONS[wrapping.type]))(worker.work)
    return agent


class _Worker:
    """Does commands by running the program."""

    def __init__(
        self, wrapping: Wrapping, agent: Agent, env: Mapping[str, str], clock: Clock
    ) -> None:
        self._wrapping = wrapping
        self._env = env
        self._clock = clock
        self._redactor = Redactor.from_environment(env)
        kept = cache_folder(wrapping.type, agent.workspace, env)
        self._lock = kept / "program.lock"
        self._digests = Digests()
        self._beginnings = Beginnings(kept / "begun", run=agent.run_id, digests=self._digests)

    def work(self, command: Command) -> Result:
        """Run the program, then the check, and say what came of it."""
        wanted = [each["path"] for each in command.expected_outputs]
        before = self._beginnings.of(command.key, command.workspace, also=wanted)
        ended = self._run_program(command)
        self._refuse_failure(ended)
        changed = difference(before, self._tree(command))
        if self._wrapping.type == "builder":
            return self._built(command, ended, before, changed)
        return self._judged(command, ended, changed)

    def _built(self, command: Command, ended: Ended, before: Tree, changed: Difference) -> Result:
        if not changed:
            self._refuse_question(ended, BUILDER_LINES)
        tests = self._tests(command, has_changed=bool(changed))
        if self._wrapping.check is not None:
            # What the check wrote is no work of the program, but part of what is there now.
            changed = difference(before, self._tree(command))
        paths, payload = self._changes(command, changed)
        return self._result("completed", {**payload, "tests": tests}, paths)

    def _judged(self, command: Command, ended: Ended, changed: Difference) -> Result:
        verdict = self._verdict(ended, has_changed=bool(changed))
        paths, payload = self._changes(command, changed)
        if verdict.comments:
            payload["comments"] = list(verdict.comments)
        if verdict.status == "updated" and not changed:
            payload["unchanged"] = True
        return self._result(verdict.status, payload, paths)

    def _verdict(self, ended: Ended, *, has_changed: bool) -> Verdict:
        form = self._wrapping.verdict
        assert form is not None, self._wrapping
        if form == "exit" and ended.exit_code == 0 and not has_changed:
            self._refuse_question(ended, JUDGE_LINES)
        try:
            return read_verdict(
                form,
                self._wrapping.type,
                exit_code=ended.exit_code or 0,
                output=ended.stdout if form != "exit" else "\n".join(ended.tail),
                has_changed=has_changed,
            )
        except NoVerdict:
            if not has_changed:
                self._refuse_question(ended, BUILDER_LINES)
            raise

    def _refuse_question(self, ended: Ended, last: int) -> None:
        """Raise for a program that asked something instead of doing anything."""
        question = question_in(ended.tail, last=last)
        if question is not None:
            message = f"the program changed no file and asks: {question}"
            raise QuestionAsked(message, fix="answer it in the task's goal, and run the task again")

    def _tree(self, command: Command) -> Tree:
        wanted = [each["path"] for each in command.expected_outputs]
        return tree(command.workspace, self._digests, also=wanted)

    def _result(self, status: str, payload: Mapping[str, Any], paths: Sequence[str]) -> Result:
        redacted = self._redactor.value(payload)
        assert isinstance(redacted, dict), status
        return Result(status=status, payload=redacted, artifacts=paths)

    # --- the program -----------------------------------------------------------------------------

    def _run_program(self, command: Command) -> Ended:
        wrapping = self._wrapping
        request = Request(
            action=command.action,
            task_id=command.task_id,
            inputs=command.inputs,
            expected_outputs=command.expected_outputs,
            context=command.context,
            check=wrapping.check,
            verdict=instruction(wrapping.verdict, wrapping.type) if wrapping.verdict else None,
        )
        text = prompt(request, wrapping.template)
        line, stdin = wrapping.program, None if wrapping.is_argument else text
        if wrapping.is_argument:
            line = (*line, as_argument(text, wrapping.template))
        return self._run(command, line, stdin=stdin, seconds=wrapping.seconds)

    def _run(
        self,
        command: Command,
        line: Sequence[str],
        *,
        stdin: str | None = None,
        seconds: float | None = None,
    ) -> Ended:
        left = self._seconds_left(command)
        program = Program(
            command=line,
            directory=command.workspace,
            environment={**self._env, **_variables(command)},
            seconds=left if seconds is None else min(left, seconds),
            stdin=stdin,
            lock=self._lock,
        )
        # Only a builder has events for it; all of it is in the log anyway.
        tell = command.progress if self._wrapping.type == "builder" else lambda _: None
        output = Output(tell, self._redactor, self._clock)
        ended = run_program(program, on_line=output.line, clock=self._clock)
        output.end()
        if ended.has_timed_out:
            raise failure(line, ended, program.seconds)
        return ended

    def _seconds_left(self, command: Command) -> float:
        """Return how long there is until an answer has to be on its way."""
        left = (datetime.fromisoformat(command.deadline) - self._clock.now()).total_seconds()
        left -= min(MARGIN_SECONDS, left * MARGIN_SHARE)
        if left <= 0:
            message = f"the deadline {command.deadline} has passed"
            raise TimedOut(message)
        return left

    def _refuse_failure(self, ended: Ended) -> None:
        """Raise for a program that failed; for one that judges by its exit code, 1 is a word."""
        code = ended.exit_code
        if code != 0 and not (code == 1 and self._wrapping.verdict == "exit"):
            raise failure(self._wrapping.program, ended)

    # --- what came of it -------------------------------------------------------------------------

    def _tests(self, command: Command, *, has_changed: bool) -> dict[str, Any]:
        """Run the check; only one that passes after a change is reported as passed."""
        check = self._wrapping.check
        if check is None:
            required = sum(each["required"] for each in command.expected_outputs)
            unchecked = {"status": "unchecked" if has_changed else "unchanged"}
            return {**unchecked, "required_outputs": required} if required else unchecked
        ended = self._run(command, ("/bin/sh", "-c", check))
        output = "\n".join(ended.tail)[-OUTPUT_CHARACTERS_MAX:]
        passed = "pass" if has_changed else "unchanged"
        tests: dict[str, Any] = {"status": passed if ended.exit_code == 0 else "fail"}
        if ended.exit_code is None:
            tests["signal"] = _signal_name(ended.signal)
        else:
            tests["exit_code"] = ended.exit_code
        tests["output"] = output
        if tests["status"] == "fail" and self._wrapping.allows_failures:
            failed = [found[1] for each in ended.tail if (found := _FAILED_TEST.match(each))]
            tests["allowed_failures"] = failed or [check]
        return tests

    def _changes(self, command: Command, changed: Difference) -> tuple[list[str], dict[str, Any]]:
        """Return the artifacts, and what else happened to files."""
        wanted = [each["path"] for each in command.expected_outputs]
        present = [path for path in wanted if (command.workspace / path).is_file()]
        paths: list[str] = []
        others: list[str] = []
        room = ARTIFACTS_BYTES_MAX
        candidates = list(dict.fromkeys([*present, *changed.changed]))
        for number, path in enumerate(candidates):
            room -= len(path.encode()) + _ARTIFACT_BYTES
            if room < 0:
                others += candidates[number:]
                break
            # Links and odd names are part of the tree, but no file to vouch for.
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
    """Return as many names as a message has room for, and how many more there are."""
    kept: list[str] = []
    room = NAMES_BYTES_MAX
    for each in names:
        room -= len(each.encode()) + 3
        if room < 0:
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


def _said(ended: Ended) -> str:
    last = "\n".join(ended.tail[-5:])[-500:]
    return f": {last}" if last else ""


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"

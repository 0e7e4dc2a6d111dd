"""Exec options: how to run a program as an agent, validated before any command arrives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from onceward.agents.review_verdicts import FORMS, VERDICTS
from onceward.errors import InvalidArgument

#: The actions of each type of agent.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "builder": ("implement", "implement_changes"),
    "reviewer": ("review",),
    "spec_maintainer": ("update_spec",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecOptions:
    """How to run a program as an agent."""

    type: str
    #: The program and its arguments.
    program: tuple[str, ...]
    #: The actions it handles. Default: all actions of its type.
    actions: tuple[str, ...] = ()
    #: A prompt with placeholders. Default: a prompt with everything about the command.
    template: str | None = None
    #: Whether the prompt is the program's last argument instead of its standard input.
    is_argument: bool = False
    #: Shell command that decides whether the tests pass. Without it they are unchecked.
    check: str | None = None
    #: The form of the verdict; None for builders, which give none.
    verdict: str | None = None
    #: Whether the run continues when the tests fail.
    allows_failures: bool = False
    #: Timeout of the program. The command's deadline always applies too.
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Reject invalid options at start, before any command arrives."""
        if self.type not in ACTIONS:
            _refuse("--type", f"{self.type!r} is not a type of agent", _one_of(ACTIONS))
        if not self.program or not self.program[0]:
            _refuse("program", "is missing or empty", "pass a program and its arguments after `--`")
        judges = self.type in VERDICTS
        if judges and self.verdict not in FORMS:
            problem = f"{self.verdict!r} is not a verdict format, and a {self.type} needs one"
            _refuse("--verdict", problem, _one_of(FORMS))
        if judges and self.check is not None:
            _refuse("--check", f"a {self.type} gives a verdict and runs no check", "omit --check")
        if judges and self.allows_failures:
            _refuse("--allow-failures", f"a {self.type} runs no check", "omit --allow-failures")
        if not judges and self.verdict is not None:
            fix = "omit --verdict, or pass --type reviewer"
            _refuse("--verdict", "a builder gives no verdict", fix)
        if self.seconds is not None and not self.seconds > 0:
            problem = f"must be more than 0, not {self.seconds:g}"
            _refuse("--timeout", problem, "pass a number of seconds, such as 300")


def _one_of(words: Iterable[str]) -> str:
    return f"pass one of {', '.join(words)}"


def _refuse(option: str, problem: str, fix: str) -> NoReturn:
    message = f"{option}: {problem}; the agent was not started"
    raise InvalidArgument(message, fix=fix, field=option.lstrip("-"))

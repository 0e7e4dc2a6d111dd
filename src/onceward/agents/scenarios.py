"""Scenarios: read and validate the files that define what a scripted agent does, step by step.

`script_agent.py` and `chat_script.py` run the steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from onceward.errors import InvalidArgument
from onceward.system import read_user_file

DELAY_SECONDS_MAX: Final = 86_400.0
FLOOD_LINES_MAX: Final = 10_000_000
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
ACTIONS: Final = ("implement", "implement_changes", "review", "update_spec")
STATUSES: Final = ("approved", "changes_requested", "updated", "no_changes_needed")
FLOOD_TARGETS: Final = ("stdout", "stderr", "log", "progress")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
ANSWER_FIELDS: Final = (
    *("status", "tests", "allowed_failures", "comments", "payload", "artifacts"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScenarioStep:
    """One step of a scripted agent."""

    kind: str
    value: Any
    #: Whether it runs only when a command arrives for the first time.
    is_once: bool
    #: Its path in the file, such as `actions.implement[2]`.
    location: str


#: The steps of each round; the last entry also applies to all later rounds.
RoundSteps = tuple[tuple[ScenarioStep, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRule:
    """The steps of a chat agent for messages that contain a text."""

    #: None matches any message.
    when: str | None
    steps: tuple[ScenarioStep, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """The steps for each action, for actions of single tasks, and for chats."""

    actions: Mapping[str, RoundSteps]
    tasks: Mapping[str, Mapping[str, RoundSteps]]
    #: The first matching rule applies.
    chat: tuple[ChatRule, ...] = ()
    #: A file that records which work was started and completed.
    count: str | None = None

    def steps(self, *, task_id: str, action: str, round: int) -> tuple[ScenarioStep, ...]:  # noqa: A002 - the protocol's word
        """Return the steps for a command; empty if the scenario defines none."""
        rounds = self.tasks.get(task_id, {}).get(action) or self.actions.get(action) or ((),)
        return rounds[min(round, len(rounds)) - 1]

    def chat_steps(self, text: str) -> tuple[ScenarioStep, ...]:
        """Return the steps for a chat message; empty if no rule matches."""
        fitting = (each.steps for each in self.chat if each.when is None or each.when in text)
        return next(fitting, ())


def by_round(given: Any, round: int) -> Any:  # noqa: A002, ANN401 - the protocol's word, any JSON value
    """Return the value for a round: of a list one per round, the last also for later rounds."""
    return given[min(round, len(given)) - 1] if isinstance(given, list) else given


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file; InvalidArgument names the place of an error and how to fix it."""
    text = read_user_file(path, fix="pass a scenario file that can be read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        message = f"{path} is not valid JSON: {exc}"
        fix = 'correct the file; it holds one object, such as {"actions": {}}'
        raise InvalidArgument(message, fix=fix, path=str(path)) from exc
    return parse_scenario(value, name=path.name)


def parse_scenario(value: object, *, name: str = "scenario") -> Scenario:
    """Validate a scenario."""
    top = _fields(value, name, ("actions", "tasks", "chat", "count"))
    count = top.get("count")
    if count is not None:
        _text(count, f"{name}: count")
    tasks = _object(top.get("tasks", {}), f"{name}: tasks")
    return Scenario(
        actions=_actions(top.get("actions", {}), f"{name}: actions"),
        tasks={task: _actions(each, f"{name}: tasks.{task}") for task, each in tasks.items()},
        chat=_rules(top.get("chat", []), f"{name}: chat"),
        count=count,
    )


def _actions(value: object, location: str) -> dict[str, RoundSteps]:
    found = _object(value, location)
    for action in found:
        if action not in ACTIONS:
            _refuse(f"{location}.{action}", "is not an action", f"use one of {', '.join(ACTIONS)}")
    return {action: _rounds(each, f"{location}.{action}") for action, each in found.items()}


def _rounds(value: object, location: str) -> RoundSteps:
    if isinstance(value, Mapping):
        rounds = _array(_fields(value, location, ("rounds",)).get("rounds"), f"{location}.rounds")
        if not rounds:
            _refuse(f"{location}.rounds", "is empty", "give the steps of at least one round")
        return tuple(
            _steps(each, f"{location}.rounds[{number}]") for number, each in enumerate(rounds)
        )
    return (_steps(value, location),)


def _rules(value: object, location: str) -> tuple[ChatRule, ...]:
    if not isinstance(value, Mapping):
        return (ChatRule(when=None, steps=_steps(value, location, _CHAT_CHECKS)),)
    rules = _array(_fields(value, location, ("rules",)).get("rules"), f"{location}.rules")
    return tuple(_rule(each, f"{location}.rules[{number}]") for number, each in enumerate(rules))


def _rule(value: object, location: str) -> ChatRule:
    found = _fields(value, location, ("when", "do"), required=("do",))
    if "when" in found:
        _check_spoken_text(found["when"], f"{location}.when")
    return ChatRule(
        when=found.get("when"), steps=_steps(found["do"], f"{location}.do", _CHAT_CHECKS)
    )


def _steps(value: object, location: str, checks: _Checks | None = None) -> tuple[ScenarioStep, ...]:
    return tuple(
        _step(each, f"{location}[{number}]", checks or _CHECKS)
        for number, each in enumerate(_array(value, location))
    )


def _step(value: object, location: str, checks: _Checks) -> ScenarioStep:
    found = _object(value, location)
    kinds = [name for name in found if name != "once"]
    known = f"use one of {', '.join(checks)}, with or without once"
    if len(kinds) != 1:
        _refuse(location, f"must have exactly one step, not {len(kinds)}", known)
    (kind,) = kinds
    if kind not in checks:
        _refuse(f"{location}.{kind}", "is not a step", known)
    once = found.get("once", False)
    if not isinstance(once, bool):
        _refuse(
            f"{location}.once", f"must be true or false, not {once!r:.60}", 'write "once": true'
        )
    checks[kind](found[kind], f"{location}.{kind}")
    # Without the file name, so that the file can be moved.
    return ScenarioStep(
        kind=kind, value=found[kind], is_once=once, location=location.partition(": ")[2] or location
    )


# --- validation of each kind of step -------------------------------------------------------------


def _check_answer(value: object, location: str) -> None:
    given = value if isinstance(value, list) else [value]
    if not given:
        _refuse(location, "is empty", "give at least one answer")
    for number, each in enumerate(given):
        at = f"{location}[{number}]" if isinstance(value, list) else location
        found = _fields(each, at, ANSWER_FIELDS)
        if "status" in found:
            _choice(found["status"], f"{at}.status", STATUSES)
        tests = found.get("tests", "unchecked")
        if not isinstance(tests, Mapping):
            _choice(tests, f"{at}.tests", ("pass", "fail", "unchecked", "unchanged"))
        for name in ("allowed_failures", "comments", "artifacts"):
            _array(found.get(name, []), f"{at}.{name}")
        _object(found.get("payload", {}), f"{at}.payload")


def _check_write(value: object, location: str) -> None:
    found = _fields(value, location, ("path", "content"), required=("path", "content"))
    _text(found["path"], f"{location}.path")
    for each in found["content"] if isinstance(found["content"], list) else [found["content"]]:
        if not isinstance(each, str):
            problem = f"must be text or a list of texts, one for each round, not {each!r:.60}"
            _refuse(f"{location}.content", problem, "write it in quotes")


def _check_error(value: object, location: str) -> None:
    found = _fields(value, location, ("code", "message", "retryable"), required=("code", "message"))
    if not isinstance(found["code"], str) or not _CODE.fullmatch(found["code"]):
        problem = f"must be 1 to 64 capitals, digits and underscores, not {found['code']!r:.70}"
        _refuse(f"{location}.code", problem, "begin with a capital, such as RATE_LIMITED")
    _text(found["message"], f"{location}.message")
    is_retryable = found.get("retryable", False)
    if not isinstance(is_retryable, bool):
        problem = f"must be true or false, not {is_retryable!r:.60}"
        _refuse(f"{location}.retryable", problem, 'write "retryable": true')


def _check_flood(value: object, location: str) -> None:
    found = _fields(value, location, ("lines", "bytes", "to"), required=("lines", "bytes"))
    _number(found["lines"], f"{location}.lines", FLOOD_LINES_MAX)
    _number(found["bytes"], f"{location}.bytes", LINE_BYTES_MAX)
    _choice(found.get("to", "stdout"), f"{location}.to", FLOOD_TARGETS)


def _check_crash(value: object, location: str) -> None:
    is_exit = isinstance(value, str) and value.startswith("exit:") and value[5:].isdecimal()
    if value != "kill" and not (is_exit and int(str(value)[5:]) <= 255):
        problem = f"must be kill or exit:0 to exit:255, not {value!r:.60}"
        _refuse(location, problem, 'write "kill" or "exit:3"')


def _check_delay(value: object, location: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= float(str(value)) <= DELAY_SECONDS_MAX:
        problem = f"must be seconds from 0 to {DELAY_SECONDS_MAX:.0f}, not {value!r:.60}"
        _refuse(location, problem, "write a number such as 0.5, without quotes")


def _check_true(value: object, location: str) -> None:
    if value is not True:
        name = location.rpartition(".")[2]
        problem = f"must be true, not {value!r:.60}"
        _refuse(location, problem, f'write "{name}": true, or remove the step')


def _check_spoken_text(value: object, location: str) -> None:
    """Check a chat text, which may contain any characters."""
    if not isinstance(value, str) or not value:
        problem = f"must be non-empty text, not {value!r:.60}"
        _refuse(location, problem, "write text in quotes")


def _check_reply(value: object, location: str) -> None:
    if isinstance(value, Mapping):
        found = _fields(value, location, ("text", "key"), required=("text",))
        _check_spoken_text(found["text"], f"{location}.text")
        if "key" in found:
            _text(found["key"], f"{location}.key")
    else:
        _check_spoken_text(value, location)


def _check_line(value: object, location: str) -> None:
    if not isinstance(value, str):
        _refuse(location, f"must be text, not {value!r:.60}", "write it in quotes")


def _text(value: object, location: str) -> None:
    if not isinstance(value, str) or not value or "\0" in value:
        problem = f"must be non-empty text without NUL characters, not {value!r:.60}"
        _refuse(location, problem, "write such text in quotes")


def _number(value: object, location: str, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        problem = f"must be a whole number from 1 to {largest}, not {value!r:.60}"
        _refuse(location, problem, "write such a number, without quotes")


def _check_oversized(value: object, location: str) -> None:
    _number(value, location, LINE_BYTES_MAX)


def _check_send(value: object, location: str) -> None:
    _object(value, location)


_Checks = Mapping[str, Callable[[object, str], None]]
#: Steps of every scripted agent.
_COMMON_CHECKS: Final[_Checks] = {
    "write": _check_write,
    "delay": _check_delay,
    "log": _text,
    "error": _check_error,
    "flood": _check_flood,
    "crash": _check_crash,
    "garbage": _check_line,
    "silence": _check_true,
    "oversized": _check_oversized,
    "send": _check_send,
    "count": _text,
}
_CHECKS: Final[_Checks] = {"answer": _check_answer, "progress": _text, **_COMMON_CHECKS}
_CHAT_CHECKS: Final[_Checks] = {
    "reply": _check_reply,
    "echo": _check_true,
    "follow_ups": _check_true,
    "fail": _text,
    "ignore": _check_true,
    **_COMMON_CHECKS,
}


# --- shapes --------------------------------------------------------------------------------------


def _object(value: object, location: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(location, f"must be an object, not {value!r:.60}", "write { … }")
    return value


def _array(value: object, location: str) -> Sequence[Any]:
    if not isinstance(value, list):
        _refuse(location, f"must be a list, not {value!r:.60}", "write [ … ]")
    return value


def _fields(
    value: object, location: str, known: Sequence[str], required: Sequence[str] = ()
) -> Mapping[str, Any]:
    found = _object(value, location)
    for name in found:
        if name not in known:
            _refuse(
                f"{location}.{name}", "is not known here", f"remove it, or use {', '.join(known)}"
            )
    for name in required:
        if name not in found:
            _refuse(f"{location}.{name}", "is missing", f"add {name}")
    return found


def _choice(value: object, location: str, words: Sequence[str]) -> None:
    if value not in words:
        problem = f"must be one of {', '.join(words)}, not {value!r:.60}"
        _refuse(location, problem, "write one of them, in quotes")


def _refuse(location: str, problem: str, fix: str) -> NoReturn:
    message = f"{location} {problem}"
    raise InvalidArgument(message, fix=fix, field=location)

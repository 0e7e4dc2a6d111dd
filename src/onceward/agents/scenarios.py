"""Scenarios: files that say what a scripted agent does, step by step, and what is wrong in them.

Pure: reads and checks. Playing the steps is `script.py`'s business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from onceward.errors import InvalidArgument
from onceward.seams import read_named

DELAY_SECONDS_MAX: Final = 86_400.0
FLOOD_LINES_MAX: Final = 10_000_000
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
ACTIONS: Final = ("implement", "implement_changes", "review", "update_spec")
STATUSES: Final = ("approved", "changes_requested", "updated", "no_changes_needed")
FLOODED: Final = ("stdout", "stderr", "log", "progress")
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
ANSWER_FIELDS: Final = (
    *("status", "tests", "allowed_failures", "comments", "payload", "artifacts"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing that a scripted agent does."""

    kind: str
    value: Any
    #: Whether it happens only the first time that a command comes.
    is_once: bool
    #: Where it stands in the file, such as `actions.implement[2]`.
    place: str


#: The steps of each round; the last are those of every later round too.
Rounds = tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a chat agent does with messages that hold a word."""

    #: None is any message.
    when: str | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What is done for each action, for each action of single tasks, and in chats."""

    actions: Mapping[str, Rounds]
    tasks: Mapping[str, Mapping[str, Rounds]]
    #: The first whose word is in the text counts.
    chat: tuple[Rule, ...] = ()
    #: A file that counts what was started and completed.
    count: str | None = None

    def steps(self, *, task_id: str, action: str, round: int) -> tuple[Step, ...]:  # noqa: A002 - the protocol's word
        """Return what to do; nothing when the scenario does not say."""
        rounds = self.tasks.get(task_id, {}).get(action) or self.actions.get(action) or ((),)
        return rounds[min(round, len(rounds)) - 1]

    def chat_steps(self, text: str) -> tuple[Step, ...]:
        """Return what to do when this is said; nothing when the scenario does not say."""
        fitting = (each.steps for each in self.chat if each.when is None or each.when in text)
        return next(fitting, ())


def by_round(given: Any, round: int) -> Any:  # noqa: A002, ANN401 - the protocol's word, any JSON value
    """Return a value that may be a list, one for each round, the last for all that follow."""
    return given[min(round, len(given)) - 1] if isinstance(given, list) else given


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file, or raise what is wrong in it, where, and what would be right."""
    text = read_named(path, fix="name a scenario file that can be read")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        message = f"{path} is not JSON: {exc}"
        raise InvalidArgument(message, fix="correct the file", path=str(path)) from exc
    return parse_scenario(value, name=path.name)


def parse_scenario(value: object, *, name: str = "scenario") -> Scenario:
    """Check a whole scenario."""
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


def _actions(value: object, place: str) -> dict[str, Rounds]:
    found = _object(value, place)
    for action in found:
        if action not in ACTIONS:
            _refuse(f"{place}.{action}", "is no action", f"say one of {', '.join(ACTIONS)}")
    return {action: _rounds(each, f"{place}.{action}") for action, each in found.items()}


def _rounds(value: object, place: str) -> Rounds:
    if isinstance(value, Mapping):
        rounds = _array(_fields(value, place, ("rounds",)).get("rounds"), f"{place}.rounds")
        if not rounds:
            _refuse(f"{place}.rounds", "is empty", "give the steps of at least one round")
        return tuple(
            _steps(each, f"{place}.rounds[{number}]") for number, each in enumerate(rounds)
        )
    return (_steps(value, place),)


def _rules(value: object, place: str) -> tuple[Rule, ...]:
    if not isinstance(value, Mapping):
        return (Rule(when=None, steps=_steps(value, place, _CHAT_CHECKS)),)
    rules = _array(_fields(value, place, ("rules",)).get("rules"), f"{place}.rules")
    return tuple(_rule(each, f"{place}.rules[{number}]") for number, each in enumerate(rules))


def _rule(value: object, place: str) -> Rule:
    found = _fields(value, place, ("when", "do"), needed=("do",))
    if "when" in found:
        _check_said(found["when"], f"{place}.when")
    return Rule(when=found.get("when"), steps=_steps(found["do"], f"{place}.do", _CHAT_CHECKS))


def _steps(value: object, place: str, checks: _Checks | None = None) -> tuple[Step, ...]:
    return tuple(
        _step(each, f"{place}[{number}]", checks or _CHECKS)
        for number, each in enumerate(_array(value, place))
    )


def _step(value: object, place: str, checks: _Checks) -> Step:
    found = _object(value, place)
    kinds = [name for name in found if name != "once"]
    known = f"say one of {', '.join(checks)}, with or without once"
    if len(kinds) != 1:
        _refuse(place, f"must be one step, but names {len(kinds)}", known)
    (kind,) = kinds
    if kind not in checks:
        _refuse(f"{place}.{kind}", "is no step", known)
    once = found.get("once", False)
    if not isinstance(once, bool):
        _refuse(f"{place}.once", "must be true or false", 'say "once": true')
    checks[kind](found[kind], f"{place}.{kind}")
    # The name of the file is no part of where a step stands, so that it can be moved.
    return Step(kind=kind, value=found[kind], is_once=once, place=place.partition(": ")[2] or place)


# --- what each kind of step takes ----------------------------------------------------------------


def _check_answer(value: object, place: str) -> None:
    given = value if isinstance(value, list) else [value]
    if not given:
        _refuse(place, "is empty", "give at least one answer")
    for number, each in enumerate(given):
        at = f"{place}[{number}]" if isinstance(value, list) else place
        found = _fields(each, at, ANSWER_FIELDS)
        if "status" in found:
            _choice(found["status"], f"{at}.status", STATUSES)
        tests = found.get("tests", "unchecked")
        if not isinstance(tests, Mapping):
            _choice(tests, f"{at}.tests", ("pass", "fail", "unchecked", "unchanged"))
        for name in ("allowed_failures", "comments", "artifacts"):
            _array(found.get(name, []), f"{at}.{name}")
        _object(found.get("payload", {}), f"{at}.payload")


def _check_write(value: object, place: str) -> None:
    found = _fields(value, place, ("path", "content"), needed=("path", "content"))
    _text(found["path"], f"{place}.path")
    for each in found["content"] if isinstance(found["content"], list) else [found["content"]]:
        if not isinstance(each, str):
            _refuse(f"{place}.content", "must be text", "give text, or a list of texts by round")


def _check_error(value: object, place: str) -> None:
    found = _fields(value, place, ("code", "message", "retryable"), needed=("code", "message"))
    if not isinstance(found["code"], str) or not _CODE.fullmatch(found["code"]):
        _refuse(f"{place}.code", "is no code", "give capitals such as RATE_LIMITED")
    _text(found["message"], f"{place}.message")
    if not isinstance(found.get("retryable", False), bool):
        _refuse(f"{place}.retryable", "must be true or false", 'say "retryable": true')


def _check_flood(value: object, place: str) -> None:
    found = _fields(value, place, ("lines", "bytes", "to"), needed=("lines", "bytes"))
    _number(found["lines"], f"{place}.lines", FLOOD_LINES_MAX)
    _number(found["bytes"], f"{place}.bytes", LINE_BYTES_MAX)
    _choice(found.get("to", "stdout"), f"{place}.to", FLOODED)


def _check_crash(value: object, place: str) -> None:
    is_exit = isinstance(value, str) and value.startswith("exit:") and value[5:].isdecimal()
    if value != "kill" and not (is_exit and int(str(value)[5:]) <= 255):
        _refuse(place, "is no way to crash", 'say "kill" or "exit:3"')


def _check_delay(value: object, place: str) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= float(str(value)) <= DELAY_SECONDS_MAX:
        _refuse(place, "is no time", f"give seconds from 0 to {DELAY_SECONDS_MAX:.0f}")


def _check_true(value: object, place: str) -> None:
    if value is not True:
        name = place.rpartition(".")[2]
        _refuse(place, "must be true", f'say "{name}": true, or leave the step out')


def _check_said(value: object, place: str) -> None:
    """Check what people or agents say, in which anything may stand."""
    if not isinstance(value, str) or not value:
        _refuse(place, "must be text that is not empty", "give a string")


def _check_reply(value: object, place: str) -> None:
    if isinstance(value, Mapping):
        found = _fields(value, place, ("text", "key"), needed=("text",))
        _check_said(found["text"], f"{place}.text")
        if "key" in found:
            _text(found["key"], f"{place}.key")
    else:
        _check_said(value, place)


def _check_line(value: object, place: str) -> None:
    if not isinstance(value, str):
        _refuse(place, "must be text", "give a string")


def _text(value: object, place: str) -> None:
    if not isinstance(value, str) or not value or "\0" in value:
        _refuse(place, "must be text that is not empty", "give a string")


def _number(value: object, place: str, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        _refuse(place, "must be a whole number", f"give one from 1 to {largest}")


def _check_oversized(value: object, place: str) -> None:
    _number(value, place, LINE_BYTES_MAX)


def _check_send(value: object, place: str) -> None:
    _object(value, place)


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


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(place, "must be an object", "write { … }")
    return value


def _array(value: object, place: str) -> Sequence[Any]:
    if not isinstance(value, list):
        _refuse(place, "must be a list", "write [ … ]")
    return value


def _fields(
    value: object, place: str, known: Sequence[str], needed: Sequence[str] = ()
) -> Mapping[str, Any]:
    found = _object(value, place)
    for name in found:
        if name not in known:
            _refuse(f"{place}.{name}", "is not known here", f"say {', '.join(known)}")
    for name in needed:
        if name not in found:
            _refuse(f"{place}.{name}", "is missing", f"add {name}")
    return found


def _choice(value: object, place: str, words: Sequence[str]) -> None:
    if value not in words:
        _refuse(place, f"must be one of {', '.join(words)}", "use one of them")


def _refuse(place: str, problem: str, fix: str) -> NoReturn:
    message = f"{place} {problem}"
    raise InvalidArgument(message, fix=fix, field=place)

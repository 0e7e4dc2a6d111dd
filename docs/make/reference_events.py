"""Make the reference of log events, and find the events that the source logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from docs.make.regions import Maker, code, table
from docs.make.source import modules
from onceward.system import log_events

#: Functions that log what they are given as their first argument, and who does it for them.
_WRAPPERS: Final = {
    "warn_and_retry": "warn_and_retry",
    "_back_off": "warn_and_retry",
    "log_info": "log_info",
}
#: Functions that log a level, an event and its facts, in this order.
_WITH_LEVEL: Final = {"log_event", "_log"}
_EVENT_ARGUMENT: Final = 1
_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "exception")
#: An f-string that stands for several actions.
_SPREAD: Final = {"alert_{event}": ("alert_fired", "alert_cleared")}
_NOT_FACTS: Final = {"action", "event", "facts"}


@dataclass
class Seen:
    """What the source does with one name."""

    #: Where, such as `src/onceward/workers/telemetry.py:82`.
    places: list[str] = field(default_factory=list)
    #: Levels that the function there knows.
    levels: set[str] = field(default_factory=set)
    #: Facts that stand beside it.
    facts: set[str] = field(default_factory=set)


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of events."""
    return {
        "actions": lambda _: _listed("action", log_events.ACTIONS),
        "memory": lambda _: _listed("event", log_events.MEMORY),
        "dispatch": lambda _: _listed("event", log_events.DISPATCH),
    }


def _listed(head: str, found: Mapping[str, log_events.LogEvent]) -> str:
    rows = [
        [code(name), each.level, each.when, ", ".join(each.facts)] for name, each in found.items()
    ]
    return table([head, "level", "when", "facts"], rows)


def seen() -> dict[str, Seen]:
    """Return the names that the source logs."""
    found: dict[str, Seen] = {}
    wrapped = _wrapped_levels()
    for module in modules():
        if not any(each in module.text for each in ("log", "telemetry")):
            continue
        for function in module.functions():
            for node in ast.walk(function):
                for name, facts, wrapper in _named(node):
                    each = found.setdefault(name, Seen())
                    each.places.append(module.place(node))
                    each.facts |= facts
                    each.levels |= wrapped.get(wrapper) or _levels(function)
    return found


def _named(node: ast.AST) -> Iterator[tuple[str, set[str], str]]:
    """Give the names in a call or a dictionary, with the facts beside each, and who logs it."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        values = {key.value: each for key, each in pairs if isinstance(key, ast.Constant)}
        facts = {str(each) for each in values} - _NOT_FACTS
        for name in (*_texts(values.get("action")), *_dotted(values.get("event"))):
            yield name, facts, ""
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func).rpartition(".")[2]
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        asked = keywords.get("action") if called == "_log_event" else None
        if called in _WRAPPERS and node.args:
            asked = node.args[0]
        for name in _texts(asked):
            yield name, set(keywords) - _NOT_FACTS, _WRAPPERS.get(called, "")
        if called in _WITH_LEVEL and len(node.args) > _EVENT_ARGUMENT:
            for name in _dotted(node.args[_EVENT_ARGUMENT]):
                yield name, _keys(node.args[-1]), ""


def _texts(node: ast.expr | None) -> Iterator[str]:
    """Give the names that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value.replace("_", "").isalpha() and node.value.islower():
            yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        yield from _SPREAD.get(ast.unparse(node)[2:-1], (ast.unparse(node),))


def _keys(node: ast.expr) -> set[str]:
    """Return the keys of a dictionary that is written out."""
    keys = node.keys if isinstance(node, ast.Dict) else ()
    return {str(each.value) for each in keys if isinstance(each, ast.Constant)}


def _dotted(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
        yield node.value


def _levels(function: ast.AST) -> set[str]:
    """Return the levels that a function mentions."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            name = node.attr.lower()
            if name in _LEVELS:
                found.add("error" if name == "exception" else name)
    return found


def _wrapped_levels() -> dict[str, set[str]]:
    """Return the levels of those who log what they are given, by name."""
    return {
        function.name: _levels(function)
        for module in modules()
        if module.path.name == "telemetry.py"
        for function in module.functions()
        if function.name in _WRAPPERS
    }

"""Make the reference of settings: environment variables, and fields of our two files.

Which there are, the code says; what they mean, the page says, and keeps.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from docs.make.regions import Maker, code, kept_table, table
from docs.make.source import Module, modules
from onceward.orchestrator import config, tasks
from onceward.orchestrator.models import TIMEOUT_SECONDS, RunLimits
from onceward.workers import alert_rules, retention
from onceward.workers.alert_models import DEFAULT_RULES, KINDS, WINDOWED, Alert

#: Names that are ours wherever they stand.
_OURS: Final = re.compile(r"((?:ONCEWARD|CM)_[A-Z_]+)(=.*)?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]+")
#: What an environment is called where it is passed on.
_CALLED: Final = re.compile(r"(.*\.)?_?(env|environ|environment)")
_TELLING: Final = ("meaning", "left out")


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of the configuration."""
    return {
        "variables": _variables,
        "alerts": lambda old: _fields(old, alert_rules.FIELDS),
        "kinds of alerts": _kinds,
        "keep": lambda old: _fields(old, retention.FIELDS),
        "alerts_defaults": lambda old: _fields(old, alert_rules.DEFAULT_FIELDS),
        "shipped alerts": lambda _: _shipped(),
        "webhook": _webhook,
        "onceward.json": _workspace,
        "tasks": lambda old: _fields(old, _task_fields()),
    }


def _fields(old: str, names: tuple[str, ...]) -> str:
    return kept_table(old, ["field", *_TELLING], [[code(each), None, None] for each in names])


# --- the environment ------------------------------------------------------------------------------


def _variables(old: str) -> str:
    rows = [[code(name), None, None] for name in sorted(variables())]
    return kept_table(old, ["variable", *_TELLING], rows)


def variables() -> dict[str, list[str]]:
    """Return the variables that the source reads, or sets for others, and where."""
    found: dict[str, list[str]] = {}
    for module in modules():
        if not any(each in module.text for each in ("env", "ONCEWARD_", "CM_")):
            continue
        for node in ast.walk(module.tree):
            for name in (*_ours(node), *_read(node, module)):
                found.setdefault(name, []).append(module.place(node))
    return found


def _ours(node: ast.AST) -> Iterator[str]:
    """Give our own names, as constants and in the text of `NAME=value`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        named = _OURS.fullmatch(node.value)
        if named:
            yield named[1]


def _read(node: ast.AST, module: Module) -> Iterator[str]:
    """Give the names for which an environment, whatever it is called, is asked."""
    asked: ast.expr | None = None
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
        owner, verb = ast.unparse(node.func.value), node.func.attr
        if verb == "getenv" or (verb in ("get", "pop") and _CALLED.fullmatch(owner)):
            asked = node.args[0]
    elif isinstance(node, ast.Subscript) and _CALLED.fullmatch(ast.unparse(node.value)):
        asked = node.slice
    if asked is not None:
        yield from _names(asked, module)


def _names(asked: ast.expr, module: Module) -> Iterator[str]:
    """Give what is asked for: a name, a constant of some module, or the names of a loop."""
    if isinstance(asked, ast.Constant):
        if _NAME.fullmatch(str(asked.value)):
            yield str(asked.value)
        return
    called = ast.unparse(asked)
    given = re.compile(
        rf'^{re.escape(called.rpartition(".")[2])}(?:: \w+)? = "(\w+)"$', re.MULTILINE
    )
    for each in modules():
        yield from (name for name in given.findall(each.text) if _NAME.fullmatch(name))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.comprehension) and ast.unparse(node.target) == called:
            texts = (each.value for each in ast.walk(node.iter) if isinstance(each, ast.Constant))
            yield from (str(each) for each in texts if _NAME.fullmatch(str(each)))


# --- onceward.toml --------------------------------------------------------------------------------


def _kinds(old: str) -> str:
    rows: list[list[str | None]] = [[code(each), None] for each in KINDS]
    return kept_table(old, ["kind", "what is compared with the threshold"], rows)


def _shipped() -> str:
    rows = [
        [
            rule.name,
            code(rule.kind),
            f"{rule.threshold:g}",
            f"{rule.for_seconds:g}",
            f"{rule.clear:g}",
            f"{rule.window_seconds:g}" if rule.kind in WINDOWED else "",
        ]
        for rule in DEFAULT_RULES
    ]
    return table(["shipped rule", "kind", "threshold", "for", "clear", "window"], rows)


def _webhook(old: str) -> str:
    blank = {each.name: "" for each in dataclasses.fields(Alert)}
    alert = Alert(**{**blank, "kind": "lag", "value": 0.0, "threshold": 0.0})  # type: ignore[arg-type]
    rows: list[list[str | None]] = [[code(each), None] for each in alert.body("fired")]
    return kept_table(old, ["field", "meaning"], rows)


# --- onceward.json --------------------------------------------------------------------------------


def _workspace(old: str) -> str:
    """Make the table of a workspace's configuration, with the defaults that the code has."""
    defaults = {
        each.name: f"{each.default:g}"
        for each in dataclasses.fields(RunLimits)
        if isinstance(each.default, (int, float))
    }
    timeouts = ", ".join(f"{seconds:g} for `{name}`" for name, seconds in TIMEOUT_SECONDS.items())
    rows: list[list[str | None]] = []
    for name in config.FIELDS:
        if name == "agents":
            rows += [[code(f"agents.TYPE.{each}"), None, None] for each in config.AGENT_FIELDS]
        elif name == "limits":
            rows += [
                [code(f"limits.{each}"), None, defaults[each]]
                for each in config.LIMITS
                if each != "timeout_seconds"
            ]
            rows.append([code("limits.timeout_seconds.ACTION"), None, timeouts])
        elif name == "tasks_dir":
            rows.append([code(name), None, code(config.TASKS_DIRECTORY)])
        else:
            rows.append([code(name), None, None])
    return kept_table(old, ["field", *_TELLING], rows)


def _task_fields() -> tuple[str, ...]:
    parts = [f"expected_outputs[].{each}" for each in tasks.OUTPUT_FIELDS]
    whole = [each for each in tasks.FIELDS if each != "expected_outputs"]
    return (*whole, *parts)

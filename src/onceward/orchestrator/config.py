"""Config: read and validate a workspace's `onceward.json` before anything starts.

Errors name the field, the problem and the fix. `Document` also validates the JSON of task files.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from onceward.agents.artifacts import check_path
from onceward.agents.supervisor_limits import AgentSpec, command_line
from onceward.errors import FileMissing, InvalidArgument, InvalidJson, OncewardError
from onceward.keys import loads
from onceward.keys.canonical import join_path
from onceward.keys.encoding import is_encodable
from onceward.orchestrator.models import TIMEOUT_SECONDS, RunLimits
from onceward.orchestrator.task_flow import AGENTS
from onceward.system.safe_paths import RootedDirectory

CONFIG_NAME: Final = "onceward.json"
CONFIG_BYTES_MAX: Final = 1024 * 1024
SCHEMA_VERSION: Final = 1
TASKS_DIRECTORY: Final = "tasks"
FIELDS: Final = ("schemaVersion", "agents", "limits", "tasks_dir")
AGENT_FIELDS: Final = ("command", "env")
#: Integer limits with their minimum and maximum.
INTEGER_LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "rounds_max": (1, 1000),
    "attempts_max": (1, 100),
    "restarts_max": (0, 1000),
    "heartbeats_missed_max": (1, 1000),
    "runs_kept": (1, 100_000),
}
LIMITS: Final = (*INTEGER_LIMITS, "heartbeat_seconds", "timeout_seconds")
SECONDS_MAX: Final = 7 * 24 * 3600
COMMAND_WORDS_MAX: Final = 1000
VARIABLES_MAX: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceConfig:
    """The configuration of a workspace."""

    #: The directory that contains `onceward.json`; a real path.
    workspace: Path
    #: How to start each type of agent.
    agents: Mapping[str, AgentSpec]
    limits: RunLimits
    #: The directory of task files, relative to the workspace.
    tasks_dir: str = TASKS_DIRECTORY


def load_config(path: Path) -> WorkspaceConfig:
    """Read `onceward.json`, given its path or directory; InvalidArgument names what is wrong."""
    file = path / CONFIG_NAME if path.is_dir() else path
    workspace = file.parent.resolve()
    try:
        with RootedDirectory.open(workspace) as directory:
            document = Document.read(directory, file.name, shown=str(file), most=CONFIG_BYTES_MAX)
    except FileMissing as exc:
        message = f"there is no {file.name} in {workspace}"
        fix = "create a workspace with `onceward init`, or pass one with --workspace"
        raise FileMissing(message, fix=fix, path=str(file)) from exc
    document.check_names("", document.value, FIELDS)
    _check_version(document)
    return WorkspaceConfig(
        workspace=workspace,
        agents=_agents(document),
        limits=_limits(document),
        tasks_dir=_tasks_dir(document),
    )


def check_programs(config: WorkspaceConfig) -> None:
    """Refuse a configuration with a program that does not exist; starts nothing."""
    for kind, spec in config.agents.items():
        word = spec.command[0]
        path = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
        # A relative name with a slash is relative to the workspace, as when the agent is started.
        name = str(config.workspace / word) if "/" in word else word
        if shutil.which(name, path=path) is None:
            where = f"agents.{kind}.command[0]"
            problem = "does not exist or is not executable" if "/" in word else "is not on the PATH"
            shown = f"{config.workspace / CONFIG_NAME}: {where}"
            message = f"{shown}: the program {word!r} {problem}; nothing was started"
            fix = "correct the name, install the program, or use its absolute path"
            raise InvalidArgument(message, fix=fix, field=where)


class Document:
    """A JSON object written by a person; its checks raise errors that name file and field."""

    def __init__(self, value: dict[str, Any], shown: str) -> None:
        """Wrap an object; `shown` is the file name for messages."""
        self.value = value
        self.shown = shown

    @classmethod
    def read(cls, directory: RootedDirectory, name: str, *, shown: str, most: int) -> Document:
        """Read a file of at most `most` bytes; FileMissing is passed on unchanged."""
        try:
            data = directory.read(name, bytes_max=most)
        except FileMissing:
            raise
        except OncewardError as exc:
            message = f"{shown}: {exc.message}"
            fix = exc.fix or "make it a readable regular file"
            raise InvalidArgument(message, fix=fix, path=shown) from exc
        try:
            # Some editors put a byte order mark in front; JSON has none.
            value = loads(data.removeprefix(b"\xef\xbb\xbf"))
        except InvalidJson as exc:
            message = f"{shown}: {exc.message}"
            raise InvalidJson(message, fix="correct the JSON in this file", path=shown) from exc
        if not isinstance(value, dict):
            message = f"{shown}: must be a JSON object, not {json_type_name(value)}"
            fix = 'put everything into one object, such as {"name": "value"}'
            raise InvalidArgument(message, fix=fix, path=shown)
        return cls(value, shown)

    def refuse(self, where: str, problem: str, fix: str) -> NoReturn:
        """Raise InvalidArgument for one field."""
        message = f"{self.shown}: {where}: {problem}"
        raise InvalidArgument(message, fix=fix, field=where, path=self.shown)

    def check_names(self, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Refuse unknown names and suggest the closest known one."""
        names = tuple(known)
        for name in table:
            if name not in names:
                meant = closest_name(name, names)
                fix = f"write {meant!r}" if meant else "remove it"
                problem = f"is not known; known are {', '.join(names)}"
                self.refuse(join_path(where, name), problem, fix)

    def table(self, where: str, value: object, example: str) -> dict[str, Any]:
        """Return a value; refuse anything but an object."""
        if not isinstance(value, dict):
            self.refuse(
                where, f"must be an object, not {json_type_name(value)}", f"write {example}"
            )
        return value

    def text(self, where: str, value: object, example: str) -> str:
        """Return a value; refuse anything but a nonempty text that can be passed to a program."""
        if not isinstance(value, str):
            self.refuse(where, f"must be text, not {json_type_name(value)}", f"write {example}")
        if not value.strip():
            self.refuse(where, "must not be empty", f"write {example}")
        self.check_text(where, value)
        return value

    def check_text(self, where: str, value: str) -> None:
        """Refuse characters that cannot be passed to a program."""
        if "\0" in value or not is_encodable(value):
            problem = "contains a NUL character or a lone surrogate"
            self.refuse(where, problem, "remove it")


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, or None."""
    by_folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def json_type_name(value: object) -> str:
    """Return the JSON type of a value in words."""
    kinds: dict[type, str] = {str: "text", bool: "true or false", list: "a list", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _check_version(document: Document) -> None:
    version = document.value.get("schemaVersion")
    if version == SCHEMA_VERSION and type(version) is int:
        return
    is_newer = isinstance(version, int) and version > SCHEMA_VERSION
    problem = f"must be {SCHEMA_VERSION}, not {version!r:.60}"
    problem = "is missing" if version is None else problem
    fix = "use a newer Onceward, or " if is_newer else ""
    document.refuse("schemaVersion", problem, f'{fix}write "schemaVersion": {SCHEMA_VERSION}')


def _agents(document: Document) -> dict[str, AgentSpec]:
    example = '"agents": {"builder": {"command": ["python", "builder.py"]}, …}'
    if "agents" not in document.value:
        document.refuse("agents", "is missing", f"write {example}")
    table = document.table("agents", document.value["agents"], example)
    document.check_names("agents", table, AGENTS)
    for kind in AGENTS:
        if kind not in table:
            fix = f'write "{kind}": {{"command": ["python", "{kind}.py"]}}'
            document.refuse(f"agents.{kind}", "is missing: every task needs this agent", fix)
    return {kind: _agent(document, kind, table[kind]) for kind in AGENTS}


def _agent(document: Document, kind: str, value: object) -> AgentSpec:
    where, example = f"agents.{kind}", f'{{"command": ["python", "{kind}.py"]}}'
    table = document.table(where, value, example)
    document.check_names(where, table, AGENT_FIELDS)
    if "command" not in table:
        document.refuse(f"{where}.command", "is missing", f"write {example}")
    words = _words(document, f"{where}.command", table["command"])
    env = _variables(document, f"{where}.env", table.get("env", {}))
    return AgentSpec(type=kind, command=command_line(words), env=env)


def _words(document: Document, where: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            split = shlex.split(value)
        except ValueError:
            split = []
        example = json.dumps(split or ["python", "agent.py"], ensure_ascii=False)
        document.refuse(where, "must be a list of words, not one text", f"write {example}")
    example = '["python", "agent.py"]'
    if not isinstance(value, list):
        document.refuse(
            where, f"must be a list of words, not {json_type_name(value)}", f"write {example}"
        )
    if not 1 <= len(value) <= COMMAND_WORDS_MAX:
        document.refuse(
            where, f"must have 1 to {COMMAND_WORDS_MAX} words, not {len(value)}", f"write {example}"
        )
    document.text(f"{where}[0]", value[0], 'the program, such as "python"')
    for place, word in enumerate(value):
        if not isinstance(word, str):
            is_number = isinstance(word, (int, float))
            fix = f"write {json.dumps(json.dumps(word))}, in quotes" if is_number else "write text"
            document.refuse(f"{where}[{place}]", f"must be text, not {json_type_name(word)}", fix)
        document.check_text(f"{where}[{place}]", word)
    return tuple(value)


def _variables(document: Document, where: str, value: object) -> dict[str, str]:
    table = document.table(where, value, '{"NAME": "value"}')
    if len(table) > VARIABLES_MAX:
        document.refuse(
            where, f"has {len(table)} names; at most {VARIABLES_MAX} are allowed", "remove some"
        )
    for name, text in table.items():
        place = join_path(where, name)
        if not name or "=" in name or "\0" in name or not is_encodable(name):
            document.refuse(place, "is not a variable name", 'write a name such as "LANG"')
        if not isinstance(text, str):
            # The value may be a secret, so the message does not repeat it.
            document.refuse(
                place, f"must be text, not {json_type_name(text)}", "write text in quotes"
            )
        document.check_text(place, text)
    return dict(table)


def _limits(document: Document) -> RunLimits:
    table = document.table("limits", document.value.get("limits", {}), '{"rounds_max": 5}')
    document.check_names("limits", table, LIMITS)
    found: dict[str, Any] = {}
    for name, (least, most) in INTEGER_LIMITS.items():
        if name in table:
            found[name] = _count(document, f"limits.{name}", table[name], least, most)
    if "heartbeat_seconds" in table:
        where = "limits.heartbeat_seconds"
        found["heartbeat_seconds"] = _seconds(document, where, table["heartbeat_seconds"])
    timeouts = document.table(
        "limits.timeout_seconds", table.get("timeout_seconds", {}), '{"implement": 600}'
    )
    document.check_names("limits.timeout_seconds", timeouts, TIMEOUT_SECONDS)
    given = {
        action: _seconds(document, f"limits.timeout_seconds.{action}", seconds)
        for action, seconds in timeouts.items()
    }
    found["timeout_seconds"] = {**TIMEOUT_SECONDS, **given}
    return RunLimits(**found)


def _count(document: Document, where: str, value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        fix = f"write a number such as {max(least, 5)}, without quotes"
        problem = f"must be a whole number from {least} to {most}, not {value!r:.60}"
        document.refuse(where, problem, fix)
    return value


def _seconds(document: Document, where: str, value: object) -> float:
    # In Python True is an int, but it is not a number of seconds.
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
    if not 0 < number <= SECONDS_MAX:
        problem = f"must be seconds above 0, at most {SECONDS_MAX}, not {value!r:.60}"
        document.refuse(where, problem, "write a number such as 600, without quotes")
    return float(number)


def _tasks_dir(document: Document) -> str:
    if "tasks_dir" not in document.value:
        return TASKS_DIRECTORY
    example = '"tasks_dir": "tasks"'
    found = document.text("tasks_dir", document.value["tasks_dir"], example).rstrip("/")
    try:
        check_path(found)
    except OncewardError:
        problem = (
            "must be a plain path in the workspace, and not in a folder of Onceward's own, "
            f"not {found!r:.60}"
        )
        document.refuse("tasks_dir", problem, f"write {example}")
    return found

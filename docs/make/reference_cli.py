"""Make the reference of commands: usage, examples, options and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer

from docs.make.regions import Maker, code, table
from onceward.cli.main import app

#: What a value is called.
_KINDS: Final = {"str": "text", "int": "a number", "float": "a number", "Path": "a path"}
_EXAMPLE: Final = re.compile(r"Example: (`[^`]+`)")
_HEADS: Final = ("option or argument", "value", "meaning", "default")


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of commands: a list of all, and a section for each."""
    root = typer.main.get_command(app)
    found = dict(commands(root))
    made: dict[str, Maker] = {"commands": lambda _: _contents(found)}
    made["onceward"] = lambda _: _section((), root)
    for words, command in found.items():
        made[_name(words)] = _maker(words, command)
    return made


def _maker(words: tuple[str, ...], command: Any) -> Maker:  # noqa: ANN401 - Typer's own
    return lambda _: _section(words, command)


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - Typer's own
    """Give every command below a group, with the words that lead to it."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _name(words: tuple[str, ...]) -> str:
    return " ".join(("onceward", *words))


def _contents(found: Mapping[tuple[str, ...], Any]) -> str:
    rows = []
    for words, command in found.items():
        name = _name(words)
        rows.append([f"[`{name}`](#{name.replace(' ', '-')})", _paragraphs(command)[0]])
    return table(["command", "what it does"], rows)


def _section(words: tuple[str, ...], command: Any) -> str:  # noqa: ANN401 - the same
    name = _name(words)
    text = "\n\n".join(_paragraphs(command))
    examples = _EXAMPLE.findall(command.help)
    shown = [f"Usage: `{_usage(name, command)}`", *(f"Example: {each}" for each in examples)]
    return "\n\n".join([f"## `{name}`", text, *map(_joined, shown), _parameters(command)])


def _paragraphs(command: Any) -> list[str]:  # noqa: ANN401 - the same
    """Return what a command says of itself, without its examples."""
    assert command.help, f"{command.name} does not say what it does"
    parts = (_joined(each.partition("Example: ")[0]) for each in command.help.split("\n\n"))
    return [each for each in parts if each]


def _joined(text: str) -> str:
    return " ".join(text.split())


def _usage(name: str, command: Any) -> str:  # noqa: ANN401 - the same
    """Return how it is called: options that must be given, the others, arguments."""
    if hasattr(command, "list_commands"):
        return f"{name} [OPTIONS] COMMAND …"
    options = [each for each in command.params if _is_option(each)]
    needed = [_needed(each.opts[0]) for each in options if each.required]
    words = [_usage_of(each) for each in command.params if not _is_option(each)]
    return " ".join([name, *needed, "[OPTIONS]", *words])


def _needed(option: str) -> str:
    return f"{option} {option.lstrip('-').replace('-', '_').upper()}"


def _usage_of(argument: Any) -> str:  # noqa: ANN401 - the same
    shown = argument.name.upper() + (" …" if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"


def _parameters(command: Any) -> str:  # noqa: ANN401 - the same
    rows = [
        [_label(each), _value(each), _meaning(each), _default(each)]
        for each in command.params
        if not each.hidden
    ]
    return table(_HEADS, rows)


def _is_option(parameter: Any) -> bool:  # noqa: ANN401 - the same
    return bool(parameter.opts[0].startswith("-"))


def _label(parameter: Any) -> str:  # noqa: ANN401 - the same
    if not _is_option(parameter):
        return code(parameter.name.upper())
    return code(*parameter.opts, *parameter.secondary_opts)


def _value(parameter: Any) -> str:  # noqa: ANN401 - the same
    """Return what a parameter takes; nothing for a switch."""
    kind = parameter.type_descriptor
    if getattr(parameter, "is_flag", False):
        return ""
    if kind.is_choice:
        *names, last = kind.choices
        return f"{code(*names)} or `{last}`" if names else code(last)
    if parameter.min is not None or parameter.max is not None:
        return _range(parameter.min, parameter.max)
    shown = str(parameter.bare_type())
    return _KINDS.get(shown.removeprefix("list[").removesuffix("]"), shown)


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"{least:g} or more"
    return f"{least:g} to {most:g}" if least is not None else f"{most:g} or less"


def _meaning(parameter: Any) -> str:  # noqa: ANN401 - the same
    text = _joined(parameter.help or "")
    assert text, f"{parameter.opts[0]} does not say what it means"
    is_marked = not getattr(parameter, "multiple", False) or "epeatable" in text
    variable = parameter.envvar
    named = f" Else `${variable}`." if variable and variable not in text else ""
    return text + ("" if is_marked else " Repeatable.") + named


def _default(parameter: Any) -> str:  # noqa: ANN401 - the same
    found = parameter.default
    if parameter.required:
        return "required"
    if getattr(parameter, "secondary_opts", None) and isinstance(found, bool):
        return code((parameter.opts if found else parameter.secondary_opts)[0])
    if found is None or found is False or found in ("", ()):
        return ""
    return code(f"{found:g}" if isinstance(found, float) else str(found))

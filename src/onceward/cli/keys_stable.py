"""`onceward keys stable`: deterministic keys of runs, commands, issues, fixes and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from onceward.cli.output import JsonFlag, json_argument, print_json
from onceward.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

StableKind = Literal[
    "run",
    "command",
    "error",
    "warning",
    "fix",
    "dependency",
    "mode",
    "tool",
    "doc",
    "file",
    "concept",
]
_RESULT: Final = ("--cwd", "--exit", "--stdout", "--stderr")
#: The options that each kind takes; of the other kinds, none.
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "run": ("--started-at", *_RESULT),
    "command": _RESULT,
    "fix": ("--strategy", "--changes"),
    "dependency": ("VERSION",),
    "mode": ("VERSION",),
    "tool": ("VERSION",),
}
#: Options without which a kind has no key, each with an example.
_REQUIRED: Final[dict[str, dict[str, str]]] = {
    "run": {"--started-at": "--started-at 2026-02-06T12:00:00Z"},
    "fix": {"--strategy": "--strategy '\"raise limit\"'", "--changes": "--changes '[\"a.py\"]'"},
}
_Value = Annotated[
    str,
    typer.Argument(
        help="Command line (run, command), message (error, warning), issue key (fix), "
        "URL (doc), path (file), or name (other kinds)."
    ),
]
_Stdout = Annotated[
    str | None,
    typer.Option(
        help="For kinds run and command: its stdout; the first 8 KiB count. Default: empty."
    ),
]
_Stderr = Annotated[
    str | None,
    typer.Option(
        help="For kinds run and command: its stderr; the first 8 KiB count. Default: empty."
    ),
]


def stable(
    kind: Annotated[StableKind, typer.Argument(help="What VALUE is.")],
    value: _Value,
    version: Annotated[
        str | None,
        typer.Argument(
            help="For kinds dependency, mode and tool. Default: a key without `@VERSION`."
        ),
    ] = None,
    started_at: Annotated[
        str | None,
        typer.Option(help="Required for kind run, only for it: when it began, as ISO 8601."),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option(help="For kinds run and command: its working directory. Default: empty."),
    ] = None,
    exit_code: Annotated[
        int | None,
        typer.Option("--exit", help="For kinds run and command: its exit code. Default: 0."),
    ] = None,
    stdout: _Stdout = None,
    stderr: _Stderr = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="Required for kind fix: how it fixes the issue; JSON, `@file`, or `-`."),
    ] = None,
    changes: Annotated[
        str | None,
        typer.Option(help="Required for kind fix: what it changed; JSON, `@file`, or `-`."),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Print the stable key of a run, command, error, fix, dependency, file or other KIND.

    Equal values get equal keys. In errors and warnings, absolute paths, `:line:column`, dates with
    times, UUIDs, hashes and versions such as 1.2.3 are ignored. Relative paths, versions such as
    3.11 and other numbers count.

    Example: `onceward keys stable error "ENOENT: /home/me/app.py:12:5"`

    Example: `onceward keys stable run "make test" --started-at 2026-02-06T12:00:00Z --exit 2`
    """
    given = {
        "VERSION": version,
        "--started-at": started_at,
        "--cwd": cwd,
        "--exit": exit_code,
        "--stdout": stdout,
        "--stderr": stderr,
        "--strategy": strategy,
        "--changes": changes,
    }
    _check_options(kind, {name: each for name, each in given.items() if each is not None})
    key = _key(kind, value, given)
    if json_output:
        print_json({"key": key})
    else:
        print(key)


def _check_options(kind: str, given: Mapping[str, object]) -> None:
    """Reject an option of another kind, and a missing one that the kind requires."""
    takes = _OPTIONS.get(kind, ())
    for name in given:
        if name not in takes:
            kinds = ", ".join(each for each, options in _OPTIONS.items() if name in options)
            message = f"{name}: a key of kind {kind} has no such option; no key was made"
            fix = f"leave {name} out, or pass a kind that takes it: {kinds}"
            raise InvalidArgument(message, fix=fix, field=_field(name))
    for name, example in _REQUIRED.get(kind, {}).items():
        if name not in given:
            message = f"{name}: a key of kind {kind} requires it; no key was made"
            raise InvalidArgument(message, fix=f"add {example}", field=_field(name))


def _field(name: str) -> str:
    return name.strip("-").replace("-", "_").lower()


def _key(kind: str, value: str, given: Mapping[str, Any]) -> str:
    from onceward import keys

    if kind in ("run", "command"):
        fingerprint = keys.fp8(
            cmd=value,
            cwd=given["--cwd"] or "",
            exit_code=given["--exit"] or 0,
            stdout=given["--stdout"] or "",
            stderr=given["--stderr"] or "",
        )
        if kind == "run":
            return keys.run_key(given["--started-at"], fingerprint)
        return keys.command_key(value, fingerprint)
    if kind == "fix":
        strategy = json_argument("strategy", given["--strategy"])
        changes = json_argument("changes", given["--changes"])
        return keys.fix_key(value, strategy=strategy, changes=changes)
    if kind in ("dependency", "mode", "tool"):
        versioned = {
            "dependency": keys.dependency_key,
            "mode": keys.mode_key,
            "tool": keys.tool_key,
        }
        return versioned[kind](value, given["VERSION"])
    simple = {
        "error": keys.error_key,
        "warning": keys.warning_key,
        "doc": keys.doc_key,
        "file": keys.file_key,
        "concept": keys.concept_key,
    }
    return simple[kind](value)

"""`onceward keys stable`: deterministic names for runs, commands, issues and what they touch."""

from __future__ import annotations

from typing import Annotated

import typer

from onceward.cli.output import JsonFlag, group, json_argument, print_json

app = group("Deterministic names for runs, commands, issues and what they touch.")

_Version = Annotated[str | None, typer.Argument(help="Left out, there is no @.")]
_Cwd = Annotated[str, typer.Option(help="Where it ran.")]
_Exit = Annotated[int, typer.Option("--exit", help="Its exit code.")]
_Stdout = Annotated[str, typer.Option(help="What it printed; the first 8 KiB count.")]
_Stderr = Annotated[str, typer.Option(help="What it printed on stderr; the first 8 KiB count.")]


def _show(key: str, *, json_output: bool) -> None:
    if json_output:
        print_json({"key": key})
    else:
        print(key)


@app.command()
def run(
    cmd: Annotated[str, typer.Argument(help="The command that ran.")],
    started_at: Annotated[str, typer.Option(help="When the run began, ISO 8601.")],
    cwd: _Cwd = "",
    exit_code: _Exit = 0,
    stdout: _Stdout = "",
    stderr: _Stderr = "",
    json_output: JsonFlag = False,
) -> None:
    """Name a run.

    Example: `onceward keys stable run "make test" --started-at 2026-02-06T12:00:00Z --cwd /repo`
    """
    from onceward.keys import fp8, run_key

    fingerprint = fp8(cmd=cmd, cwd=cwd, exit_code=exit_code, stdout=stdout, stderr=stderr)
    _show(run_key(started_at, fingerprint), json_output=json_output)


@app.command()
def command(
    cmd: Annotated[str, typer.Argument(help="The command that ran.")],
    cwd: _Cwd = "",
    exit_code: _Exit = 0,
    stdout: _Stdout = "",
    stderr: _Stderr = "",
    json_output: JsonFlag = False,
) -> None:
    """Name a command with its result.

    Example: `onceward keys stable command "make   test" --cwd /repo --exit 2`
    """
    from onceward.keys import command_key, fp8

    fingerprint = fp8(cmd=cmd, cwd=cwd, exit_code=exit_code, stdout=stdout, stderr=stderr)
    _show(command_key(cmd, fingerprint), json_output=json_output)


@app.command()
def error(
    message: Annotated[str, typer.Argument(help="The error's text.")],
    json_output: JsonFlag = False,
) -> None:
    """Name an error by its message, without what differs between sightings.

    Example: `onceward keys stable error "ENOENT: /home/me/app.py:12:5"`
    """
    from onceward.keys import error_key

    _show(error_key(message), json_output=json_output)


@app.command()
def warning(
    message: Annotated[str, typer.Argument(help="The warning's text.")],
    json_output: JsonFlag = False,
) -> None:
    """Name a warning by its message.

    Example: `onceward keys stable warning "left-pad@1.3.0 is deprecated"`
    """
    from onceward.keys import warning_key

    _show(warning_key(message), json_output=json_output)


@app.command()
def fix(
    issue: Annotated[str, typer.Argument(help="The issue's own key, such as err#….")],
    strategy: Annotated[str, typer.Option(help="JSON, `@file`, or `-`.")],
    changes: Annotated[str, typer.Option(help="JSON, `@file`, or `-`.")],
    json_output: JsonFlag = False,
) -> None:
    """Name a fix by its issue, strategy and changes.

    Example: `onceward keys stable fix err#timeout --strategy '"raise limit"' --changes '["a.py"]'`
    """
    from onceward.keys import fix_key

    plan, done = json_argument("strategy", strategy), json_argument("changes", changes)
    _show(fix_key(issue, strategy=plan, changes=done), json_output=json_output)


@app.command()
def dependency(
    name: Annotated[str, typer.Argument(help="The package.")],
    version: _Version = None,
    json_output: JsonFlag = False,
) -> None:
    """Name a dependency.

    Example: `onceward keys stable dependency orjson 3.13.0`
    """
    from onceward.keys import dependency_key

    _show(dependency_key(name, version), json_output=json_output)


@app.command()
def mode(
    slug: Annotated[str, typer.Argument(help="The mode.")],
    version: _Version = None,
    json_output: JsonFlag = False,
) -> None:
    """Name a mode.

    Example: `onceward keys stable mode reviewer 2`
    """
    from onceward.keys import mode_key

    _show(mode_key(slug, version), json_output=json_output)


@app.command()
def tool(
    name: Annotated[str, typer.Argument(help="The tool.")],
    version: _Version = None,
    json_output: JsonFlag = False,
) -> None:
    """Name a tool.

    Example: `onceward keys stable tool ruff`
    """
    from onceward.keys import tool_key

    _show(tool_key(name, version), json_output=json_output)


@app.command()
def doc(
    url: Annotated[str, typer.Argument(help="The document's URL.")],
    json_output: JsonFlag = False,
) -> None:
    """Name a document.

    Example: `onceward keys stable doc https://example.com/guide`
    """
    from onceward.keys import doc_key

    _show(doc_key(url), json_output=json_output)


@app.command()
def file(
    path: Annotated[str, typer.Argument(help="The file's path.")],
    json_output: JsonFlag = False,
) -> None:
    """Name a file.

    Example: `onceward keys stable file src/main.py`
    """
    from onceward.keys import file_key

    _show(file_key(path), json_output=json_output)


@app.command()
def concept(
    slug: Annotated[str, typer.Argument(help="The concept.")],
    json_output: JsonFlag = False,
) -> None:
    """Name a concept.

    Example: `onceward keys stable concept lease-fencing`
    """
    from onceward.keys import concept_key

    _show(concept_key(slug), json_output=json_output)

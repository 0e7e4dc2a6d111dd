"""Output: how commands read JSON arguments and speak to people and to machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.errors import InvalidArgument, OncewardError

if TYPE_CHECKING:
    from onceward.journal import Page

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="Alert rules and retention; else `onceward.toml` here, else in `$ONCEWARD_HOME`.",
    ),
]


def group(help_text: str) -> typer.Typer:
    """Make a group of commands that shows its help when no command is named."""
    made = typer.Typer(add_completion=False, rich_markup_mode="markdown", help=help_text)

    @made.callback(invoke_without_command=True)
    def show_help(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())

    return made


def single(command: Callable[..., None]) -> typer.Typer:
    """Make an app of one command, to stand beside the groups."""
    made = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    made.command()(command)
    return made


def print_json(value: object) -> None:
    """Print one line of JSON."""
    from onceward.keys.encoding import encoded

    print(encoded(value).decode(), flush=True)


def print_page(page: Page, *, json_output: bool) -> None:
    """Print the records of a page, one a line; for machines all in one object, with the cursor."""
    if json_output:
        print_json({"items": page.items, "nextCursor": page.next_cursor, "tag": page.tag})
        return
    for item in page.items:
        print_json(item)


def print_error(error: OncewardError) -> None:
    """Say on stderr what failed and what to do, as JSON when the command was asked for JSON."""
    if "--json" in sys.argv:
        import orjson

        print(orjson.dumps(error.to_dict(), default=str).decode(), file=sys.stderr)
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.fix:
        print(f"fix: {error.fix}", file=sys.stderr)


def warn(message: str) -> None:
    """Say something on stderr that does not stop the command."""
    print(f"warning: {message}", file=sys.stderr)


def json_argument(name: str, text: str) -> object:
    """Return the JSON value of an argument: written out, `@file`, or `-` for standard input."""
    from onceward.keys import loads

    try:
        return loads(_argument_text(name, text))
    except InvalidArgument as exc:
        exc.args = (f"{name}: {exc.message}",)
        exc.message = exc.args[0]
        raise


def _argument_text(name: str, text: str) -> bytes | str:
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text
    from onceward.seams import read_named

    return read_named(Path(text[1:]), name=name, fix="name a readable file after the @")


def time_argument(
    name: str,
    text: str,
    *,
    problem: str = "is not a time",
    fix: str = "write it as 2026-01-31 or 2026-01-31T12:00:00Z",
) -> datetime:
    """Return the time that an argument tells, in UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:  # Some zones lead out of the calendar.
        message = f"{name}: {text!r} {problem}"
        raise InvalidArgument(message, fix=fix, field=name) from exc


def object_argument(name: str, text: str) -> dict[str, object]:
    """Return a JSON argument that must be an object."""
    value = json_argument(name, text)
    if not isinstance(value, Mapping):
        message = f"{name}: must be a JSON object"
        raise InvalidArgument(message, fix='pass an object such as {"goal": "…"}', field=name)
    return dict(value)


def array_argument(name: str, text: str) -> Sequence[object]:
    """Return a JSON argument that must be an array."""
    value = json_argument(name, text)
    if not isinstance(value, list):
        message = f"{name}: must be a JSON array"
        raise InvalidArgument(message, fix='pass an array such as [{"path": "a.py"}]', field=name)
    return value

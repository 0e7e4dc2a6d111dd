"""Output: how commands read JSON arguments and speak to people and to machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.errors import FileMissing, InvalidArgument, OncewardError, StorageError

if TYPE_CHECKING:
    from onceward.journal import Page

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", help="Rules of alerts; else `onceward.toml` here, else in `$ONCEWARD_HOME`."
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
    path = Path(text[1:])
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        message = f"{name}: {path} does not exist"
        raise FileMissing(message, fix="name an existing file after the @") from exc
    except OSError as exc:
        message = f"{name}: cannot read {path}: {exc.strerror}"
        raise StorageError(message, fix="name a readable file after the @") from exc


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

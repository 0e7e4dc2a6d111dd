"""Output: read JSON arguments, and print results, errors and warnings as text or JSON."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from onceward.errors import InvalidArgument, OncewardError

if TYPE_CHECKING:
    from onceward.journal import RecordPage

JsonFlag = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
#: The `--json` option of commands that print records after a cursor.
PageJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object with `items`, `nextCursor` and `fingerprint`."
    ),
]
#: The fingerprint of the file that a cursor belongs to.
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        help="The `fingerprint` that --json printed with the cursor; fails if the file was "
        "replaced. Default: not checked.",
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        help="TOML file with retention and further alert rules. Default: `onceward.toml` in this "
        "directory, else in `$ONCEWARD_HOME`, else the built-in settings only.",
    ),
]


def _without_types_of_flags(parameters: list[Any]) -> list[Any]:
    """Show a flag in help as a flag: Typer would print `<bool>` after it."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


class HelpfulCommand(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's signature
        """Return the parameters, with flags as flags."""
        return _without_types_of_flags(super().get_params(ctx))


class HelpfulGroup(TyperGroup):
    """A group whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's signature
        """Return the parameters, with flags as flags."""
        return _without_types_of_flags(super().get_params(ctx))


class CommandGroup(typer.Typer):
    """A Typer app whose commands are `HelpfulCommand`s."""

    def command(self, *names: Any, **options: Any) -> Any:  # noqa: ANN401 - Typer's signature
        """Register a command."""
        return super().command(*names, **{"cls": HelpfulCommand, **options})


def group(help_text: str) -> typer.Typer:
    """Make a group of commands that shows its help when no command is named."""
    made = CommandGroup(
        cls=HelpfulGroup, add_completion=False, rich_markup_mode="markdown", help=help_text
    )

    @made.callback(invoke_without_command=True)
    def show_help(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())

    return made


def single(command: Callable[..., None]) -> typer.Typer:
    """Make an app of one command."""
    made = CommandGroup(add_completion=False, rich_markup_mode="markdown")
    made.command()(command)
    return made


def user_name() -> str:
    """Return the user's name, as the actor of a change or the sender of a message."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without a name, as in some containers.
        return "unknown"


def print_json(value: object) -> None:
    """Print one line of JSON."""
    from onceward.keys.encoding import encoded

    print(encoded(value).decode(), flush=True)


def print_page(page: RecordPage, *, json_output: bool) -> None:
    """Print the records of a page, one per line; as JSON one object with the next cursor."""
    if json_output:
        print_json({"items": page.items, "nextCursor": page.next_cursor, "fingerprint": page.tag})
        return
    for item in page.items:
        print_json(item)


def print_error(error: OncewardError) -> None:
    """Print an error and its fix on stderr, as JSON with `--json`."""
    if "--json" in sys.argv:
        import orjson

        print(orjson.dumps(error.to_dict(), default=str).decode(), file=sys.stderr)
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.fix:
        print(f"fix: {error.fix}", file=sys.stderr)


def warn(message: str) -> None:
    """Print a warning on stderr."""
    print(f"warning: {message}", file=sys.stderr)


def reject_fingerprint(fingerprint: str | None) -> None:
    """Reject --fingerprint with `--since end`: no earlier cursor belongs to it."""
    if fingerprint is not None:
        message = "fingerprint: belongs to a cursor, and --since end is none; nothing was read"
        fix = "omit --fingerprint, or pass the cursor that was printed with it to --since"
        raise InvalidArgument(message, fix=fix, field="fingerprint")


def json_argument(name: str, text: str) -> object:
    """Return the JSON value of an argument: inline, `@file`, or `-` for standard input."""
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
    from onceward.system import read_user_file

    return read_user_file(Path(text[1:]), name=name, fix="pass a readable file after the @")


def time_argument(
    name: str,
    text: str,
    *,
    problem: str = "is not a time",
    fix: str = "write it as 2026-01-31 or 2026-01-31T12:00:00Z",
) -> datetime:
    """Parse an ISO 8601 argument; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:  # Converting some zones overflows the calendar.
        message = f"{name}: {text!r} {problem}"
        raise InvalidArgument(message, fix=fix, field=name) from exc


def object_argument(name: str, text: str) -> dict[str, object]:
    """Return a JSON argument that must be an object."""
    value = json_argument(name, text)
    if not isinstance(value, Mapping):
        message = f"{name}: must be a JSON object"
        fix = 'pass one object, {"name": value, …}: inline, as @file, or - for standard input'
        raise InvalidArgument(message, fix=fix, field=name)
    return dict(value)


def array_argument(name: str, text: str) -> Sequence[object]:
    """Return a JSON argument that must be an array."""
    value = json_argument(name, text)
    if not isinstance(value, list):
        message = f"{name}: must be a JSON array"
        raise InvalidArgument(message, fix='pass an array such as [{"path": "a.py"}]', field=name)
    return value

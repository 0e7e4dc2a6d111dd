"""`onceward dead`: messages that were given up, and what to do with them."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.output import JsonFlag, group, print_json, time_argument
from onceward.cli.tables import visible
from onceward.errors import InvalidArgument
from onceward.seams import timestamp

if TYPE_CHECKING:
    from onceward.retries import DeadLetter, DeadLetterDetail, DeadLetters

app = group("List, show, redrive and drop messages that were given up.")

#: How much of a message is shown to people.
RAW_SHOWN_BYTES: Final = 1_024

_Letter = Annotated[int, typer.Argument(help="The number of a dead letter.")]
_Cursor = Annotated[str | None, typer.Option(help="Only those of this cursor.")]
_Key = Annotated[str | None, typer.Option(help="Only those with this key.")]
_Since = Annotated[
    str | None, typer.Option(help="Only those that died at this time or later, as in ISO 8601.")
]
_State = Annotated[
    Literal["dead", "redriven", "dropped", "all"], typer.Option(help="Only those in this state.")
]
_Limit = Annotated[int, typer.Option(help="At most this many.")]
_Actor = Annotated[str | None, typer.Option(help="Who decides; you, unless told otherwise.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and stop.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


@app.command(name="list")
def list_letters(
    cursor: _Cursor = None,
    key: _Key = None,
    since: _Since = None,
    state: _State = "dead",
    limit: _Limit = 100,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """List dead letters, newest first.

    Example: `onceward dead list --cursor lead_intake_v1 --store sqlite:///work.db`
    """
    from onceward.retries.views import plain

    wanted = None if state == "all" else state
    moment = None if since is None else time_argument("since", since)
    with _opened(store) as dead:
        found = dead.list(cursor=cursor, key=key, since=moment, state=wanted, limit=limit)
    if json_output:
        print_json({"items": [plain(letter) for letter in found]})
    else:
        _print_table(found)


@app.command()
def show(
    letter: _Letter,
    raw: Annotated[bool, typer.Option("--raw", help="Write only the message's bytes.")] = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Show one dead letter: the message, the error, and every attempt.

    Example: `onceward dead show 7 --store sqlite:///work.db`
    """
    from onceward.retries.views import plain

    with _opened(store) as dead:
        found = dead.show(letter)
    if raw:
        sys.stdout.buffer.write(found.raw)
        sys.stdout.buffer.flush()
    elif json_output:
        print_json(plain(found))
    else:
        _print_detail(found)


@app.command()
def redrive(
    ids: Annotated[list[int] | None, typer.Argument(help="The numbers of dead letters.")] = None,
    cursor: _Cursor = None,
    key: _Key = None,
    since: _Since = None,
    limit: _Limit = 1_000,
    actor: _Actor = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Put messages back, to be tried at once; by number, or all that fit, oldest first.

    Redriving twice is harmless. Example: `onceward dead redrive --cursor lead_intake_v1 --dry-run`
    """
    from onceward.retries import DeadFilter

    if bool(ids) == any(each is not None for each in (cursor, key, since)):
        message = "ids: name letters, or a filter, and not both"
        fix = "pass numbers, or --cursor, --key or --since"
        raise InvalidArgument(message, fix=fix, field="ids")
    moment = None if since is None else time_argument("since", since)
    wanted = DeadFilter(cursor=cursor, key=key, since=moment, limit=limit)
    with _opened(store) as dead:
        chosen = tuple(ids) if ids else dead.matching(wanted)
        if dry_run:
            would = [number for number in chosen if dead.show(number).state == "dead"]
            _tell(json_output, f"would redrive {_numbers(would)}", wouldRedrive=would)
            return
        if not ids:
            _confirm(f"Put {len(chosen)} messages back?", yes=yes, json_output=json_output)
        done = dead.redrive(chosen, actor=actor or _me())
    said = f"redriven {_numbers(done.ids)}"
    if done.skipped:
        said += f"; left alone, since not dead any more: {_numbers(done.skipped)}"
    _tell(json_output, said, redriven=list(done.ids), skipped=list(done.skipped))


@app.command()
def drop(
    letter: _Letter,
    reason: Annotated[str, typer.Option(help="Why it is given up; kept with the letter.")],
    actor: _Actor = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    store: StoreUrl = None,
    json_output: JsonFlag = False,
) -> None:
    """Give a message up for good; its letter stays to be read.

    Example: `onceward dead drop 7 --reason "a test message" --yes`
    """
    with _opened(store) as dead:
        found = dead.show(letter)
        if dry_run:
            would = [letter] if found.state == "dead" else []
            _tell(json_output, f"would drop {_numbers(would)}", wouldDrop=would)
            return
        question = f"Give up {found.position} of {found.cursor} for good?"
        _confirm(question, yes=yes, json_output=json_output)
        done = dead.drop(letter, reason=reason, actor=actor or _me())
    said = f"dropped {letter}" if done else f"left alone: {letter} is not dead any more"
    _tell(json_output, said, dropped=[letter] if done else [])


@contextmanager
def _opened(store: str | None) -> Iterator[DeadLetters]:
    from onceward.handle import open as open_handle

    with open_handle(store) as handle:
        yield handle.dead


def _confirm(question: str, *, yes: bool, json_output: bool) -> None:
    """Ask before work is repeated or lost; whoever cannot be asked must have said yes."""
    if yes:
        return
    if json_output or not _can_ask():
        message = "yes: this repeats or loses work, so it wants a yes"
        raise InvalidArgument(message, fix="look with --dry-run, then pass --yes", field="yes")
    typer.confirm(question, abort=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _tell(json_output: bool, text: str, **values: object) -> None:
    if json_output:
        print_json(values)
    else:
        print(text)


def _numbers(ids: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, ids)) or "nothing"


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A user without a name, as in some containers.
        return "unknown"


def _print_table(letters: list[DeadLetter]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not letters:
        print("no dead letters")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "died", "cursor", "position", "key", "tries", "error"):
        # Those that must be whole do not give way; the others are cut where the space ends.
        table.add_column(heading, no_wrap=heading in ("id", "died", "tries"))
    for letter in letters:
        state = "" if letter.state == "dead" else f"[{letter.state}] "
        cells = (
            *(str(letter.id), timestamp(letter.dead_at)[:16] + "Z", letter.cursor, letter.position),
            *(letter.key or "", str(letter.attempts)),
            f"{state}{letter.error_type}: {letter.error_message}",
        )
        table.add_row(*(Text(visible(cell), no_wrap=True, overflow="ellipsis") for cell in cells))
    Console().print(table)


def _print_detail(letter: DeadLetterDetail) -> None:
    from onceward.retries.views import plain

    for name, value in plain(letter).items():
        if name not in ("raw_base64", "error_trace", "failures"):
            print(f"{name:<16} {visible(str(value)) if value is not None else ''}")
    print("attempts:")
    for each in letter.failures:
        print(f"  {each.attempt:<3} {timestamp(each.at)} {visible(each.error)}")
    print("trace:")
    for line in letter.error_trace.splitlines():
        print(f"  {visible(line)}")
    shown = letter.raw[:RAW_SHOWN_BYTES]
    print(f"message, {len(shown)} of {letter.raw_size} bytes:")
    for line in shown.decode(errors="backslashreplace").splitlines():
        print(f"  {visible(line)}")

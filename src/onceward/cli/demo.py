"""`onceward demo`: the story of what survives, told in a terminal in a minute, and counted."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.output import JsonFlag, print_json
from onceward.cli.stopping import interrupt, on_stop
from onceward.errors import Conflict, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.demo.stage import Event
    from onceward.demo.story import Story
    from onceward.demo.tally import Row

SECONDS_MIN: Final = 5.0
SECONDS_MAX: Final = 3600.0
_COLUMNS: Final = {
    "part": "",
    "done": "done",
    "killed": "killed",
    "retried": "retried",
    "taken_over": "taken over",
    "refused": "refused",
    "lost": "lost",
    "doubled": "doubled",
}


def demo(
    seconds: Annotated[
        float,
        typer.Option(help="How long workers are under fire.", min=SECONDS_MIN, max=SECONDS_MAX),
    ] = 25.0,
    keep: Annotated[
        Path | None,
        typer.Option(help="Play in this directory, which must be empty, and keep it."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="`postgresql://…` of an empty database; else a file of its own."),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """See workers, agents and a dispatcher killed, and nothing lost or done twice.

    All five systems with real processes: kill -9, a frozen worker, retries. The table at the end is
    counted from the store and the files. Exit 1 when anything was lost or doubled.

    Example: `onceward demo --seconds 15`
    """
    from onceward.demo import DemoWorld
    from onceward.demo.story import Options, tell_story
    from onceward.demo.world import store_in

    with _home(keep) as home, on_stop(interrupt):
        world = DemoWorld(home=home, store_url=store or store_in(home))
        _check_store(world.store_url)
        told = tell_story(world, _silent if json_output else _print, Options(seconds=seconds))
    if json_output:
        print_json(_as_json(told, keep))
    else:
        _print_table(told)
        if keep is not None:
            print(f"kept in {home}; look at it with `ONCEWARD_HOME={home} onceward up`")
    if not told.total.is_kept:
        raise typer.Exit(1)


@contextlib.contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    """Give a directory for everything, which is gone afterwards unless it is to be kept."""
    if keep is None:
        with tempfile.TemporaryDirectory(
            prefix="onceward-demo-", ignore_cleanup_errors=True
        ) as made:
            yield Path(made).resolve()
        return
    home = keep.expanduser().resolve()
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        message = f"--keep {keep} is there already, and is not an empty directory"
        raise Conflict(message, fix="name a directory that does not exist", path=str(keep))
    yield home


def _check_store(url: str) -> None:
    if not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        message = f"--store {url!r} is not the address of a store"
        fix = "write postgresql://user@host/database, or leave --store out"
        raise InvalidArgument(message, fix=fix, field="store")


# --- telling -------------------------------------------------------------------------------------


def _silent(_: Event) -> None:
    """Say nothing before the end."""


def _print(event: Event) -> None:
    from rich.console import Console
    from rich.text import Text

    line = Text(f"{event.at:5.1f} s  {event.part:<9}")
    line.append(event.text, style="bold" if event.is_blow else "")
    Console(file=sys.stdout, highlight=False).print(line, soft_wrap=True)


def _print_table(told: Story) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(_COLUMNS.values()):
        table.add_column(title, justify="left" if number == 0 else "right")
    for row in told.rows:
        table.add_row(*_cells(row))
    table.add_section()
    table.add_row(*_cells(told.total), style="bold")
    console = Console(highlight=False)
    console.print(table)
    verdict = "nothing was lost, nothing was done twice"
    if not told.total.is_kept:
        verdict = f"{told.total.lost} lost and {told.total.doubled} done twice: please report it"
    after = f"counted from the store and the files, after {told.seconds:.0f} s"
    console.print(f"{verdict}; {after}", soft_wrap=True)


def _cells(row: Row) -> list[str]:
    return [str(getattr(row, name)) for name in _COLUMNS]


def _as_json(told: Story, keep: Path | None) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "ok": told.total.is_kept,
        "seconds": told.seconds,
        "parts": [asdict(row) for row in told.rows],
        "total": asdict(told.total),
        "events": [asdict(event) for event in told.events],
        "kept": None if keep is None else str(keep.expanduser().resolve()),
    }

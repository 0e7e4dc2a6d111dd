"""`onceward demo`: kill processes for a minute, and count what was lost or repeated."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.output import JsonFlag, print_json
from onceward.cli.stop_signals import interrupt, on_stop
from onceward.errors import Conflict, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceward.demo.interleaving import StageEvent
    from onceward.demo.result_counts import Row
    from onceward.demo.short_demo import DemoResult

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
        typer.Option(
            help="Seconds during which workers are killed and frozen.",
            min=SECONDS_MIN,
            max=SECONDS_MAX,
        ),
    ] = 25.0,
    keep: Annotated[
        Path | None,
        typer.Option(help="Use this new or empty directory and keep it. Default: a temporary one."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="URL of a database without Onceward's tables; the demo's tables and rows stay in "
            "it. Default: a new SQLite file in the demo's directory."
        ),
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """Start workers, agents and a dispatcher, kill them, and count work lost or done twice.

    It starts real processes of its own, kills them with `kill -9` and freezes some. The final table
    is counted from the store and the files. Retries, takeovers and refused stale writes are
    expected; `lost` and `doubled` (done twice) must be 0. Exit 1 if they are not, if --keep is not
    a new or empty directory, or if --store has Onceward's tables.

    Example: `onceward demo --seconds 15`
    """
    from onceward.demo import DemoWorld
    from onceward.demo.demo_home import store_in
    from onceward.demo.short_demo import DemoOptions, run_short_demo

    with _home(keep) as home, on_stop(interrupt):
        world = DemoWorld(home=home, store_url=store or store_in(home))
        _check_store(world.store_url)
        result = run_short_demo(
            world, _silent if json_output else _print, DemoOptions(seconds=seconds)
        )
    if json_output:
        print_json(_as_json(result, keep))
    else:
        _print_table(result)
        if keep is not None:
            print(f"kept in {home}; open it with `ONCEWARD_HOME={home} onceward up`")
    if not result.total.is_kept:
        raise typer.Exit(1)


@contextlib.contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    """Yield the demo's directory; remove it afterwards unless `--keep` is passed."""
    if keep is None:
        with tempfile.TemporaryDirectory(
            prefix="onceward-demo-", ignore_cleanup_errors=True
        ) as made:
            yield Path(made).resolve()
        return
    home = keep.expanduser().resolve()
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        message = f"--keep {keep} exists, and is not an empty directory; nothing was started"
        raise Conflict(message, fix="pass a new or an empty directory", path=str(keep))
    yield home


def _check_store(url: str) -> None:
    if not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        message = f"--store {url!r} is not the URL of a store; no process was started"
        fix = "pass sqlite:///path or postgresql://user@host/database, or omit --store"
        raise InvalidArgument(message, fix=fix, field="store")


# --- output -------------------------------------------------------------------------------------


def _silent(_: StageEvent) -> None:
    """Print no event."""


def _print(event: StageEvent) -> None:
    from rich.console import Console
    from rich.text import Text

    line = Text(f"{event.at:5.1f} s  {event.part:<9}")
    line.append(event.text, style="bold" if event.is_blow else "")
    Console(file=sys.stdout, highlight=False).print(line, soft_wrap=True)


def _print_table(result: DemoResult) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(_COLUMNS.values()):
        table.add_column(title, justify="left" if number == 0 else "right")
    for row in result.rows:
        table.add_row(*_cells(row))
    table.add_section()
    table.add_row(*_cells(result.total), style="bold")
    console = Console(highlight=False)
    console.print(table)
    verdict = "nothing was lost, nothing was done twice"
    if not result.total.is_kept:
        verdict = (
            f"{result.total.lost} lost and {result.total.doubled} done twice: please report it"
        )
    after = f"counted from the store and the files, after {result.seconds:.0f} s"
    console.print(f"{verdict}; {after}", soft_wrap=True)


def _cells(row: Row) -> list[str]:
    return [str(getattr(row, name)) for name in _COLUMNS]


def _as_json(result: DemoResult, keep: Path | None) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "ok": result.total.is_kept,
        "seconds": result.seconds,
        "parts": [asdict(row) for row in result.rows],
        "total": asdict(result.total),
        "events": [asdict(event) for event in result.events],
        "kept": None if keep is None else str(keep.expanduser().resolve()),
    }

"""`onceward db`: the schema of a store."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.output import JsonFlag, group, print_json

if TYPE_CHECKING:
    from onceward.stores import Store

app = group("Bring a store's schema up to date, and look at its health.")

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="`sqlite:///path` or `postgresql://…`; else `$ONCEWARD_STORE`, else our own file.",
    ),
]


@app.command()
def migrate(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Apply the migrations that are missing; harmless to repeat.

    Example: `onceward db migrate --store sqlite:///work.db`
    """
    from onceward.stores import migrate as bring_up_to_date
    from onceward.stores import open_store

    with closing(open_store(store)) as opened:
        done = bring_up_to_date(opened)
    if json_output:
        print_json({"url": opened.url, "applied": done})
    else:
        print(f"applied {', '.join(map(str, done))}" if done else "nothing to do")


@app.command()
def status(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Say which migrations a store has seen; exit 1 when it does not fit this version.

    Example: `onceward db status --store postgresql://localhost/work`
    """
    from onceward.stores import status as compare

    with closing(_existing(store)) as opened:
        found = compare(opened)
    if json_output:
        unknown, pending = list(found.unknown), [number for number, _ in found.pending]
        applied = list(found.applied)
        answer = {"url": opened.url, "applied": applied, "pending": pending, "unknown": unknown}
        print_json(answer)
    else:
        print(f"store    {opened.url}")
        print(f"applied  {', '.join(map(str, found.applied)) or 'none'}")
        for number, name in found.pending:
            print(f"pending  {number} {name}")
        for number in found.unknown:
            print(f"unknown  {number}: a newer Onceward was here")
    if found.pending or found.unknown:
        raise typer.Exit(1)


@app.command()
def check(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Let the engine check the database itself; exit 1 when it finds something.

    Example: `onceward db check --store sqlite:///work.db`
    """
    with closing(_existing(store)) as opened:
        opened.applied()
        problems = opened.problems()
    if json_output:
        print_json({"url": opened.url, "ok": not problems, "problems": problems})
    else:
        print("\n".join(problems) or "ok")
    if problems:
        raise typer.Exit(1)


def _existing(url: str | None) -> Store:
    """Open a store that is there: who only looks must not make one, least of all by a slip."""
    from onceward.errors import FileMissing
    from onceward.stores import open_store

    opened = open_store(url)
    path = getattr(opened, "path", None)
    if path is not None and not path.exists():
        fix = f"look at the path, or make a store there: onceward db migrate --store {opened.url}"
        message = f"there is no store at {path}"
        raise FileMissing(message, fix=fix)
    return opened

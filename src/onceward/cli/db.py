"""`onceward db`: migrate and check a store's schema, and prepare the tables of an app."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import typer

from onceward.cli.db_prepare import prepare
from onceward.cli.output import JsonFlag, group, print_json
from onceward.cli.store_option import ExistingStoreUrl, StoreUrl

if TYPE_CHECKING:
    from onceward.stores import Store

app = group("Migrate and check a store, and prepare the tables of an app.")

app.command()(prepare)


@app.command()
def migrate(store: StoreUrl = None, json_output: JsonFlag = False) -> None:
    """Create the tables of a store, or bring them up to date; idempotent.

    Most commands that open a store do this, too. Run it by hand to migrate before the processes of
    a new version start, or with a role that may create tables. If a newer version made the store,
    nothing is changed; exit 1.

    Example: `onceward db migrate --store sqlite:///work.db`
    """
    from onceward.stores import migrate as bring_up_to_date
    from onceward.stores import open_store

    with closing(open_store(store)) as opened:
        done = bring_up_to_date(opened)
    if json_output:
        print_json({"url": opened.url, "applied": done})
    else:
        print(f"applied {', '.join(map(str, done))}" if done else "no pending migrations")


@app.command()
def status(store: ExistingStoreUrl = None, json_output: JsonFlag = False) -> None:
    """Show applied, pending and unknown migrations; exit 1 if any is pending or unknown.

    Most commands apply pending ones; unknown ones need the version that made them, or a newer one.
    Creates no tables and no files; an existing SQLite file is switched to WAL mode. Exit 2 if the
    SQLite file does not exist.

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
        if found.is_earlier:
            print("unknown  the store was created by an earlier development version")
        for number in () if found.is_earlier else found.unknown:
            print(f"unknown  {number}: applied by a newer Onceward")
    if found.pending or found.unknown:
        raise typer.Exit(1)


@app.command()
def check(store: ExistingStoreUrl = None, json_output: JsonFlag = False) -> None:
    """Check the pages of an SQLite store; exit 1 if one is damaged, 2 if the file is missing.

    Creates no tables; an SQLite file gets WAL mode. PostgreSQL checks its pages when it reads them,
    so here it only connects.

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
    """Open an existing store: read-only commands do not create one."""
    from onceward.errors import FileMissing
    from onceward.stores import open_store

    opened = open_store(url)
    path = getattr(opened, "path", None)
    if path is not None and not path.exists():
        fix = f"check the path, or create the store: onceward db migrate --store {opened.url}"
        message = f"there is no store at {path}"
        raise FileMissing(message, fix=fix)
    return opened

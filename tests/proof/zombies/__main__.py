"""Freeze processes in one way or in all: `python -m tests.proof.zombies [CELL …] --engine ENGINE`.

Without a cell all of them run, `--quick` the few of every test run, `--list` names them. Prints one
JSON line a cell; a broken promise is an AssertionError, a line that repeats it, and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onceward.testing.postgres import PostgresServer
from tests.proof.zombies import dispatching, leasing, moments, serving, settling
from tests.proof.zombies.cells import Cell, Place

#: Beyond this a cell hangs.
CELL_SECONDS_MAX = 180
_FAMILIES = (leasing, settling, serving, dispatching, moments)
CELLS: dict[str, Cell] = {each.name: each for family in _FAMILIES for each in family.CELLS}


@contextmanager
def place_of(engine: str, url: str | None) -> Iterator[Place]:
    """Give a place: a store that was named, or one of our own."""
    with tempfile.TemporaryDirectory(prefix="zombies-") as directory:
        if url is None and engine == "postgres":
            server = PostgresServer()
            server.start()
            try:
                yield Place(url=server.new_database("zombies"), directory=Path(directory))
            finally:
                server.close()
        else:
            made = url or f"sqlite:///{directory}/zombies.db"
            yield Place(url=made, directory=Path(directory))


def run(cell: Cell, place: Place) -> None:
    """Run one cell; the reader of its failure can repeat it."""
    signal.alarm(CELL_SECONDS_MAX)
    try:
        seen = cell.run(place)
    except BaseException as exc:
        again = f"REPRO: python -m tests.proof.zombies {cell.name} --engine {place.engine}"
        exc.add_note(again)
        raise
    finally:
        signal.alarm(0)
    sys.stdout.write(json.dumps(cell.row(place, seen)) + "\n")
    sys.stdout.flush()


def give_up(*_: object) -> None:
    """End a cell that hangs, so that it is named."""
    message = f"it does not end within {CELL_SECONDS_MAX} s"
    raise AssertionError(message)


def main() -> None:
    """Run what the command line says."""
    example = "example: python -m tests.proof.zombies before-commit --engine postgres"
    parser = argparse.ArgumentParser(prog="python -m tests.proof.zombies", epilog=example)
    parser.add_argument("cells", nargs="*", metavar="CELL", help="which; all unless named")
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--url", help="a store that is there, instead of one of its own")
    parser.add_argument("--quick", action="store_true", help="the few of every test run")
    parser.add_argument("--list", action="store_true", help="name the cells")
    given = parser.parse_args()
    if given.list:
        for each in CELLS.values():
            sys.stdout.write(f"{each.name:24} {each.point}\n")
        return
    chosen = [CELLS[name] for name in given.cells] or list(CELLS.values())
    signal.signal(signal.SIGALRM, give_up)
    with place_of(given.engine, given.url) as place:
        for cell in chosen:
            if place.engine in (cell.quick_on if given.quick else cell.engines):
                run(cell, place)


if __name__ == "__main__":
    main()

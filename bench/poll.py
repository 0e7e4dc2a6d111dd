"""Measure polls of the last ten entries: a large journal must cost no more than a small one."""

import tempfile
from pathlib import Path

from bench.journals import make
from bench.table import Row, growth
from bench.timing import Round, Run, timed, turns
from bench.units import micro
from onceward.journal import Journal

CALLS = 500


def polls(path: Path, size: int) -> Round:
    """Return rounds of polls of a journal of that size, from ten entries before its end."""
    make(path, size)
    journal = Journal(path)
    cursor, _ = journal.end()
    journal.append(*({"id": str(number), "notes": "y" * 200} for number in range(10)))
    assert len(journal.read(cursor).items) == 10

    def poll() -> None:
        for _ in range(CALLS):
            journal.read(cursor)

    return timed(poll, CALLS)


def rows(run: Run) -> list[Row]:
    large = run.size(1024**3, quick=16 * 1024**2)
    with tempfile.TemporaryDirectory() as directory:
        rounds = {
            "small": polls(Path(directory) / "small", 1024**2),
            "large": polls(Path(directory) / "large", large),
        }
        found = turns(rounds, run.repetitions(9))
    return [
        Row(
            work="poll of the last 10 entries of a journal of 1 GB",
            ours=found["large"],
            shown=micro,
            besides=(growth("with 1 MB", found["small"], 1.3),),
            is_headline=True,
        )
    ]

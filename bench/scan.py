"""Measure a scan of a journal for one session, beside a bare read of the same file."""

import os
import tempfile
from pathlib import Path

from bench.journals import make, session_id
from bench.table import Row, limit
from bench.timing import Run, spread, timed, turns
from bench.units import megabytes
from onceward.journal import Journal

CHUNK = 1024**2


def bare(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    while os.read(descriptor, CHUNK):
        pass
    os.close(descriptor)


def filtered(path: Path, session: str) -> int:
    journal = Journal(path)
    since, found = "0", 0
    while True:
        page = journal.read(since, 500, {"sessionId": session})
        found += len(page.items)
        if page.next_cursor == since:
            return found
        since = page.next_cursor


def rows(run: Run) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal.jsonl"
        make(path, run.size(256 * 1024**2, quick=8 * 1024**2))
        size = path.stat().st_size
        assert filtered(path, session_id(42)) > 100
        found = turns(
            {
                "bare": timed(lambda: bare(path), size),
                "matching": timed(lambda: filtered(path, session_id(42)), size),
                "nothing": timed(lambda: filtered(path, session_id(4242)), size),
            },
            run.repetitions(5),
        )
    without = megabytes(spread(found["nothing"]).median)
    why = f"Where nothing matches it is {without}; the rest is finding and parsing what does."
    return [
        Row(
            work=f"filtered scan of a journal, {label}",
            ours=found[name],
            shown=megabytes,
            besides=(limit("a bare read", found["bare"], 0.25, why if name == "matching" else ""),),
        )
        for name, label in (("matching", "1 % match"), ("nothing", "nothing matches"))
    ]

"""Polling the last ten entries of a small and of a large journal: history must cost nothing."""

import tempfile
from pathlib import Path

from bench.journals import make
from bench.table import Row, interleaved
from onceward.journal import Journal

CALLS = 500
SMALL, LARGE = 1024**2, 1024**3


def with_ten_more(path: Path, size: int) -> tuple[Journal, str]:
    """Return a journal of that size, and the cursor ten entries before its end."""
    make(path, size)
    journal = Journal(path)
    cursor, _ = journal.end()
    journal.append(*({"id": str(number), "notes": "y" * 200} for number in range(10)))
    assert len(journal.read(cursor).items) == 10
    return journal, cursor


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        small, small_cursor = with_ten_more(Path(directory) / "small", SMALL)
        large, large_cursor = with_ten_more(Path(directory) / "large", LARGE)
        seconds = interleaved(
            [
                lambda: [small.read(small_cursor) for _ in range(CALLS)],
                lambda: [large.read(large_cursor) for _ in range(CALLS)],
            ],
            rounds=9,
        )
    few, many = (each / CALLS * 1e6 for each in seconds)
    return [
        Row(
            work="poll of the last 10 entries",
            ours=f"1 GB file {many:.0f} µs",
            peer=f"1 MB file {few:.0f} µs",
            ratio=many / few,
            goal=1.3,
            better="below",
        )
    ]

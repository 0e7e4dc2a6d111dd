"""Scanning a whole journal for one session, beside a bare read of the same file."""

import os
import tempfile
from pathlib import Path

from bench.journals import make, session_id
from bench.table import Row, interleaved
from onceward.journal import Journal

SIZE = 256 * 1024**2
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


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal.jsonl"
        make(path, SIZE)
        size = path.stat().st_size
        assert filtered(path, session_id(42)) > 1000
        results = interleaved(
            [
                lambda: bare(path),
                lambda: filtered(path, session_id(42)),
                lambda: filtered(path, session_id(4242)),
            ]
        )
    read, matching, nothing = (size / 1e6 / seconds for seconds in results)
    return [
        Row(
            work=f"filtered scan, {label}",
            ours=f"{rate:.0f} MB/s",
            peer=f"bare read {read:.0f} MB/s",
            ratio=rate / read,
            goal=0.25,
        )
        for label, rate in (("1 % match", matching), ("nothing matches", nothing))
    ]

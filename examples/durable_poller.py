"""An agent that reads a journal and may be killed at any moment: run it twice, nothing comes twice.

python examples/durable_poller.py feedback.jsonl
"""

import json
import sys
from pathlib import Path

from onceward.errors import InvalidCursor
from onceward.journal import Journal, RecordPage, atomic_file


def next_page(journal: Journal, kept: Path) -> RecordPage:
    """Read on from where the last run stopped."""
    place = json.loads(kept.read_text()) if kept.exists() else {"since": "0", "tag": None}
    try:
        return journal.read(place["since"], tag=place["tag"])
    except InvalidCursor as exc:
        print(f"starting again: {exc.message}", file=sys.stderr)
        return journal.read("0")


def main(path: Path) -> None:
    """Print what is new, then remember how far we came."""
    journal, kept = Journal(path), path.with_suffix(".cursor")
    while True:
        page = next_page(journal, kept)
        for record in page.items:
            # A crash before the cursor is kept repeats this page, so work must be keyed by the id.
            print(record["id"])
        place = {"since": page.next_cursor, "tag": page.tag}
        atomic_file.write(kept, json.dumps(place).encode())
        if not page.items:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))

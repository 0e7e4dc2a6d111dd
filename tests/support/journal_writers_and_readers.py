"""Several processes append to one journal while others poll it; prints what each reader saw.

Run as `python -m tests.support.journal_writers_and_readers PATH WRITERS RECORDS READERS SEED`.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from onceward.journal import Journal


def write(path: Path, writer: int, records: int, seed: int) -> None:
    source = random.Random(seed + writer)
    journal = Journal(path)
    number = 0
    while number < records:
        size = min(source.choice([1, 1, 1, 2, 5]), records - number)
        notes = "y" * source.randint(0, 300)
        journal.append(*({"id": f"{writer}-{number + n}", "notes": notes} for n in range(size)))
        number += size


def read(path: Path, seen: Path, total: int, seed: int) -> None:
    source = random.Random(seed)
    journal = Journal(path)
    names: list[str] = []
    since, tag = "0", None
    while len(names) < total:
        page = journal.tail(since, source.randint(1, 700), tag=tag, wait=30)
        names += [item["id"] for item in page.items]
        since, tag = page.next_cursor, page.tag
    assert journal.read(since, tag=tag).items == []
    seen.write_text(json.dumps(names))


def in_child(work: Callable[..., None], *arguments: object) -> int:
    child = os.fork()
    if child == 0:
        work(*arguments)
        os._exit(0)
    return child


def main(path: Path, writers: int, records: int, readers: int, seed: int) -> None:
    total = writers * records
    children = [
        in_child(read, path, path.with_name(f"seen-{reader}"), total, seed + reader)
        for reader in range(readers)
    ]
    children += [in_child(write, path, writer, records, seed) for writer in range(writers)]
    for child in children:
        _, status = os.waitpid(child, 0)
        assert status == 0, status


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))

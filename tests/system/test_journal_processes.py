"""Many writers and readers of one journal."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

WRITERS, RECORDS, READERS, SEED = 8, 5000, 3, 7


def test_eight_writers_and_every_reader_sees_every_record_once_in_file_order(
    tmp_path: Path,
) -> None:
    """40,000 records of eight processes, polled with random limits: each once, in file order."""
    path = tmp_path / "journal.jsonl"
    numbers = [str(number) for number in (WRITERS, RECORDS, READERS, SEED)]
    command = [
        sys.executable,
        "-m",
        "tests.support.journal_writers_and_readers",
        str(path),
        *numbers,
    ]
    subprocess.run(command, check=True)
    in_file = [json.loads(line)["id"] for line in path.read_bytes().splitlines()]
    assert Counter(in_file) == Counter(
        f"{writer}-{number}" for writer in range(WRITERS) for number in range(RECORDS)
    )
    for reader in range(READERS):
        assert json.loads(path.with_name(f"seen-{reader}").read_text()) == in_file
    for writer in range(WRITERS):
        own = [name for name in in_file if name.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(RECORDS)]

"""Ledger: lines with checksums, and a torn end that stops no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.errors import FileMissing
from onceward.orchestrator.ledger import Ledger
from onceward.system import ManualClock, SystemFiles


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "events" / "run.ndjson", files=SystemFiles(), clock=ManualClock())


def test_records_come_back_as_they_were(ledger: Ledger) -> None:
    """Number, time, kind and fields, in order; the checksum stays in the file."""
    for number in (1, 2, 3):
        ledger.append(number, "note", {"text": "ü" * number, "deep": {"a": [1.5, None]}})
    read = ledger.read()
    assert [each["seq"] for each in read.records] == [1, 2, 3]
    assert list(read.records[0]) == ["seq", "at", "kind", "text", "deep"]
    assert (read.damaged, read.torn_bytes) == ([], 0)


def test_h28_a_torn_last_line_is_passed_over(ledger: Ledger) -> None:
    """The writer died in the middle: what is whole counts, and the next record is readable."""
    ledger.append(1, "note", {"text": "whole"})
    whole = ledger.path.read_bytes()
    for cut in range(1, len(whole)):
        ledger.path.write_bytes(whole + whole[:cut])
        read = ledger.read()
        assert [each["seq"] for each in read.records] == [1]
        assert read.torn_bytes == cut
        ledger.truncate_torn_line(read)
        ledger.append(2, "note", {"text": "after"})
        read = ledger.read()
        assert [each["seq"] for each in read.records] == [1, 2]
        assert (read.damaged, read.torn_bytes) == ([], 0)


def test_every_changed_byte_is_noticed(ledger: Ledger) -> None:
    """Flip any byte of a line: it is not a record any more, and the others stay."""
    ledger.append(1, "note", {"text": "one"})
    first = len(ledger.path.read_bytes())
    ledger.append(2, "note", {"text": "two"})
    whole = bytearray(ledger.path.read_bytes())
    for place in range(first - 1):
        changed = bytearray(whole)
        changed[place] ^= 0x01
        if changed[place] == 0x0A:
            continue
        ledger.path.write_bytes(changed)
        read = ledger.read()
        assert [each["seq"] for each in read.records] == [2], place
        assert [each.offset for each in read.damaged] == [0]


def test_a_missing_ledger_is_reported(ledger: Ledger) -> None:
    """Not an empty one."""
    assert not ledger.exists()
    with pytest.raises(FileMissing):
        ledger.read()

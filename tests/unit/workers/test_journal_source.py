"""Journal sources: every line is a message, and only of the file that it was read from."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onceward.errors import InvalidCursor
from onceward.journal import Journal, directory_watch
from onceward.testing import CrashFiles
from onceward.workers.source_protocol import Countable, Measurable, Watchable
from onceward.workers.sources import JournalSource, journal
from tests.support.source_counts import check_counts

RECORDS = [{"id": "1"}, {"id": "2"}, {"id": "3"}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


def raws(source: JournalSource, after: str | None = None, limit: int = 100) -> list[bytes]:
    return [item.raw for item in source.read(after, limit)]


def test_it_is_all_that_a_source_can_be(path: Path) -> None:
    """It counts, measures and wakes."""
    source = JournalSource(path)
    assert isinstance(source, Countable)
    assert isinstance(source, Measurable)
    assert isinstance(source, Watchable)


@pytest.mark.parametrize("limit", [1, 2, 3, 600])
def test_every_position_resumes_after_its_line(path: Path, limit: int) -> None:
    """Read in pages of any size, each line comes once, in order."""
    journal_, source = Journal(path), JournalSource(path)
    journal_.append(*({"id": str(number)} for number in range(1000)))
    after: str | None = None
    seen: list[bytes] = []
    while items := source.read(after, limit):
        assert len(items) == min(limit, 1000 - len(seen))
        seen += [item.raw for item in items]
        after = items[-1].position
    assert seen == [b'{"id":"%d"}' % number for number in range(1000)]
    middle = source.read(None, 500)[-1].position
    assert raws(source, middle, 1) == [b'{"id":"500"}']


def test_no_file_is_an_empty_file(tmp_path: Path) -> None:
    """A missing file has no lines, and no lag."""
    source = JournalSource(tmp_path / "later" / "j.jsonl")
    assert source.read(None, 10) == []
    assert source.count(None, None) == 0
    assert source.lag(None).messages == 0


def test_lines_come_as_they_stand(path: Path) -> None:
    """Broken JSON, broken text, bare values and carriage returns are for the consumer to judge."""
    lines = [b'{"broken', b"\xff\xfe", b"7", b'{"id": "1"}  ', b'{"id":"2"}\r', b"\0"]
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n\n  \n\r\n" + b'{"torn":')
    source = JournalSource(path)
    assert raws(source) == lines
    assert source.lag(None).messages == source.count(None, source.read(None, 9)[-1].position) == 6


def test_a_torn_line_is_not_there_yet(path: Path) -> None:
    """It is never given; once the next append has mended it, it is a line like any other."""
    path.write_bytes(b'{"id":"1"}\n{"id":')
    source = JournalSource(path)
    (first,) = source.read(None, 10)
    assert source.read(first.position, 10) == []
    Journal(path).append({"id": "3"})
    assert raws(source, first.position) == [b'{"id":', b'{"id":"3"}']


def test_blank_lines_beyond_one_scan_are_passed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many blank lines there are, the entry after them is found."""
    monkeypatch.setattr("onceward.journal.page_scan.SCAN_BYTES_MAX", 1000)
    monkeypatch.setattr("onceward.journal.line_scanner.BLOCK_BYTES", 100)
    path.write_bytes(b"\n" * 5000 + b'{"id":"1"}\n')
    assert raws(JournalSource(path)) == [b'{"id":"1"}']


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def rewritten(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"2", b"8"))


def truncated(path: Path) -> None:
    os.truncate(path, 5)


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [replaced, rewritten, truncated, removed])
def test_another_file_under_the_name_is_refused(path: Path, change: Callable[[Path], None]) -> None:
    """Nothing is read from the middle of a file that is not the one that was read before."""
    Journal(path).append(*RECORDS)
    source = JournalSource(path)
    position = source.read(None, 2)[-1].position
    change(path)
    for call in (lambda: source.read(position, 10), lambda: source.lag(position)):
        with pytest.raises(InvalidCursor) as caught:
            call()
        assert "onceward cursors seek" in caught.value.fix
    with pytest.raises(InvalidCursor):
        source.count(position, None)
    with pytest.raises(InvalidCursor):
        source.count(None, position)


@pytest.mark.parametrize("position", ["", "x", "-1", "5", "99999", "11-", "11-tag"])
def test_what_is_no_place_in_the_file_is_refused(path: Path, position: str) -> None:
    """Positions of other sources, the middle of a line, and beyond the end."""
    Journal(path).append(*RECORDS)
    if position == "11-":
        assert raws(JournalSource(path), position) == [b'{"id":"2"}', b'{"id":"3"}']
        return
    with pytest.raises(InvalidCursor):
        JournalSource(path).read(position, 10)


def test_a_person_may_seek_to_a_bare_offset(path: Path) -> None:
    """An offset without its tag is taken when a line begins there."""
    Journal(path).append(*RECORDS)
    assert raws(JournalSource(path), "11") == [b'{"id":"2"}', b'{"id":"3"}']
    assert raws(JournalSource(path), "0") == raws(JournalSource(path))


def test_counts_are_between_two_positions(path: Path) -> None:
    """Behind the first, up to and with the second; None is the start, backwards is nothing."""
    Journal(path).append(*RECORDS)
    check_counts(JournalSource(path))


def test_the_lag_says_how_many_and_since_when(path: Path) -> None:
    """Counted in lines; as old as the first of them says it is."""
    journal_ = Journal(path)
    journal_.append(
        {"id": "1", "createdAt": "2026-01-01T00:00:00.000Z"},
        {"id": "2", "createdAt": "2026-01-02T03:04:05.678+01:00", "at": 1767225600},
        {"id": "3"},
    )
    source = JournalSource(path)
    first, second, third = (item.position for item in source.read(None, 10))
    lag = source.lag(None)
    assert (lag.messages, lag.oldest_at) == (3, datetime(2026, 1, 1, tzinfo=UTC))
    assert source.lag(first).oldest_at == datetime(2026, 1, 2, 2, 4, 5, 678000, tzinfo=UTC)
    assert JournalSource(path, time_field="at").lag(first).oldest_at == datetime(
        2026, 1, 1, tzinfo=UTC
    )
    assert (source.lag(second).messages, source.lag(second).oldest_at) == (1, None)
    assert (source.lag(third).messages, source.lag(third).oldest_at) == (0, None)


def test_a_lag_beyond_the_limit_is_not_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query for the lag does not read the whole file."""
    monkeypatch.setattr(journal, "LAG_BYTES_MAX", 20)
    Journal(path).append(*RECORDS)
    source = JournalSource(path)
    assert source.lag(None).messages is None
    assert source.lag(source.read(None, 2)[-1].position).messages == 1


def test_nothing_is_given_out_before_it_is_on_disk() -> None:
    """A position survives any loss of power, although the writer had not synced."""
    disk = CrashFiles()
    path = Path("/log/j.jsonl")
    Journal(path, files=disk, sync=False).append(*RECORDS)
    position = JournalSource(path, files=disk).read(None, 2)[-1].position
    for survivor in disk.crashes():
        assert raws(JournalSource(path, files=survivor), position) == [b'{"id":"3"}']


class Woken:
    """Counts, and lets a test wait for the count."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, timeout=60)


@pytest.mark.parametrize("has_events", [True, False])
def test_an_append_by_another_process_wakes(
    path: Path, has_events: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With file events or without, an append wakes the consumer; afterwards none does."""
    if not has_events:
        monkeypatch.setattr(directory_watch, "_notifier", lambda _directory: None)
    append = "import sys; from onceward.journal import Journal; Journal(sys.argv[1]).append({})"
    woken = Woken()
    # A new file is made and then written to, which may be noticed as two changes.
    Journal(path).append({"id": "0"})
    with JournalSource(path).watching(woken):
        subprocess.run([sys.executable, "-c", append, path], check=True)
        assert woken.wait_for(1)
        Journal(path).append({"id": "2"})
        assert woken.wait_for(2)
        (path.parent / "another.txt").write_text("not ours")
    count = woken.count
    Journal(path).append({"id": "3"})
    assert woken.count == count == 2
    assert not [each for each in threading.enumerate() if each.name == "onceward-journal-watch"]


def test_the_watch_survives_a_directory_that_comes_late(tmp_path: Path) -> None:
    """Neither file nor directory need to exist when watching begins."""
    path = tmp_path / "later" / "j.jsonl"
    woken = Woken()
    with JournalSource(path).watching(woken):
        Journal(path).append({"id": "1"})
        assert woken.wait_for(1)

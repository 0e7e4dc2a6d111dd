"""Reading: the cursor's rules, to the letter."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import FileMissing, InvalidArgument, InvalidCursor, StorageError
from onceward.journal import Journal
from onceward.journal.models import Record
from onceward.journal.page_scan import SCAN_BYTES_MAX

NO_CURSORS: list[Any] = ["", "-1", "+1", "1.0", "1e3", "abc", " 1", "1 ", "0x10", "1\n", "٣", "²"]
NO_CURSORS += ["01", "1_0", "9" * 40, None, 0, 1.5, b"0"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def ids(items: list[Record]) -> list[str]:
    return [item["id"] for item in items]


def drain(journal: Journal, **arguments: Any) -> list[Record]:
    """Read page after page, as an agent does, until nothing moves."""
    found: list[Record] = []
    since = "0"
    while True:
        page = journal.read(since, **arguments)
        found += page.items
        if page.next_cursor == since:
            return found
        since = page.next_cursor


def test_a_missing_file_is_empty(path: Path) -> None:
    """No file: no items, cursor 0; a cursor above 0 does not fit."""
    page = Journal(path).read()
    assert (page.items, page.next_cursor) == ([], "0")
    with pytest.raises(InvalidCursor) as refused:
        Journal(path).read("1")
    assert refused.value.fix == InvalidCursor.default_fix


@pytest.mark.parametrize("cursor", NO_CURSORS)
def test_what_is_not_a_cursor_is_refused(path: Path, cursor: Any) -> None:
    """Only a non-negative base-10 integer in ASCII text is a cursor."""
    path.write_bytes(lines({"id": "1"}))
    with pytest.raises(InvalidCursor, match="is not a cursor"):
        Journal(path).read(cursor)


def test_reading_again_from_the_returned_cursor_gives_nothing_twice(path: Path) -> None:
    """The cursor is exclusive: what was returned is never returned again."""
    journal = Journal(path)
    journal.append({"id": "1"}, {"id": "2"})
    page = journal.read()
    assert ids(page.items) == ["1", "2"]
    assert journal.read(page.next_cursor).items == []
    journal.append({"id": "3"})
    assert ids(journal.read(page.next_cursor).items) == ["3"]


def test_an_incomplete_last_line_is_not_consumed(path: Path) -> None:
    """The cursor never passes a line without a newline, even if it is valid JSON."""
    path.write_bytes(lines({"id": "1"}) + b'{"id": "2"}')
    page = Journal(path).read()
    assert ids(page.items) == ["1"]
    assert page.next_cursor == str(len(lines({"id": "1"})))
    with path.open("ab") as file:
        file.write(b"\n")
    assert ids(Journal(path).read(page.next_cursor).items) == ["2"]


def test_filtering_does_not_change_the_cursor(path: Path) -> None:
    """Lines of other sessions are passed, not read again for ever."""
    path.write_bytes(
        lines({"id": "1", "sessionId": "a"}, {"id": "2", "sessionId": "b"}, {"id": "3"})
    )
    journal = Journal(path)
    page = journal.read(match={"sessionId": "a"})
    assert ids(page.items) == ["1"]
    assert page.next_cursor == journal.read().next_cursor == str(path.stat().st_size)
    empty = journal.read(match={"sessionId": "c"})
    assert (empty.items, empty.next_cursor) == ([], page.next_cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("session", [None, "a"])
def test_a_limit_drops_nothing(path: Path, limit: int, session: str | None) -> None:
    """Pages of any size add up to everything, each record once, in file order."""
    records = [{"id": str(n), "sessionId": "ab"[n % 2]} for n in range(20)]
    path.write_bytes(lines(*records))
    match = {"sessionId": session} if session else None
    found = drain(Journal(path), limit=limit, match=match)
    assert found == [each for each in records if session in (None, each["sessionId"])]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "10", float("nan")])
def test_a_bad_limit_is_refused(path: Path, limit: Any) -> None:
    """A limit is a positive integer."""
    with pytest.raises(InvalidArgument, match="^limit: must be a positive integer"):
        Journal(path).read(limit=limit)


def test_a_page_holds_at_most_500(path: Path) -> None:
    """A larger limit is clamped, and no limit means the same."""
    path.write_bytes(lines(*({"id": str(n)} for n in range(1200))))
    journal = Journal(path)
    for limit in (None, 501, 10**9):
        assert len(journal.read(limit=limit).items) == 500
        assert len(drain(journal, limit=limit)) == 1200


def test_without_a_limit_a_page_ends_a_mebibyte_after_its_first_entry(path: Path) -> None:
    """Large entries make short pages; nothing is lost between them."""
    path.write_bytes(lines(*({"id": str(n), "x": "y" * 100_000} for n in range(40))))
    journal = Journal(path)
    assert 10 <= len(journal.read().items) <= 14
    assert len(journal.read(limit=40).items) == 40
    assert len(drain(journal)) == 40


def test_a_filter_that_matches_nothing_gives_way(path: Path) -> None:
    """After looking through much without a match, an empty page moves the cursor on."""
    line = lines({"id": "n", "sessionId": "b", "x": "y" * 100_000})
    with path.open("wb") as file:
        for _ in range(SCAN_BYTES_MAX // len(line) + 10):
            file.write(line)
        file.write(lines({"id": "last", "sessionId": "a"}))
    journal = Journal(path)
    page = journal.read(match={"sessionId": "a"})
    assert page.items == []
    assert 0 < int(page.next_cursor) < path.stat().st_size
    assert ids(drain(journal, match={"sessionId": "a"})) == ["last"]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"   ",
        b"\r",
        b"not json",
        b'{"id":',
        b'{"id":"x"}}',
        b'["id"]',
        b'"id"',
        b"7",
        b"null",
        b'{"id":"\xff"}',
        b'{"id":"\xed\xa0\x80"}',
        b"\0" * 600,
        b'{"id":"a\0b"}',
        b'{"id":NaN}',
        b"\xef\xbb\xbf",
        b'\xef\xbb\xbf{"id":"late BOM"}',
        b"{" * 5000,
    ],
)
def test_a_broken_line_is_passed_over(path: Path, broken: bytes) -> None:
    """A complete line that is no record is skipped, and the cursor goes on."""
    path.write_bytes(lines({"id": "1"}) + broken + b"\n" + lines({"id": "2"}))
    for match in (None, {"id": "2"}):
        page = Journal(path).read(match=match)
        assert ids(page.items)[-1] == "2"
        assert len(page.items) == (1 if match else 2)
        assert page.next_cursor == str(path.stat().st_size)


def test_a_leading_byte_order_mark_and_crlf_are_tolerated(path: Path) -> None:
    """Files of other writers may begin with a BOM and end lines with CRLF."""
    path.write_bytes(b'\xef\xbb\xbf{"id":"1"}\r\n{"id":"2"}\r\n\r\n{"id":"3"}\r\n')
    assert ids(Journal(path).read().items) == ["1", "2", "3"]
    assert ids(Journal(path).read(match={"id": "1"}).items) == ["1"]
    assert Journal(path).verify().ok


def test_other_separators_do_not_end_a_line(path: Path) -> None:
    """Only 0x0a ends a line: not U+2028, not a vertical tab, not a lone CR."""
    text = "a\u2028b\u2029c\x85d"
    path.write_bytes(json.dumps({"id": text}, ensure_ascii=False).encode() + b"\r \n")
    assert ids(Journal(path).read().items) == [text]


@pytest.mark.parametrize(
    "wanted", ["lab_1", "größe", 'quo"te', "a/b", "back\\slash", "", "🚀", "tab\t"]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_match_is_found_however_it_is_escaped(
    path: Path,
    wanted: str,
    ascii_only: bool,
) -> None:
    """The raw search never hides a record that another writer escaped in its own way."""
    escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in wanted)
    key = "session\\u0049d"
    raw = json.dumps({"id": "1", "sessionId": wanted}, ensure_ascii=ascii_only).encode() + b"\n"
    raw += f'{{"id":"2","{key}":"{escaped}"}}\n'.encode()
    raw += json.dumps({"id": "3", "sessionId": wanted}).replace("/", "\\/").encode() + b"\n"
    raw += lines({"id": "4", "sessionId": wanted + "x", "notes": wanted})
    path.write_bytes(raw)
    assert ids(Journal(path).read(match={"sessionId": wanted}).items) == ["1", "2", "3"]


@pytest.mark.parametrize("match", [{"a": 1}, {1: "a"}, ["a"], "a=b", {"a": "\ud800"}])
def test_a_bad_match_is_refused(path: Path, match: Any) -> None:
    """Matching is by text on named fields."""
    with pytest.raises(InvalidArgument, match="^match: "):
        Journal(path).read(match=match)


def test_a_journal_may_ask_for_more_of_a_record(path: Path) -> None:
    """Lines that are objects but not valid records here are skipped like broken ones."""

    def valid(record: Record) -> bool:
        return isinstance(record.get("id"), str) and isinstance(record.get("createdAt"), str)

    path.write_bytes(lines({"id": 1, "createdAt": "t"}, {"id": "2"}, {"id": "3", "createdAt": "t"}))
    journal = Journal(path, valid=valid)
    assert ids(journal.read().items) == ["3"]
    assert journal.verify().damaged_count == 2


def test_unknown_fields_are_passed_through(path: Path) -> None:
    """What a record holds beyond our knowledge arrives as it was."""
    record = {"id": "1", "future": {"nested": [1, 2.5, None]}, "z": "", "a": True}
    path.write_bytes(lines(record))
    (found,) = Journal(path).read().items
    assert list(found.items()) == list(record.items())


def test_h09_a_hundred_megabytes_without_a_newline(path: Path) -> None:
    """An endless line takes linear time and no memory; ended, it is one line among others."""
    head = lines({"id": "1"})
    with path.open("wb") as file:
        file.write(head + b'{"id":"big","x":"')
        for _ in range(100):
            file.write(b"y" * 1024 * 1024)
    journal = Journal(path, sync=False)
    tracemalloc.start()
    began = time.process_time()
    page = journal.read()
    elapsed, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ids(page.items) == ["1"]
    assert page.next_cursor == str(len(head))
    assert peak < 4 * 1024 * 1024
    assert elapsed < 5

    with path.open("ab") as file:
        file.write(b'"}\n' + lines({"id": "2"}))
    began = time.process_time()
    found = drain(journal)
    assert time.process_time() - began < 10
    assert ids(found) == ["1", "big", "2"]
    assert len(found[1]["x"]) == 100 * 1024 * 1024
    assert ids(drain(journal, match={"id": "2"})) == ["2"]


class TestH10ReplacedFiles:
    """When the store file is replaced or truncated, the client gets an error."""

    def test_h10_a_truncated_file_is_reported(self, path: Path) -> None:
        """A cursor beyond the end does not fit."""
        journal = Journal(path)
        cursor = journal.append({"id": "1"}, {"id": "2"}).end
        path.write_bytes(lines({"id": "1"}))
        with pytest.raises(InvalidCursor, match="beyond the end") as refused:
            journal.read(cursor)
        assert refused.value.context["size"] == path.stat().st_size

    def test_h10_a_cursor_inside_a_line_is_rejected(self, path: Path) -> None:
        """A position whose preceding byte is not a newline is not a cursor of this file."""
        path.write_bytes(lines({"id": "1"}, {"id": "2"}))
        good = {0, len(lines({"id": "1"})), path.stat().st_size}
        for position in range(path.stat().st_size + 1):
            if position in good:
                Journal(path).read(str(position))
                continue
            with pytest.raises(InvalidCursor, match="start of a line"):
                Journal(path).read(str(position))

    @pytest.mark.parametrize("how", ["replaced", "regrown", "rewritten before", "head rewritten"])
    def test_h10_another_file_at_the_same_position_is_detected_by_the_tag(
        self, path: Path, how: str
    ) -> None:
        """Same length, same line starts, other content: the tag does not fit."""
        journal = Journal(path)
        journal.append(*({"id": str(n)} for n in range(100, 300)))
        page = journal.read(limit=150)
        other = bytearray(path.read_bytes())
        if how == "rewritten before":
            other[int(page.next_cursor) - 20] ^= 1
        elif how == "head rewritten":
            other[8] ^= 1
        else:
            other = bytearray(bytes(other).replace(b'"1', b'"7').replace(b'"2', b'"8'))
        if how == "replaced":
            path.unlink()
        path.write_bytes(bytes(other))
        with pytest.raises(InvalidCursor, match="another file, or the bytes before it"):
            journal.read(page.next_cursor, tag=page.tag)
        assert journal.read(page.next_cursor).items, "without the tag it cannot be known"

    def test_h10_a_tag_fits_while_the_file_only_grows(self, path: Path) -> None:
        """Appends of any process keep cursors valid; an empty beginning fits any file."""
        journal = Journal(path)
        begin = journal.read()
        journal.append({"id": "1"})
        page = journal.read(begin.next_cursor, tag=begin.tag)
        journal.append({"id": "2"})
        assert ids(journal.read(page.next_cursor, tag=page.tag).items) == ["2"]

    def test_h10_a_copy_is_another_file(self, path: Path) -> None:
        """The same bytes in another inode are a replaced file, and rejected too."""
        journal = Journal(path)
        journal.append({"id": "1"})
        page = journal.read()
        content = path.read_bytes()
        kept = path.with_suffix(".old")
        path.rename(kept)
        path.write_bytes(content)
        with pytest.raises(InvalidCursor):
            journal.read(page.next_cursor, tag=page.tag)

    def test_h10_a_long_first_line_does_not_slow_the_tag(self, path: Path) -> None:
        """The tag reads a bounded head, however long the first line is."""
        path.write_bytes(lines({"id": "x" * 50_000_000}, {"id": "2"}))
        journal = Journal(path, sync=False)
        cursor, tag = journal.end()
        tracemalloc.start()
        journal.read(cursor, tag=tag)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1024 * 1024


def test_verify_names_damage_by_offset(path: Path) -> None:
    """Every line that is no record is listed with its place, its length and the reason."""
    path.write_bytes(
        lines({"id": "1"}) + b"\n" + b"broken\n" + b"[1]\n" + lines({"id": "2"}) + b"{to"
    )
    found = Journal(path).verify()
    assert (found.record_count, found.blank_count, found.damaged_count) == (2, 1, 2)
    assert [(each.offset, each.length) for each in found.damage] == [(13, 6), (20, 3)]
    assert found.damage[1].reason == "not a JSON object"
    assert found.torn_bytes == 3
    assert not found.ok


def test_verify_describes_a_bounded_number(path: Path) -> None:
    """A file of nothing but damage is counted in full and described in part."""
    path.write_bytes(b"x\n" * 1000)
    found = Journal(path).verify()
    assert (found.damaged_count, len(found.damage)) == (1000, 100)


def test_verify_needs_a_file(path: Path) -> None:
    """There is nothing to verify where there is no file."""
    with pytest.raises(FileMissing):
        Journal(path).verify()


def test_a_directory_is_not_a_journal(tmp_path: Path) -> None:
    """A name that is not a file is a clear error, for readers and writers."""
    with pytest.raises(StorageError, match="directory"):
        Journal(tmp_path).read()
    with pytest.raises(StorageError, match="directory"):
        Journal(tmp_path).append({"id": "1"})

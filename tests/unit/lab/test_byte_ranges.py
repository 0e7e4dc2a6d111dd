"""Byte ranges and validators: what a player asks for is what it gets, and nothing costs much."""

import os
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.lab.byte_ranges import (
    FullContent,
    NotModified,
    PartialContent,
    RangeResponse,
    Unsatisfiable,
    etag,
    last_modified,
    select_response,
    validators,
)
from onceward.system.safe_paths import RootedDirectory, RootedStat

STAT = RootedStat(device=1, inode=2, size=1000, mtime_ns=1_700_000_000_123_456_789)
EMPTY = STAT._replace(size=0)
HUGE = "9" * 100_000


def ranged(header: str, size: int = 1000) -> RangeResponse:
    return select_response({"range": header}, STAT._replace(size=size))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", PartialContent(0, 0)),
        ("bytes=0-999", PartialContent(0, 999)),
        ("bytes=10-19", PartialContent(10, 19)),
        ("bytes=990-5000", PartialContent(990, 999)),
        ("bytes=0-", PartialContent(0, 999)),
        ("bytes=999-", PartialContent(999, 999)),
        ("bytes=-1", PartialContent(999, 999)),
        ("bytes=-1000", PartialContent(0, 999)),
        ("bytes=-5000", PartialContent(0, 999)),
        ("bytes=000010-000019", PartialContent(10, 19)),
        ("BYTES=10-19", PartialContent(10, 19)),
        ("Bytes = 10-19 ", PartialContent(10, 19)),
        ("bytes=10-19,30-39", PartialContent(10, 19)),
        ("bytes=10-19, nonsense", PartialContent(10, 19)),
        (f"bytes=5-{HUGE}", PartialContent(5, 999)),
        (f"bytes=-{HUGE}", PartialContent(0, 999)),
        (f"bytes={'0' * 100_000}7-8", PartialContent(7, 8)),
    ],
)
def test_a_range_gives_these_bytes(header: str, expected: PartialContent) -> None:
    """Closed, open and suffix ranges are clipped to the file; of several, the first counts."""
    assert ranged(header) == expected


@pytest.mark.parametrize(
    "header",
    [
        *("bytes=1000-", "bytes=1000-2000", "bytes=5000-6000", "bytes=-0", "bytes=-000"),
        *(f"bytes={HUGE}-", f"bytes={HUGE}-{HUGE}", f"bytes={HUGE}-{HUGE}9", "bytes=1000-,0-1"),
    ],
)
def test_beyond_the_end_nothing_can_be_sent(header: str) -> None:
    """A range that begins after the last byte, or of no bytes, cannot be satisfied."""
    assert ranged(header) == Unsatisfiable()


def test_a_malformed_range_asks_for_nothing() -> None:
    """What is malformed, backwards or in another unit is ignored."""
    cases: list[Any] = [
        *("", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1-a", "bytes=--1", "bytes=1--2"),
        *("bytes=5-4", "bytes=20-10", "items=0-1", "bytes=0-1;", "bytes 0-1", "=0-1", "bytes=1"),
        *("bytes=+1-2", "bytes=1 - 2", "bytes=0x1-2", "bytes=1.0-2", "bytes=,0-1", "bytes==0-1"),
        *(
            "bytes=\u0660-\u0669",
            "bytes=1_0-20",
            f"bytes={HUGE}-1",
            f"bytes={HUGE}9-{HUGE}",
            "bytes=0-1\n2",
        ),
    ]
    for header in cases:
        assert ranged(header) == FullContent()


def test_an_empty_file_has_no_parts() -> None:
    """Of an empty file there is only the whole, and everything lies beyond its end."""
    assert ranged("bytes=0-", size=0) == Unsatisfiable()
    assert ranged("bytes=0-0", size=0) == Unsatisfiable()
    assert ranged("bytes=-0", size=0) == Unsatisfiable()
    assert ranged("bytes=-5", size=0) == FullContent()
    assert select_response({}, EMPTY) == FullContent()


def test_the_headers_of_parts() -> None:
    """Lengths and Content-Range count both ends."""
    assert PartialContent(10, 19).length == 10
    assert PartialContent(10, 19).content_range(1000) == "bytes 10-19/1000"
    assert Unsatisfiable().content_range(1000) == "bytes */1000"


digits = st.text("0123456789", max_size=30)


@given(first=digits, last=digits, size=st.integers(0, 10**20))
def test_ranges_agree_with_arithmetic(first: str, last: str, size: int) -> None:
    """Comparing text gives what comparing numbers would."""
    found = ranged(f"bytes={first}-{last}", size=size)
    if not first:
        if not last:
            assert found == FullContent()
        elif int(last) == 0:
            assert found == Unsatisfiable()
        else:
            assert found == (
                PartialContent(max(size - int(last), 0), size - 1) if size else FullContent()
            )
    elif last and int(first) > int(last):
        assert found == FullContent()
    elif int(first) >= size:
        assert found == Unsatisfiable()
    else:
        assert found == PartialContent(int(first), min(int(last), size - 1) if last else size - 1)


@given(header=st.text(), size=st.integers(0, 5))
def test_no_header_breaks_it(header: str, size: int) -> None:
    """Any text in any of the headers gives a plan whose part lies in the file."""
    stat = STAT._replace(size=size)
    names = ("range", "if-range", "if-none-match", "if-modified-since")
    for headers in (dict.fromkeys(names, header), {"range": f"bytes={header}"}):
        found = select_response(headers, stat)
        if isinstance(found, PartialContent):
            assert 0 <= found.start <= found.end < size


@pytest.mark.parametrize(
    "value",
    [
        *(
            "bytes=" + "0-1," * 500_000,
            "bytes=" + "-" * 2_000_000,
            "bytes=" + "9" * 2_000_000 + "-",
        ),
        *('"' * 2_000_000, "W/" * 1_000_000, 'W/"a",' * 300_000, "," * 2_000_000, " " * 2_000_000),
        *("bytes=" + " " * 2_000_000 + "x", "(" * 2_000_000, "Mon, " * 400_000, "=" * 2_000_000),
    ],
    ids=range(12),
)
def test_hostile_headers_cost_little(value: str) -> None:
    """Two megabytes of anything are read in a moment."""
    began = time.process_time()
    for name in ("range", "if-range", "if-none-match", "if-modified-since"):
        select_response({"range": "bytes=0-1", name: value}, STAT)
    assert time.process_time() - began < 10


# --- validators ----------------------------------------------------------------------------------


def test_every_change_changes_the_tag(tmp_path: Path) -> None:
    """Another file, size or time has another tag; the same file keeps it."""
    tags = {etag(STAT)} | {etag(STAT._replace(**{name: 7})) for name in STAT._fields}
    assert len(tags) == 5
    assert all(each[0] == each[-1] == '"' and '"' not in each[1:-1] for each in tags)
    (tmp_path / "video.mp4").write_bytes(b"one")

    def tag() -> str:
        with RootedDirectory.open(tmp_path) as opened, opened.open_file("video.mp4") as file:
            return etag(file.stat)

    first = tag()
    assert tag() == first
    os.utime(tmp_path / "video.mp4", ns=(0, 1))
    assert tag() != first


def test_the_date_is_that_of_the_file() -> None:
    """Last-Modified is the time of the last change, in whole seconds, as HTTP writes it."""
    assert last_modified(STAT) == "Tue, 14 Nov 2023 22:13:20 GMT"
    assert validators(STAT) == {
        "accept-ranges": "bytes",
        "etag": etag(STAT),
        "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
    }


@given(mtime_ns=st.integers(-(2**63), 2**63 * 1000))
def test_any_time_of_change_has_a_date(mtime_ns: int) -> None:
    """Files from before 1970 or after 9999 are served as well."""
    parsedate_to_datetime(last_modified(STAT._replace(mtime_ns=mtime_ns)))


@pytest.mark.parametrize(
    ("if_range", "expected"),
    [
        (etag(STAT), PartialContent(0, 1)),
        (f"  {etag(STAT)} ", PartialContent(0, 1)),
        ("Tue, 14 Nov 2023 22:13:20 GMT", PartialContent(0, 1)),
        (f"W/{etag(STAT)}", FullContent()),
        ("Tue, 14 Nov 2023 22:13:21 GMT", FullContent()),
        ("Tue, 14 Nov 2023 22:13:19 GMT", FullContent()),
        ('"another"', FullContent()),
        (f'"another", {etag(STAT)}', FullContent()),
        ("*", FullContent()),
        ("", FullContent()),
        ("nonsense", FullContent()),
    ],
)
def test_a_part_is_sent_only_if_it_fits_what_the_client_has(
    if_range: str, expected: RangeResponse
) -> None:
    """If-Range with our tag or our date gives the part; anything else gives the whole."""
    assert select_response({"range": "bytes=0-1", "if-range": if_range}, STAT) == expected


def test_if_range_comes_before_the_range() -> None:
    """A range of a file that has changed is not beyond the end: the whole is sent."""
    headers = {"range": "bytes=5000-", "if-range": '"old"'}
    assert select_response(headers, STAT) == FullContent()
    assert select_response({"if-range": '"old"'}, STAT) == FullContent()


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (etag(STAT), NotModified()),
        (f"W/{etag(STAT)}", NotModified()),
        ("*", NotModified()),
        (" * ", NotModified()),
        (f'"a", W/"b",{etag(STAT)}', NotModified()),
        (f'"a,b" , {etag(STAT)}, "c"', NotModified()),
        ('"a", "b"', FullContent()),
        (etag(STAT).strip('"'), FullContent()),
        (f"x{etag(STAT)}", FullContent()),
        ('"*"', FullContent()),
        ("", FullContent()),
    ],
)
def test_a_client_that_has_it_is_not_sent_it_again(tags: str, expected: RangeResponse) -> None:
    """If-None-Match compares weakly, takes lists and the star."""
    assert select_response({"if-none-match": tags}, STAT) == expected


def test_tags_decide_before_dates_and_ranges() -> None:
    """A known tag is 304 also with a range; an unknown one makes the date not count."""
    headers = {"if-none-match": etag(STAT), "range": "bytes=5000-"}
    assert select_response(headers, STAT) == NotModified()
    later = "Tue, 14 Nov 2033 22:13:20 GMT"
    assert (
        select_response({"if-none-match": '"old"', "if-modified-since": later}, STAT)
        == FullContent()
    )


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Tue, 14 Nov 2023 22:13:20 GMT", NotModified()),
        ("Tue, 14 Nov 2023 22:13:21 GMT", NotModified()),
        ("Tue, 14 Nov 2023 22:13:20 -0000", NotModified()),
        ("Tue, 14 Nov 2023 22:13:19 GMT", FullContent()),
        ("yesterday", FullContent()),
        ("", FullContent()),
        ("Tue, 99 Nov 2023 22:13:20 GMT", FullContent()),
        ("Tue, 14 Nov 99999999999999999999 22:13:20 GMT", FullContent()),
        ("Tue, 14 Nov 2023 22:13:20 +9999999999", FullContent()),
    ],
)
def test_dates_count_when_there_are_no_tags(date: str, expected: RangeResponse) -> None:
    """If-Modified-Since not older than the file is 304; what is no date is ignored."""
    assert select_response({"if-modified-since": date}, STAT) == expected

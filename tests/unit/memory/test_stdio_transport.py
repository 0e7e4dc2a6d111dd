"""Stdio transport: bytes become lines and messages; invalid lines get an error response."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.memory.mcp.request_checks import InvalidMessage
from onceward.memory.mcp.stdio_transport import LineSplitter, StdioLine, read_message


def cut(data: bytes, piece_bytes: int, line_bytes_max: int = 1000) -> list[StdioLine]:
    cutter = LineSplitter(line_bytes_max=line_bytes_max)
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    lines: list[StdioLine] = []
    for piece in pieces:
        lines += cutter.feed(piece)
    return lines + cutter.close()


@given(st.lists(st.binary(max_size=30)), st.integers(1, 20))
def test_lines_do_not_depend_on_how_bytes_arrive(parts: list[bytes], piece_bytes: int) -> None:
    """However the pipe cuts them, the lines are those between the newlines, blank ones left out."""
    data = b"\n".join(parts)
    expected = [StdioLine(each.strip()) for each in data.split(b"\n") if each.strip()]
    assert cut(data, piece_bytes) == expected


@pytest.mark.parametrize("piece_bytes", [1, 7, 700, 100_000])
def test_a_line_that_is_too_long_is_not_kept(piece_bytes: int) -> None:
    """Both its ends are, to find its id in; the lines around it are whole."""
    long = b'{"params":"' + b"x" * 50_000 + b'","id":5}'
    first, second, third = cut(b"a\n" + long + b"\nb", piece_bytes)
    assert (first, third) == (StdioLine(b"a"), StdioLine(b"b"))
    assert second.is_complete is False
    assert len(second.data) <= 1024
    assert (second.data[:20], second.data[-20:]) == (long[:20], long[-20:])
    with pytest.raises(InvalidMessage) as caught:
        read_message(second)
    assert caught.value.answer.id == 5


def test_a_line_of_exactly_the_limit_is_whole() -> None:
    """The bound itself is inside."""
    [line] = cut(b"x" * 1000 + b"\n", 300)
    assert line == StdioLine(b"x" * 1000)


SHOWN_IDS: list[tuple[bytes, object]] = [
    (b'{"jsonrpc":"2.0","id":3,', 3),
    (b'{"jsonrpc": "2.0", "id": "a-1", x', "a-1"),
    (b'{x, "id": 4}', 4),
    (b'{x, "id": 4}}', None),
    (b'{"id":5,"jsonrpc":"2.0",x', None),
    (b'{x "id":-5}', None),
    (b'{"jsonrpc":"2.0","id":' + b"9" * 40 + b",", None),
    (b'{"jsonrpc":"2.0","id":"a\\"b",', None),
    (b"nothing", None),
]


@pytest.mark.parametrize(("line", "expected"), SHOWN_IDS)
def test_an_id_is_taken_only_where_it_is_the_request_s_own(line: bytes, expected: object) -> None:
    """First after the version or last before the end; anywhere else it may belong to a part."""
    with pytest.raises(InvalidMessage) as caught:
        read_message(StdioLine(line))
    assert caught.value.answer.id == expected


@given(st.binary(max_size=200))
def test_any_line_is_a_message_or_refused(line: bytes) -> None:
    """No bytes whatsoever raise anything else."""
    with contextlib.suppress(InvalidMessage):
        read_message(StdioLine(line.strip()))

"""Lines: bytes become lines in bounded memory, and what matters is kept longest."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.agents import line_reader
from onceward.agents.line_reader import LineReader, MessageQueue, OversizedLine


@given(
    st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=20),
    st.lists(st.integers(0, 600), max_size=20),
)
def test_lines_do_not_depend_on_how_bytes_arrive(sent: list[bytes], cuts: list[int]) -> None:
    """The same bytes in other pieces are the same lines."""
    data = b"".join(line + b"\n" for line in sent)
    reader = LineReader(line_bytes_max=20)
    got = []
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in pairwise(places):
        got += reader.feed(data[begin:end])
    whole = [line.strip() if len(line) < 20 else OversizedLine(len(line) + 1) for line in sent]
    assert got == [line for line in whole if line]
    assert reader.close() == []


def test_a_line_of_the_limit_is_kept_and_a_longer_one_is_not() -> None:
    """The limit counts the newline; what is too long is reported once, with its length."""
    reader = LineReader(line_bytes_max=5)
    assert reader.feed(b"1234\n12345\n1\n") == [b"1234", OversizedLine(6), b"1"]


def test_a_line_without_end_takes_no_memory() -> None:
    """Parts of a line that is too long are forgotten, and the next line is whole."""
    reader = LineReader(line_bytes_max=1000)
    for _ in range(1000):
        assert reader.feed(b"x" * 500) == []
        assert sum(map(len, reader._parts)) < 1000
    assert reader.feed(b"\nnext\n") == [OversizedLine(500_001), b"next"]


def test_the_last_line_needs_no_newline() -> None:
    """What was begun and never ended is the last line, whole or too long."""
    reader = LineReader(line_bytes_max=5)
    reader.feed(b"a\nbcd")
    assert reader.close() == [b"bcd"]
    reader.feed(b"123456")
    assert reader.close() == [OversizedLine(6)]
    assert reader.close() == []


def test_blank_lines_and_carriage_returns_are_nothing() -> None:
    """Blank lines are skipped, and a line may end as on other systems."""
    assert LineReader().feed(b"\n \r\na\r\n") == [b"a"]


def flooded(inbox: MessageQueue, count: int = 3 * line_reader.LINES_WAITING_MAX) -> None:
    for _ in range(count // 100):
        inbox.feed(b'{"kind":"log"}\n' * 100)


def test_a_flood_is_counted_and_thrown_away() -> None:
    """No more lines wait than the limit says, and the others are counted."""
    inbox = MessageQueue(LineReader())
    flooded(inbox)
    assert len(inbox.take(0)) == line_reader.LINES_WAITING_MAX
    assert inbox.take_dropped() == 2 * line_reader.LINES_WAITING_MAX
    assert inbox.take_dropped() == 0


def test_bytes_that_wait_are_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lines that are long are too many as well."""
    monkeypatch.setattr(line_reader, "BYTES_WAITING_MAX", 1000)
    inbox = MessageQueue(LineReader())
    inbox.feed(b"x" * 600 + b"\n" + b"y" * 600 + b"\n" + b"z\n")
    assert [line[:1] for line in inbox.take(0) if isinstance(line, bytes)] == [b"x", b"y"]
    assert inbox.take_dropped() == 1


def test_the_answer_comes_through_a_flood() -> None:
    """A line with the mark of the current command is kept when others are thrown away."""
    inbox = MessageQueue(LineReader())
    inbox.protect("corr_1")
    flooded(inbox)
    inbox.feed(b"log\n" * 50 + b'{"correlation_id":"corr_1"}\n' + b"log\n" * 50)
    assert inbox.take(0)[-1] == b'{"correlation_id":"corr_1"}'


def test_the_last_sign_of_life_comes_through_a_flood() -> None:
    """Of the heartbeats that are thrown away the last is kept."""
    inbox = MessageQueue(LineReader())
    flooded(inbox)
    for number in range(3):
        inbox.feed(b"log\n" * 9 + b'{"kind": "heartbeat", "seq": %d}\n' % number)
    arrivals = inbox.take(0)
    assert arrivals[-1] == b'{"kind": "heartbeat", "seq": 2}'
    assert len(arrivals) == line_reader.LINES_WAITING_MAX + 1
    assert inbox.take(0) == []


def test_a_line_cut_by_a_flood_stays_whole() -> None:
    """A line that begins in one piece and ends in the next one is not torn by what is dropped."""
    inbox = MessageQueue(LineReader())
    inbox.protect("corr_1")
    flooded(inbox)
    inbox.feed(b"log\nlog\nlog\n{corr")
    inbox.feed(b"_1}\nlog\nlog\n")
    assert inbox.take(0)[-1] == b"{corr_1}"


def test_too_many_answers_make_the_agent_wait() -> None:
    """Answers are never dropped: the filling thread waits until they are read."""
    inbox = MessageQueue(LineReader())
    inbox.protect("c")
    count = 5 * line_reader.LINES_WAITING_MAX
    filling = threading.Thread(target=lambda: inbox.feed(b"c\n" * count))
    filling.start()
    got = 0
    while got < count:
        arrivals = inbox.take(60)
        assert len(arrivals) <= 2 * line_reader.LINES_WAITING_MAX
        got += len(arrivals)
    filling.join(60)
    assert inbox.take_dropped() == 0


@pytest.mark.parametrize("way", ["expect", "finish"])
def test_the_filling_thread_does_not_wait_for_a_reader_that_is_gone(way: str) -> None:
    """When the command is over, or the agent, the filling thread goes on."""
    inbox = MessageQueue(LineReader())
    inbox.protect("c")
    filling = threading.Thread(target=lambda: inbox.feed(b"c\n" * 5000))
    filling.start()
    if way == "expect":
        inbox.protect(None)
    else:
        inbox.finish()
    filling.join(60)
    assert not filling.is_alive()


def test_taking_waits_for_a_line() -> None:
    """A reader is woken by the first line, and by the end."""
    inbox = MessageQueue(LineReader())
    threading.Timer(0.01, lambda: inbox.feed(b"a\n")).start()
    assert inbox.take(60) == [b"a"]
    threading.Timer(0.01, inbox.close).start()
    assert inbox.take(60) == []
    assert inbox.is_closed


def test_the_end_brings_what_was_begun() -> None:
    """A line without a newline is there once nothing more will come."""
    inbox = MessageQueue(LineReader())
    inbox.feed(b"torn")
    assert inbox.take(0) == []
    inbox.close()
    assert inbox.take(0) == [b"torn"]

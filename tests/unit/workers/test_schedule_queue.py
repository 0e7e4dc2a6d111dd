"""The board: what is due, and no more of it than there is."""

from typing import cast

from onceward.system import ManualClock
from onceward.workers.cursor_reader import CursorReader
from onceward.workers.schedule_queue import STALE_ENTRIES_MAX, ScheduleQueue


class Named:
    """All that a board wants to know of a reader."""

    def __init__(self, name: str) -> None:
        self.name = name


def board_of(count: int) -> tuple[ScheduleQueue, ManualClock]:
    clock = ManualClock()
    board = ScheduleQueue(clock)
    for number in range(count):
        board.add(cast("CursorReader", Named(f"p{number}")))
    return board, clock


def take(board: ScheduleQueue) -> CursorReader:
    reader = board.take()
    assert reader is not None
    return reader


def test_waking_costs_no_memory() -> None:
    """However often each is woken and put back, the queue is about as long as the board."""
    board, _ = board_of(100)
    for _ in range(50):
        for number in range(100):
            board.wake(f"p{number}")
        for _ in range(100):
            board.put_back(take(board), 900.0)
        assert len(board._queue) <= 200 + STALE_ENTRIES_MAX + 1


def test_a_compacted_queue_gives_out_the_same() -> None:
    """What is due comes in the order in which it is due, each once, and nothing that is out."""
    board, clock = board_of(50)
    out = take(board)
    rest = [take(board) for _ in range(49)]
    for number, reader in enumerate(rest):
        board.put_back(reader, 1000.0 - number)
    for _ in range(20):
        for number in range(50):
            board.wake(f"p{number}")
        for _ in range(49):
            reader = take(board)
            board.put_back(reader, 1000.0 - int(reader.name[1:]))
    assert board.is_woken(out.name)
    assert not board.is_idle()
    clock.advance(seconds=1000.0)
    names = [take(board).name for _ in range(49)]
    assert names == sorted(names, key=lambda name: -int(name[1:]))
    assert out.name not in names

"""Offline buffer: ordered, without duplicates, bounded and crash-safe."""

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import InvalidArgument, SqlFailed, StoreUnavailable
from onceward.journal import file_lock
from onceward.memory import offline_buffer as buffer_module
from onceward.memory.offline_buffer import REJECTED_DIRECTORY, Buffer, BufferedCall
from onceward.system import ManualClock, OpenFile, SystemFiles


def _fill(buffer: Buffer, count: int) -> None:
    for number in range(count):
        assert buffer.append({"number": number}, number)


def test_h63_records_are_replayed_in_order_and_forgotten(tmp_path: Path) -> None:
    """Also those that come while others are replayed; twice the same waits once."""
    buffer, done = Buffer(tmp_path / "b"), []

    def do(call: Any) -> None:
        done.append(call["number"])
        if call["number"] == 1:
            _fill_more()

    def _fill_more() -> None:
        assert buffer.append({"number": 12}, 12)

    assert (buffer.pending(), buffer.replay(do)) == (0, 0)
    _fill(buffer, 12)
    assert not buffer.append({"number": 3, "ts": "later"}, 3)
    assert Buffer(tmp_path / "b").pending() == 12
    assert buffer.replay(do) == 13
    assert (done, buffer.pending()) == (list(range(13)), 0)
    assert buffer.append({"number": 3}, 3)


def test_h63_a_store_that_goes_again_stops_the_replay(tmp_path: Path) -> None:
    """What was done is forgotten, the rest waits, in its order."""
    buffer = Buffer(tmp_path)
    done: list[int] = []

    def do(call: Any) -> None:
        if call["number"] == 3 and len(done) == 3:
            message = "gone"
            raise StoreUnavailable(message)
        done.append(call["number"])

    _fill(buffer, 5)
    with pytest.raises(StoreUnavailable):
        buffer.replay(do)
    assert buffer.pending() == 2
    done.append(-1)
    assert buffer.replay(do) == 2
    assert done == [0, 1, 2, -1, 3, 4]


def test_h63_a_death_after_a_record_was_done_does_it_again(tmp_path: Path) -> None:
    """At least once; that it counts once is what makes records idempotent."""
    buffer, done = Buffer(tmp_path), []

    def die(call: Any) -> None:
        done.append(call["number"])
        raise KeyboardInterrupt

    _fill(buffer, 2)
    with pytest.raises(KeyboardInterrupt):
        buffer.replay(die)
    assert buffer.pending() == 2
    assert buffer.replay(lambda call: done.append(call["number"])) == 2
    assert done == [0, 0, 1]


def test_h63_what_is_refused_for_good_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that can never be written, or cannot be read, does not hold up the others."""
    buffer, done = Buffer(tmp_path), []

    def do(call: Any) -> None:
        if call["number"] == 1:
            message = "no"
            raise InvalidArgument(message, fix="none")
        if call["number"] == 2:
            raise IndexError
        done.append(call["number"])

    _fill(buffer, 4)
    [second] = [each for each in tmp_path.iterdir() if each.name.startswith("000000000001-")]
    second.write_text("{broken")
    buffer.replay(do)
    assert (done, buffer.pending()) == ([3], 0)
    assert len(list((tmp_path / REJECTED_DIRECTORY).iterdir())) == 3
    events = [getattr(each, "event", "") for each in caplog.records]
    assert events == ["buffer.refused"] * 3


def test_h63_the_buffer_is_bounded(tmp_path: Path) -> None:
    """By records and by bytes; what does not fit is refused, and nothing is lost."""
    few = Buffer(tmp_path / "few", records_max=3)
    _fill(few, 3)
    with pytest.raises(StoreUnavailable, match="buffer is full with 3 records"):
        few.append({"number": 4}, 4)
    assert not few.append({"number": 1}, 1)
    small = Buffer(tmp_path / "small", bytes_max=100)
    assert small.append({"text": "x" * 50}, 1)
    with pytest.raises(StoreUnavailable, match="full with 1 records"):
        small.append({"text": "y" * 50}, 2)
    assert (few.pending(), small.pending()) == (3, 1)


def test_h63_one_process_replays_at_a_time(tmp_path: Path) -> None:
    """Another that comes while records are replayed does nothing."""
    buffer, other = Buffer(tmp_path), Buffer(tmp_path)
    seen: list[tuple[int, int]] = []
    _fill(buffer, 1)
    buffer.replay(lambda call: seen.append((call["number"], other.replay(lambda _: None))))
    assert seen == [(0, 0)]


def test_h63_records_are_private_and_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """Files are for their owner only; a temporary of a crash, or a note, is no record."""
    buffer = Buffer(tmp_path / "b")
    _fill(buffer, 1)
    [record] = (tmp_path / "b").glob("*.json")
    assert record.stat().st_mode & 0o777 == 0o600
    assert json.loads(record.read_text()) == {"number": 0}
    for name in (".000000000002-5-abc.json.tmp", "notes.json", "1-2.json", "x-1-k.json"):
        (tmp_path / "b" / name).write_text("{}")
    assert buffer.replay(lambda _: None) == 1


def test_h63_a_record_the_database_rejects_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """Nor does one of a method that this version does not have."""
    buffer, done = Buffer(tmp_path / "b"), []
    _fill(buffer, 3)

    def do(call: Any) -> None:
        if call["number"] == 0:
            message = "value out of range"
            raise SqlFailed(message, fix="none")
        if call["number"] == 1:
            raise AttributeError
        done.append(call["number"])

    assert buffer.replay(do) == 3
    assert (done, buffer.pending()) == ([2], 0)
    assert len(list((tmp_path / "b" / REJECTED_DIRECTORY).iterdir())) == 2


def test_h63_words_that_are_no_characters_can_wait(tmp_path: Path) -> None:
    """A command line may hold any bytes."""
    buffer, done = Buffer(tmp_path / "b"), list[Any]()
    assert buffer.append({"cmd": "cat caf\udce9"}, ["cat caf\udce9"])
    buffer.replay(done.append)
    assert done == [{"cmd": "cat caf?"}]


def test_h63_a_record_that_comes_as_a_replay_ends_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last look, from a process that finds the lock still held: no other replays it."""
    buffer, other = Buffer(tmp_path), Buffer(tmp_path)
    done, late = list[int](), list[int]()

    def give_back(file: OpenFile) -> None:
        replaying = SystemFiles().stat(tmp_path / ".replay")
        if replaying is not None and file.stat().identity == replaying.identity and not late:
            late.append(7)
            assert other.append({"number": 7}, 7)
            assert other.replay(lambda _: done.append(-1)) == 0
        file_lock.unlock_and_close(file)

    monkeypatch.setattr(buffer_module, "unlock_and_close", give_back)
    _fill(buffer, 1)
    assert buffer.replay(lambda call: done.append(call["number"])) == 2
    assert (done, buffer.pending()) == ([0, 7], 0)


def test_h63_a_record_does_not_wait_for_a_process_that_was_stopped_while_it_kept_one(
    tmp_path: Path,
) -> None:
    """The caller hears of it after a while, and nothing is kept."""
    clock = ManualClock()
    buffer, began = Buffer(tmp_path, clock=clock), clock.monotonic()
    holder, _ = file_lock.open_locked(tmp_path / ".append", SystemFiles())
    with pytest.raises(StoreUnavailable, match="another process has locked"):
        buffer.append({"number": 0}, 0)
    assert clock.monotonic() - began >= buffer_module.APPEND_SECONDS_MAX
    assert buffer.pending() == 0
    file_lock.unlock_and_close(holder)
    assert buffer.append({"number": 0}, 0)


def test_h63_a_replay_ends_in_time_though_records_keep_coming(tmp_path: Path) -> None:
    """What is left stays in its order for the next replay."""
    clock = ManualClock()
    buffer, other, done = Buffer(tmp_path, clock=clock), Buffer(tmp_path), list[int]()

    def do(call: BufferedCall) -> None:
        done.append(call["number"])
        clock.advance(seconds=1)
        if len(done) < 100:
            other.append({"number": len(done)}, len(done))

    _fill(buffer, 1)
    assert buffer.replay(do, seconds_max=5.0) == 5
    assert (done, buffer.pending()) == ([0, 1, 2, 3, 4], 1)
    done.extend(range(5, 99))
    assert buffer.replay(lambda call: done.append(call["number"])) == 1
    assert done[-1] == 5

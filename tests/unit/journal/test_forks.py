"""Locks and forks: a child forked in the middle of a write has a copy of its lock, and no use."""

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import StorageError
from onceward.journal import Journal, atomic_file

#: A call into the system, by its name in `os`, and what becomes of it.
Fault = tuple[str, Callable[..., Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


@pytest.fixture
def fork() -> Iterator[Callable[[], None]]:
    """Fork a child that lives until the test ends and keeps its copy of every descriptor."""
    reading, writing = os.pipe()
    children: list[int] = []

    def forked() -> None:
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        children.append(child)

    yield forked
    os.close(writing)
    assert [os.waitpid(child, 0)[1] for child in children] == [0]
    os.close(reading)


def is_free(path: Path) -> bool:
    """Say whether another process would get the lock of this file at once."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def refuse(*_: object, **__: object) -> None:
    raise OSError(5, "Input/output error")


real_write = os.write
FAULTS: dict[str, Fault] = {
    "the disk is full in the middle": ("write", lambda fd, data: real_write(fd, data[:7])),
    "the write is refused": ("write", refuse),
    "the end cannot be read": ("pread", refuse),
    "the name cannot be looked at": ("stat", refuse),
}


def break_once(
    patch: pytest.MonkeyPatch, name: str, fault: Callable[..., Any], before: Callable[[], None]
) -> None:
    """Do something before a call into the system, then let the call end with this fault."""

    def broken(*args: Any, **kwargs: Any) -> Any:
        patch.undo()
        before()
        return fault(*args, **kwargs)

    patch.setattr(os, name, broken)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_append_that_fails_leaves_no_lock_to_a_child(
    path: Path, fork: Callable[[], None], monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """Whatever failed, the next append does not wait for a child that knows nothing of it."""
    journal = Journal(path)
    journal.append({"id": "1"})
    break_once(monkeypatch, *fault, fork)
    with pytest.raises(StorageError):
        journal.append({"id": "2"})
    assert is_free(path)
    journal.append({"id": "3"})
    assert [item["id"] for item in journal.read().items] == ["1", "3"]


def test_a_file_that_was_replaced_meanwhile_is_left_unlocked(
    path: Path, fork: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file, which had the name before, is not left locked."""
    journal = Journal(path)
    journal.append({"id": "1"})
    rotated = path.with_suffix(".rotated")

    def rotate() -> None:
        fork()
        path.rename(rotated)
        path.touch()

    break_once(monkeypatch, "stat", os.stat, rotate)
    journal.append({"id": "2"})
    assert is_free(rotated)
    assert is_free(path)
    assert [item["id"] for item in journal.read().items] == ["2"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_replaced_file_leaves_no_lock_to_a_child(
    path: Path, fork: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """Done or refused, the next one may replace it at once."""
    temporary = path.with_name(f".{path.name}.tmp")
    break_once(monkeypatch, "write", refuse if is_refused else os.write, fork)
    try:
        atomic_file.write(path, b"new")
    except StorageError:
        assert is_refused
        assert is_free(temporary)
    else:
        assert not is_refused
        # The temporary has become the file.
        assert is_free(path)
    atomic_file.write(path, b"newer")
    assert path.read_bytes() == b"newer"

"""Waiting: woken by any process, correct without wake-ups."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from watchfiles._rust_notify import WatchfilesRustInternalError

from onceward.errors import InvalidArgument, InvalidCursor
from onceward.journal import Journal, directory_watch
from onceward.system import ManualClock

#: What never takes so long unless it does not happen.
GUARD_SECONDS = 60.0
APPEND = """
import sys
from onceward.journal import Journal
sys.stdin.readline()
Journal(sys.argv[1]).append({"id": "1"})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "feedback.jsonl"


def test_what_is_there_is_returned_at_once(path: Path) -> None:
    """There is no wait when something matches already."""
    Journal(path).append({"id": "1"})
    assert Journal(path, clock=ManualClock()).tail(wait=30).items == [{"id": "1"}]


def test_nothing_comes_after_the_wait(path: Path) -> None:
    """The wait ends with an empty page and the cursor to go on from."""
    Journal(path).append({"id": "1"})
    clock = ManualClock()
    page = Journal(path, clock=clock).tail(match={"id": "2"}, wait=0)
    assert page.items == []
    assert page.next_cursor == str(path.stat().st_size)


def test_an_append_by_another_process_wakes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign append ends the wait, before its next look."""
    seen: list[set[str]] = []
    wait = directory_watch.DirectoryWatch.wait

    def recorded(watch: directory_watch.DirectoryWatch, *words: Any) -> set[str] | None:
        found = wait(watch, *words)
        seen.append(found or set())
        return found

    monkeypatch.setattr(directory_watch, "WATCHED_SECONDS_MAX", GUARD_SECONDS)
    monkeypatch.setattr(directory_watch.DirectoryWatch, "wait", recorded)
    with subprocess.Popen([sys.executable, "-c", APPEND, path], stdin=subprocess.PIPE) as writer:
        assert writer.stdin
        threading.Timer(0.1, writer.stdin.close).start()
        assert Journal(path).tail(wait=GUARD_SECONDS).items == [{"id": "1"}]
    assert path.name in set.union(*seen)


@pytest.mark.parametrize("directory_exists", [True, False])
def test_without_file_events_polling_finds_it(
    path: Path,
    directory_exists: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No watches, or no directory to watch yet: the record is found all the same."""
    if not directory_exists:
        path = path.parent / "later" / "j.jsonl"
    monkeypatch.setattr(directory_watch, "_notifier", lambda _directory: None)
    threading.Timer(0.2, Journal(path).append, [{"id": "1"}]).start()
    assert Journal(path).tail(wait=GUARD_SECONDS).items == [{"id": "1"}]


def test_a_replacement_during_the_wait_is_reported(path: Path) -> None:
    """A file that is replaced while we wait is not read from its middle."""
    journal = Journal(path)
    end = journal.append({"id": "1"}, {"id": "2"}).end

    def replace() -> None:
        other = path.with_suffix(".new")
        other.write_bytes(path.read_bytes().replace(b'"1"', b'"8"') + b'{"id":"9"}\n')
        other.replace(path)

    threading.Timer(0.2, replace).start()
    with pytest.raises(InvalidCursor):
        journal.tail(end, wait=GUARD_SECONDS)


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "5", None, True])
def test_a_bad_wait_is_refused(path: Path, wait: Any) -> None:
    """A wait is a number of seconds."""
    with pytest.raises(InvalidArgument, match="^wait: must be 0 seconds or more"):
        Journal(path).tail(wait=wait)


def test_without_watches_left_it_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives no more of them, which the library does not tell as an OSError."""

    def refuse(*_: object) -> None:
        message = "Error creating recommended watcher: Too many open files (os error 24)"
        raise WatchfilesRustInternalError(message)

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refuse)
    assert directory_watch.DirectoryWatch(tmp_path, ManualClock()).wait(1) is None

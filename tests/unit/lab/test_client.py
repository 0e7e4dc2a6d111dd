"""FeedbackClient: an agent gets each entry once, across restarts, crashes and replaced files."""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import InvalidArgument, InvalidCursor, KeyInFlight
from onceward.journal import Journal, Record, RecordPage
from onceward.lab import FeedbackClient
from tests.support.killed_processes import Ack, live_and_die


class Agent:
    """A feedback file, and the cursor file of one agent."""

    def __init__(self, directory: Path) -> None:
        self.file, self.cursor = directory / "feedback.jsonl", directory / "agent" / "cursor.json"

    def add(self, *numbers: int, **fields: str) -> None:
        made = [{"id": f"fb_{n}", "createdAt": "2026-01-01T00:00:00.000Z"} for n in numbers]
        Journal(self.file).append(*({**each, **fields} for each in made))

    def client(self, **options: Any) -> FeedbackClient:
        return FeedbackClient(self.file, cursor=self.cursor, **options)

    def available(self, **options: Any) -> list[str]:
        """Start, take everything, and end."""
        with self.client(**options) as client:
            return [entry["id"] for entry in client.available()]

    @property
    def kept(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cursor.read_text())
        return found


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_each_entry_comes_once_across_restarts(agent: Agent) -> None:
    """What one client has done the next one does not get; what is new it gets."""
    assert agent.available() == []
    agent.add(1, 2)
    assert agent.available() == ["fb_1", "fb_2"]
    assert agent.available() == []
    agent.add(3)
    assert agent.available() == ["fb_3"]


def test_the_cursor_file_is_small_and_says_where(agent: Agent) -> None:
    """It holds a version, the cursor with its tag, and how much of the page is done."""
    agent.add(1, 2, 3)
    with agent.client() as client:
        assert len(list(islice(client, 2))) == 2
    assert agent.kept == {
        "schemaVersion": 1,
        "since": "0",
        "tag": None,
        "done": 1,
        "lastId": "fb_1",
        "sessionId": None,
    }
    assert agent.available() == ["fb_2", "fb_3"]
    assert agent.kept["since"] == str(agent.file.stat().st_size)
    assert agent.kept["done"] == 0


def test_an_entry_whose_work_failed_comes_again(agent: Agent) -> None:
    """An error in the loop's body leaves the cursor before that entry; nothing is lost."""
    agent.add(1, 2, 3)
    with agent.client() as client:
        with pytest.raises(ZeroDivisionError):
            for entry in client:
                assert entry["id"] == "fb_1" or 1 / 0
        assert [entry["id"] for entry in client.available()] == ["fb_2", "fb_3"]
    agent.add(4)
    with agent.client() as client, pytest.raises(ZeroDivisionError):
        for _ in client:
            raise ZeroDivisionError
    assert agent.available() == ["fb_4"]


def test_leaving_the_loop_early_repeats_the_last_entry_unless_done(agent: Agent) -> None:
    """After a break the entry comes again, unless `done()` was called for it."""
    agent.add(1, 2, 3)
    with agent.client() as client:
        for _ in client:
            break
        for entry in client:
            assert entry["id"] == "fb_1"
            client.done()
            break
        client.done()  # Idempotent: nothing was handed out since.
    assert agent.available() == ["fb_2", "fb_3"]


def test_poll_gives_what_is_there_until_it_is_done(agent: Agent) -> None:
    """The same entries are given until `done()`, which marks all of them at once."""
    agent.add(1, 2)
    with agent.client() as client:
        assert [entry["id"] for entry in client.poll()] == ["fb_1", "fb_2"]
        assert [entry["id"] for entry in client.poll()] == ["fb_1", "fb_2"]
        client.done()
        assert client.poll() == []
        agent.add(3)
        assert [entry["id"] for entry in client.poll()] == ["fb_3"]
    assert agent.available() == ["fb_3"]


def test_iterating_waits_for_what_comes(agent: Agent) -> None:
    """The loop does not end: entries that other processes append arrive in order."""
    with agent.client() as client:
        started = threading.Event()

        def append() -> None:
            started.wait()
            for number in range(3):
                agent.add(number)

        thread = threading.Thread(target=append)
        thread.start()
        started.set()
        assert [entry["id"] for entry in islice(client, 3)] == ["fb_0", "fb_1", "fb_2"]
        thread.join()


def test_only_entries_of_the_session_come(agent: Agent) -> None:
    """Entries of others are passed, and the cursor with them, so that they are not read again."""
    agent.add(1, 2, sessionId="lab_a")
    agent.add(3, sessionId="lab_b")
    agent.add(4)
    assert agent.available(session_id="lab_b") == ["fb_3"]
    assert agent.kept["since"] == str(agent.file.stat().st_size)
    agent.add(5, sessionId="lab_a")
    assert agent.available(session_id="lab_b") == []
    assert agent.kept["since"] == str(agent.file.stat().st_size)


def test_a_cursor_file_is_for_one_session(agent: Agent) -> None:
    """Another filter would count other entries as done, so it is refused."""
    agent.add(1, sessionId="lab_a")
    assert agent.available(session_id="lab_a") == ["fb_1"]
    with pytest.raises(InvalidCursor, match="is the cursor of session 'lab_a'"):
        agent.client()
    assert agent.available(session_id="lab_a") == []  # And the refused one holds no lock.


def test_a_page_is_read_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many entries cost a read a page, not a read each; a restart costs one more."""
    agent.add(*range(1200))
    reads: list[str] = []
    tail = Journal.tail

    def counted(self: Journal, since: str, *more: Any, **options: Any) -> RecordPage:
        reads.append(since)
        return tail(self, since, *more, **options)

    monkeypatch.setattr(Journal, "tail", counted)
    with agent.client() as client:
        first = [entry["id"] for entry in islice(client, 700)]
    rest = agent.available()
    assert first[:699] + rest == [f"fb_{n}" for n in range(1200)]
    assert len(reads) == 2 + 3  # Two pages; the second again, the third, and the end.


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_replaced_file_is_noticed(agent: Agent, done: int) -> None:
    """Whether the cursor stands in the first page or after it, skipping is never silent."""
    agent.add(1, 2, 3)
    with agent.client() as client:
        for entry in client:
            if entry["id"] == f"fb_{done}":
                client.done()
                break
        agent.file.unlink()
        agent.add(11, 12, 13, 14)
    with agent.client() as client:
        with pytest.raises(InvalidCursor, match="the feedback was replaced") as raised:
            client.poll()
        assert "reset()" in raised.value.fix
        client.reset()
        assert [entry["id"] for entry in client.available()] == ["fb_11", "fb_12", "fb_13", "fb_14"]


def test_a_file_that_was_cut_is_noticed(agent: Agent) -> None:
    """A cursor beyond the end does not begin again by itself."""
    agent.add(1, 2)
    assert agent.available() == ["fb_1", "fb_2"]
    agent.file.write_bytes(b"")
    with agent.client() as client, pytest.raises(InvalidCursor, match="beyond the end"):
        next(iter(client))


def test_reset_inside_the_loop_begins_again(agent: Agent) -> None:
    """The entry after a reset is the first one of the file."""
    agent.add(1, 2)
    seen: list[str] = []
    with agent.client() as client:
        for entry in client.available():
            seen.append(entry["id"])
            if seen == ["fb_1", "fb_2"]:
                client.reset()
    assert seen == ["fb_1", "fb_2", "fb_1", "fb_2"]


@pytest.mark.parametrize("how", ["available", "poll", "iterate"])
def test_entries_that_come_after_the_done_ones_were_all_that_is_left(
    agent: Agent, how: str
) -> None:
    """The rest of the page was truncated: what is appended then still arrives, once."""
    agent.add(1, 2, 3)
    with agent.client() as client:
        assert len(list(islice(client, 2))) == 2
        client.done()
    kept = agent.file.read_bytes().splitlines(keepends=True)[:2]
    agent.file.write_bytes(b"".join(kept))
    with agent.client(wait=5) as client:
        assert list(client.available()) == []
        agent.add(4)
        ways: dict[str, Callable[[], Iterable[Record]]] = {
            "available": client.available,
            "poll": client.poll,
            "iterate": lambda: islice(client, 1),
        }
        found = ways[how]()
        assert [entry["id"] for entry in found] == ["fb_4"]
        client.done()
    assert agent.available() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"schemaVersion":1,"since":"0","tag":null}',
        '{"schemaVersion":1,"since":"x","tag":null,"done":0,"lastId":null,"sessionId":null}',
    ],
)
def test_a_file_that_is_no_cursor_is_left_alone(agent: Agent, text: str) -> None:
    """A path to the wrong kind of file is rejected, and the file not overwritten."""
    agent.cursor.parent.mkdir()
    agent.cursor.write_text(text)
    with pytest.raises(InvalidCursor, match="is not a cursor file"):
        agent.client()
    assert agent.cursor.read_text() == text


def test_a_cursor_of_another_version_is_kept(agent: Agent) -> None:
    """Its position is good for that version, so the fix does not tell to remove it."""
    agent.cursor.parent.mkdir()
    agent.cursor.write_text('{"schemaVersion":2,"position":"9"}')
    with pytest.raises(InvalidCursor, match="another version of Onceward") as caught:
        agent.client()
    assert "use that version" in caught.value.fix
    assert "remove" not in caught.value.fix


def test_a_second_client_gets_an_error_naming_the_holder(agent: Agent) -> None:
    """Two loops with one cursor would both get an entry; the second one is refused."""
    with agent.client():
        with pytest.raises(KeyInFlight, match=f"process {os.getpid()} on ") as raised:
            agent.client()
        assert "different cursor file" in raised.value.fix
    agent.client().close()


def test_a_garbage_collected_client_releases_its_cursor(agent: Agent) -> None:
    """A client that is not closed keeps the lock no longer than the object lives."""
    client = agent.client()
    del client
    gc.collect()
    agent.client().close()


def test_a_closed_client_does_nothing_more(agent: Agent) -> None:
    """Another client may have the cursor by then."""
    agent.add(1)
    client = agent.client()
    entries = iter(client)
    next(entries)
    client.close()
    client.close()
    with pytest.raises(InvalidArgument, match="closed"):
        next(entries)
    with pytest.raises(InvalidArgument, match="closed"):
        client.poll()


def test_a_forked_child_does_not_use_the_parents_client(agent: Agent) -> None:
    """The child gets an error with the fix; when it ends, the parent still has the lock."""
    agent.add(1)
    with agent.client() as client:

        def child(_: int, ack: Ack) -> None:
            with pytest.raises(InvalidArgument, match="created in another process"):
                client.poll()
            client.close()
            ack("refused")
            os.kill(os.getpid(), 9)

        assert live_and_die(child, "lab.client.before_save:9", 0) == ["refused"]
        with pytest.raises(KeyInFlight):
            agent.client()


def test_the_file_of_the_environment_is_the_default(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a source it is the file that every tool takes."""
    monkeypatch.setenv("CM_FEEDBACK_STORE_PATH", str(agent.file))
    agent.add(1)
    with FeedbackClient(cursor=agent.cursor) as client:
        assert [entry["id"] for entry in client.available()] == ["fb_1"]


@pytest.mark.parametrize("wait", [-1, float("nan"), "long", True])
def test_a_wait_is_a_number_of_seconds(agent: Agent, wait: Any) -> None:
    """Anything else is refused before a lock is taken."""
    with pytest.raises(InvalidArgument, match="wait"):
        agent.client(wait=wait)
    agent.client().close()


POINTS = [
    "lab.client.before_save",
    "lab.client.after_save",
    "atomic.write.after_open",
    "atomic.write.after_sync",
    "atomic.write.after_rename",
]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("nth", [1, 2, 5, 6])
def test_a_kill_repeats_at_most_the_entry_in_hand(agent: Agent, point: str, nth: int) -> None:
    """Killed at any moment of a move, the next life goes on with that entry or the one after it."""
    agent.add(*range(6))

    def work(_: int, ack: Ack) -> None:
        with agent.client() as client:
            for entry in client.available():
                ack(entry["id"])

    before = live_and_die(work, f"{point}:{nth}", 0)
    assert before == [f"fb_{n}" for n in range(nth)]
    after = agent.available()
    is_saved = point in ("lab.client.after_save", "atomic.write.after_rename")
    assert after == [f"fb_{n}" for n in range(nth if is_saved else nth - 1, 6)]

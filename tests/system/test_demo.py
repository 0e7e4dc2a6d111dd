"""The demo: what it shows is so, what it counts is there, and none of its processes stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onceward.client import open as open_handle
from onceward.demo import DemoWorld
from onceward.demo.demo_home import TAG_VARIABLE, store_in
from onceward.demo.result_counts import tally, total
from onceward.testing.postgres import PostgresServer
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = [sys.executable, "-m", "onceward", "demo"]
PARTS = ["leads", "run", "feedback", "memory", "chat"]
STORY_SECONDS = ("8", "25", "60")
#: Lets a story live until it is asked to stop, or killed.
LIVING = """
import signal, sys, time
from contextlib import suppress
from pathlib import Path
from onceward.demo import endless_demo_running

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
with suppress(KeyboardInterrupt), endless_demo_running(Path(sys.argv[1]), sys.argv[2]):
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
"""


def processes(home: Path) -> list[int]:
    """Return the processes of a demo that are alive."""
    mark = f"{TAG_VARIABLE}={home}".encode()
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and mark in (each / "environ").read_bytes().split(b"\0"):
                found.append(int(each.name))
        except OSError:
            continue
    return found


def played(home: Path, *words: str) -> dict[str, Any]:
    """Let a short demo run to its end, and return what it says."""
    command = [*COMMAND, "--keep", str(home), "--json", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr
    story: dict[str, Any] = json.loads(ran.stdout)
    assert processes(home) == []
    return story


def check_whole(story: dict[str, Any]) -> None:
    """All parts were played, and nothing is lost or doubled."""
    assert [row["part"] for row in story["parts"]] == PARTS
    assert (story["ok"], story["total"]["lost"], story["total"]["doubled"]) == (True, 0, 0)


def check_covered(story: dict[str, Any]) -> None:
    """Everything that a story is about has happened in it."""
    rows = {row["part"]: row for row in story["parts"]}
    assert all(row["done"] > 0 for row in rows.values()), rows
    assert all(row["killed"] > 0 for row in rows.values()), rows
    assert all(row["retried"] > 0 for row in rows.values()), rows
    assert min(rows["leads"]["taken_over"], rows["leads"]["refused"]) > 0, rows
    assert rows["run"]["taken_over"] == 1
    reported = [event["text"] for event in story["events"]]
    assert not [text for text in reported if text.startswith("not seen")], reported
    for words in ("taken over", "is rejected", "resumed", "rolled back", "delivered again"):
        assert any(words in text for text in reported), (words, reported)


def played_until_covered(directory: Path) -> tuple[Path, dict[str, Any]]:
    """Play a short story, and longer ones if a slow machine left something out of it."""
    for seconds in STORY_SECONDS:
        home = directory / f"home-{seconds}"
        story = played(home, "--seconds", seconds)
        check_whole(story)
        try:
            check_covered(story)
        except AssertionError:
            if seconds == STORY_SECONDS[-1]:
                raise
        else:
            break
    return home, story


def test_a_short_story_loses_and_doubles_nothing_and_the_numbers_are_counted(
    tmp_path: Path,
) -> None:
    """Exit 0 and a table of zeros; and one row less or more in the store would have shown."""
    home, story = played_until_covered(tmp_path)
    world = DemoWorld(home=home, store_url=store_in(home))
    with closing(open_handle(world.store_url)) as ow:
        before = total(tally(world, ow))
        assert (before.lost, before.doubled) == (0, 0)
        assert before.killed == story["total"]["killed"]
        with ow.transaction() as tx:
            tx.execute("delete from demo_charges where lead_id = 1")
            tx.execute("insert into demo_charges (lead_id, buyer, cents) values (2, 'x', 1)")
            tx.execute("insert into demo_heard (entry) select entry from demo_heard where id = 1")
        after = total(tally(world, ow))
        assert (after.lost, after.doubled) == (1, 2)


@pytest.mark.prove
def test_the_story_is_the_same_on_postgresql(
    postgres_server: PostgresServer, tmp_path: Path, prove: bool
) -> None:
    """A database of its own instead of a file, and the same table at the end."""
    if not prove:
        pytest.skip("the same story once more; `make prove` runs it")
    story = played(tmp_path / "home", "--store", postgres_server.new_database("demo"))
    check_whole(story)
    check_covered(story)


@contextmanager
def begun(home: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start something that plays in a home, and wait until workers are at it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: len(processes(home)) >= 4)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_story_that_is_cut_short_leaves_no_process(how: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C ends all processes; and when the demo itself is killed, the kernel does."""
    home = tmp_path / "home"
    with begun(home, *COMMAND, "--keep", str(home)) as process:
        process.send_signal(how)
        process.communicate(timeout=60)
        assert process.returncode == (130 if how is signal.SIGINT else -how)
        until(lambda: not processes(home))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_living_story_ends_with_its_server(how: signal.Signals, tmp_path: Path) -> None:
    """When the server stops, or is killed, so do the director, the workers and the agents."""
    home = tmp_path / "home"
    home.mkdir()
    with begun(home, sys.executable, "-c", LIVING, str(home), store_in(home)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with closing(open_handle(store_in(home))) as ow:
            until(lambda: any(each.processed_count for each in ow.cursors.list("demo_*")))
        process.send_signal(how)
        process.communicate(timeout=60)
        until(lambda: not processes(home))
    if how is signal.SIGTERM:
        assert process.returncode == 0


def test_a_store_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """A demo kills workers, but never those of another program."""
    url = store_in(tmp_path)
    with closing(open_handle(url)) as ow:
        ow.cursors.acquire("orders")
    command = [*COMMAND, "--store", url]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert "may be in use" in ran.stderr
    assert "fix: " in ran.stderr


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """Nothing that is there is mixed with a story."""
    (tmp_path / "mine.txt").write_text("precious")
    command = [*COMMAND, "--keep", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert "not an empty directory" in ran.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]

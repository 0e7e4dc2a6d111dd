"""InterruptibleWait: waiting that survives a bad moment and never keeps a command from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from onceward.cli import interruptible_wait
from onceward.cli.interruptible_wait import (
    FAILING_SECONDS_MAX,
    ExpectedSubmissions,
    InterruptibleWait,
)
from onceward.errors import NotFound, StorageError
from onceward.system import ManualClock


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible_wait, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(interruptible_wait, "LAST_CHECK_SECONDS", 0.05)


def search(
    looks: InterruptibleWait[Any],
    seconds: float | None = None,
    on_change: Callable[[Callable[[], None]], None] = lambda _: None,
) -> None:
    asyncio.run(looks.until_found(on_change, seconds))


def looking_at(*said: object) -> Callable[[], Any]:
    """Look and see these, one after the other; errors are raised."""
    rest: Iterator[object] = iter(said)

    def look() -> Any:
        seen = next(rest)
        if isinstance(seen, Exception):
            raise seen
        return seen

    return look


def test_it_looks_until_something_is_found() -> None:
    """What is not there yet is looked for again."""
    looks = InterruptibleWait(looking_at(None, None, "it"))
    search(looks)
    assert looks.found == "it"


def test_a_change_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the next time when this process made the change itself."""
    monkeypatch.setattr(interruptible_wait, "CHECK_SECONDS", 3600)
    looked, said = threading.Event(), iter([None, "it"])

    def look() -> str | None:
        looked.set()
        return next(said)

    def on_change(ring: Callable[[], None]) -> None:
        def later() -> None:
            looked.wait()
            ring()

        threading.Thread(target=later, daemon=True).start()

    looks = InterruptibleWait(look)
    search(looks, on_change=on_change)
    assert looks.found == "it"


def test_a_failure_is_not_the_end() -> None:
    """The disk refuses for a moment, and then no more."""
    looks = InterruptibleWait(
        looking_at(StorageError("moment"), None, StorageError("moment"), "it")
    )
    search(looks)
    assert (looks.found, looks.error) == ("it", None)


def test_time_that_runs_out_on_failures_says_so() -> None:
    """The error of a wait that gives up says why nothing was found."""
    error = StorageError("no")
    looks = InterruptibleWait(looking_at(*[error] * 1000))
    search(looks, 0.05)
    assert (looks.found, looks.error) == (None, error)


@pytest.mark.parametrize("is_mended", [True, False])
def test_nothing_but_failures_for_a_minute_is_the_end(is_mended: bool) -> None:
    """One look that succeeds starts the minute again."""
    clock, error = ManualClock(), StorageError("no")
    said = looking_at(error, error, None if is_mended else error, error, "it")

    def look() -> Any:
        clock.advance(seconds=FAILING_SECONDS_MAX / 3 + 1)
        return said()

    looks = InterruptibleWait(look, clock=clock)
    if is_mended:
        search(looks)
        assert looks.found == "it"
    else:
        with pytest.raises(StorageError, match="no"):
            search(looks)


def test_what_will_not_pass_ends_it() -> None:
    """Only what the disk refuses may be different a moment later."""
    with pytest.raises(NotFound):
        search(InterruptibleWait(looking_at(NotFound("gone"))))


def test_a_look_that_blocks_is_abandoned() -> None:
    """The time is over, and the last look is given up too."""
    free = threading.Event()
    looks = InterruptibleWait(lambda: "late" if free.wait(60) else None)
    search(looks, 0.05)
    looks.check_last()
    assert looks.found is None
    free.set()
    looks.check_last()
    assert looks.found == "late"


def test_the_last_look_finds_what_came_in_the_end() -> None:
    """It was submitted while the command was being stopped: it is still reported."""
    looks = InterruptibleWait(looking_at(*[None] * 1000))
    search(looks, 0.01)
    looks = InterruptibleWait(looking_at("it"))
    looks.check_last()
    assert looks.found == "it"
    failing = InterruptibleWait(looking_at(StorageError("no")))
    failing.check_last()
    assert failing.found is None


@dataclass
class Counts:
    submitted: int = 0
    completed_unacknowledged: int = 0


def test_submissions_are_over_when_the_last_is_answered() -> None:
    """What an earlier server left unanswered is waited for, but not longer than pages ask."""
    lab, clock = Counts(), ManualClock()
    over = ExpectedSubmissions(lab, 2, clock=clock)  # type: ignore[arg-type]
    lab.submitted, lab.completed_unacknowledged = 1, 1
    assert over() is None
    clock.advance(seconds=100)
    lab.submitted = 2
    assert over() is None
    clock.advance(seconds=5.9)
    assert over() is None
    lab.completed_unacknowledged = 0
    assert over() is True
    lab.completed_unacknowledged = 1
    clock.advance(seconds=0.1)
    assert over() is True

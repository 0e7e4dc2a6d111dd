"""History: what was written down, and checkers that find the first offender."""

import os
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import OutcomeUnknown
from onceward.system import ManualClock
from onceward.system.crash_points import Crashed
from onceward.testing import (
    Entry,
    History,
    check_acked_present,
    check_effects_once,
    check_epochs,
    check_order_per_key,
)


def entry(kind: Any, f: str, key: str, value: object = None, process: str = "p") -> Entry:
    return Entry(process=process, f=f, key=key, value=value, type=kind, t=0.0)


def charged(*keys: str) -> History:
    return History.of(entry("ok", "charge", key) for key in keys)


@pytest.mark.parametrize("in_journal", [True, False])
def test_operations_are_written_down_with_their_end(tmp_path: Path, in_journal: bool) -> None:
    """Done, known not to be done, and unknown are three different ends."""
    history = History(tmp_path / "h.jsonl" if in_journal else None, clock=ManualClock())
    with history.operation("charge", "o1", process="a") as result:
        result.value = 42
    for error in (ValueError("no"), OutcomeUnknown("who knows"), Crashed("power")):
        with pytest.raises(type(error)), history.operation("charge", "o2", process="a"):
            raise error
    kinds = [each.type for each in history.entries]
    assert kinds == ["invoke", "ok", "invoke", "fail", "invoke", "info", "invoke", "info"]
    assert history.oks("charge") == [entry("ok", "charge", "o1", 42, process="a")]


def test_processes_share_a_journal(tmp_path: Path) -> None:
    """What a child wrote down is there, however the child ended."""
    path = tmp_path / "h.jsonl"
    child = os.fork()
    if child == 0:
        History(path).record("ok", "charge", "child")
        os._exit(0)
    os.waitpid(child, 0)
    history = History(path)
    history.record("ok", "charge", "parent")
    assert [each.key for each in history.entries] == ["child", "parent"]
    assert len({each.process for each in history.entries}) == 2


def test_a_history_of_more_than_a_page_is_read_whole(tmp_path: Path) -> None:
    """Long runs are not cut."""
    history = History(tmp_path / "h.jsonl")
    for number in range(501):
        history.record("ok", "f", str(number))
    assert len(history.entries) == 501


def test_acknowledged_is_present() -> None:
    """The first that is gone is named; what was never acknowledged may be there or not."""
    check_acked_present(charged("a", "b"), "charge", ["a", "b", "c"])
    with pytest.raises(AssertionError, match="acknowledged but lost.*key='b'"):
        check_acked_present(charged("a", "b", "d"), "charge", ["a"])


def test_effects_happen_once() -> None:
    """Two effects of a key, or none where one was acknowledged, are named."""
    check_effects_once(charged("a", "b"), "charge", ["a", "b", "unacknowledged"])
    with pytest.raises(AssertionError, match="2 effects of 'b'"):
        check_effects_once(charged("a", "b"), "charge", ["a", "b", "b"])
    with pytest.raises(AssertionError, match="without an effect.*key='b'"):
        check_effects_once(charged("a", "b"), "charge", ["a"])


def test_epochs_never_go_back() -> None:
    """A lower epoch is an offence only when the higher one was known before it began."""
    one_after_the_other = [
        entry("invoke", "acquire", "c", process="p"),
        entry("ok", "acquire", "c", 2, process="p"),
        entry("invoke", "acquire", "c", process="q"),
        entry("ok", "acquire", "c", 1, process="q"),
    ]
    with pytest.raises(AssertionError, match="the epoch of 'c' went back"):
        check_epochs(History.of(one_after_the_other))
    at_the_same_time = [one_after_the_other[index] for index in (0, 2, 1, 3)]
    check_epochs(History.of(at_the_same_time))
    other = [entry("invoke", "acquire", "d"), entry("ok", "acquire", "d", 1)]
    check_epochs(History.of(one_after_the_other[:2] + other), at_least=2)


def test_order_per_key() -> None:
    """Values of one key rise; the same again only where repeats are allowed."""
    history = History.of(
        entry("ok", "handle", key, value) for key, value in [("a", 1), ("b", 9), ("a", 2), ("a", 2)]
    )
    check_order_per_key(history, "handle", repeats=True)
    with pytest.raises(AssertionError, match="out of order for 'a'"):
        check_order_per_key(history, "handle")
    backwards = History.of(entry("ok", "handle", "a", value) for value in (2, 1))
    with pytest.raises(AssertionError, match="value=1"):
        check_order_per_key(backwards, "handle", repeats=True)


def test_a_history_in_which_nothing_happened_proves_nothing() -> None:
    """Every checker fails when there were too few operations to speak of."""
    idle = History.of([entry("fail", "acquire", "c"), entry("info", "acquire", "c")])
    with pytest.raises(AssertionError, match="only 0 'acquire' happened, of at least 1"):
        check_acked_present(idle, "acquire", [])
    with pytest.raises(AssertionError, match="of at least 1"):
        check_effects_once(idle, "acquire", [])
    with pytest.raises(AssertionError, match="of at least 1"):
        check_epochs(idle)
    with pytest.raises(AssertionError, match="of at least 1"):
        check_order_per_key(idle, "acquire")
    with pytest.raises(AssertionError, match="only 1 'charge' happened, of at least 2"):
        check_acked_present(charged("a"), "charge", ["a"], at_least=2)

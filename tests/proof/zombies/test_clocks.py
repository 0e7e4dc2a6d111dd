"""Clocks: processes whose wall clocks are hours apart, stand still, and jump as they work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.client import open as open_handle
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group
from tests.proof.zombies.skewed import AHEAD, BEHIND, RIGHT, STILL, Skewed, skewed
from tests.proof.zombies.wait_until import until
from tests.support.evidence import Entry, Evidence

#: Short, so that a test need not wait long for it to expire.
SECONDS = 0.3
LONG_SECONDS = 3600.0
#: The clocks of the two as they begin, and what the first one's jumps to while it holds something.
WAYS = [
    (AHEAD, BEHIND, BEHIND),
    (BEHIND, AHEAD, AHEAD),
    (STILL, RIGHT, RIGHT),
    (RIGHT, STILL, STILL),
    (RIGHT, RIGHT, AHEAD),
    (RIGHT, RIGHT, BEHIND),
]
Pair = tuple[Skewed, Skewed]


@pytest.fixture
def pair(ow_url: str, tmp_path: Path) -> Iterator[Pair]:
    """Two workers of one store, each with a clock of its own."""
    with open_handle(ow_url) as ow:
        Groups(ow.store).add(Group(name="team", channel="chat", command=("true",)))
    with (
        skewed(ow_url, tmp_path / "one", RIGHT) as one,
        skewed(ow_url, tmp_path / "two", RIGHT) as two,
    ):
        yield one, two


def hold_a_lease(pair: Pair, name: str, jump: str) -> int:
    """No lease is taken while it holds, whatever the clocks say; none holds for ever."""
    one, two = pair
    assert one.ask("acquire", name, "one", LONG_SECONDS) == 1
    assert two.ask("acquire", name, "two", SECONDS) is None
    one.set(jump)
    assert two.ask("acquire", name, "two", SECONDS) is None
    assert one.ask("renew") == "renewed"
    assert one.ask("checkpoint_alone", "1") is None
    assert two.ask("acquire", name, "two", SECONDS) is None
    assert one.ask("release") is None
    return 1


def leave_a_lease(pair: Pair, name: str, jump: str) -> int:
    """An expired lease is given to the next, not early, and the jump of its holder is no help."""
    one, two = pair
    began = time.monotonic()
    assert one.ask("acquire", name, "one", SECONDS) == 1
    one.set(jump)
    taken = until(lambda: two.ask("acquire", name, "two", LONG_SECONDS) == 2, "held for ever")
    assert taken >= began + SECONDS, "a lease was taken early"
    assert one.ask("checkpoint_alone", "666") == "LeaseLost"
    assert one.ask("renew") == "LeaseLost"
    return 1


def claim_and_fall_silent(pair: Pair, name: str, jump: str) -> int:
    """A claim lasts as long as its lease; then it may be rerun, or is ambiguous."""
    one, two = pair
    for on_crash, then in (("rerun", "Fresh"), ("ambiguous", "Ambiguous")):
        key = f"{name} {on_crash}"
        began = time.monotonic()
        assert one.ask("claim", key, SECONDS, on_crash) == "Fresh"
        one.set(jump)
        answers: list[str] = []

        def is_over(key: str = key, on_crash: str = on_crash, heard: list[str] = answers) -> bool:
            heard.append(two.ask("claim", key, LONG_SECONDS, on_crash))
            return heard[-1] != "InFlight"

        assert until(is_over, "claimed for ever") >= began + SECONDS, "a claim was taken early"
        assert answers[-1] == then, answers
    return 2


def keep_an_outcome(pair: Pair, name: str, jump: str) -> int:
    """What is kept for a while is kept so long, and is gone when that is over."""
    one, two = pair
    assert one.ask("claim", name, LONG_SECONDS, "rerun") == "Fresh"
    began = time.monotonic()
    assert one.ask("finish", name, SECONDS) is None
    one.set(jump)
    answers: list[str] = []

    def is_gone() -> bool:
        answers.append(two.ask("claim", name, LONG_SECONDS, "rerun"))
        return answers[-1] != "Replay"

    assert until(is_gone, "kept for ever") >= began + SECONDS, "an outcome was gone early"
    assert answers[-1] == "Expired", answers
    return 1


def arrive(pair: Pair, name: str, jump: str) -> int:
    """Messages are in the order in which they came, whatever the time of who took them in."""
    one, two = pair
    first = one.ask("receive", "team", f"{name} 1")
    second = two.ask("receive", "team", f"{name} 2")
    one.set(jump)
    third = one.ask("receive", "team", f"{name} 3")
    assert first < second < third
    assert one.ask("receive", "team", f"{name} 1") == first, "a message was taken for another"
    return 3


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_wrong_clocks_change_nothing(
    pair: Pair, ow_url: str, prove: bool, evidence: Evidence
) -> None:
    """Ahead, behind, standing still, jumping: nothing is taken early, nothing is held for ever."""
    ways = WAYS if prove else WAYS[:1]
    works = (hold_a_lease, leave_a_lease, claim_and_fall_silent, keep_an_outcome, arrive)
    done = 0
    for number, (first, second, jump) in enumerate(ways):
        for work in works:
            pair[0].set(first)
            pair[1].set(second)
            check_acknowledged(pair)
            done += work(pair, f"{work.__name__} {number}", jump)
    with open_handle(ow_url) as ow:
        items, _ = Inbox(ow.store).conversation("team", 0, limit=100)
    arrived = [item.text for item in items]
    said = [f"arrive {number} {n}" for number in range(len(ways)) for n in (1, 2, 3)]
    evidence.record(
        Entry(
            campaign="wall clocks an hour ahead, an hour behind, standing still, jumping",
            layer="clocks",
            claims=("F1", "I1", "I4", "X1"),
            engine=ow_url.partition(":")[0].removesuffix("ql"),
            schedules=len(ways) * len(works),
            faults={"wrong clock": 2 * len(ways), "jump": len(ways) * len(works)},
            work=done,
            lost=len(set(said) - set(arrived)),
            doubled=len(arrived) - len(set(arrived)),
        )
    )
    assert arrived == said


def check_acknowledged(pair: Pair) -> None:
    """Make sure that the clocks are as wrong as was asked for, or nothing here proves anything."""
    for each in pair:
        wanted, before, now, after = each.time, time.time(), each.ask("now"), time.time()
        if wanted == STILL:
            assert now == each.ask("now"), "its clock runs"
        else:
            wrong = float(wanted)
            assert before + wrong - 1 <= now <= after + wrong + 1, "its clock is right"

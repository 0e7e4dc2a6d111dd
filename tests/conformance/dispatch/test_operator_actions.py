"""What people see of groups, and what they decide: dead letters, replays, pauses."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.dispatch.models import DeliveryState, Group, TriggerKind
from onceward.errors import (
    BatchInFlight,
    Conflict,
    DeadLetterMissing,
    GroupMissing,
    InvalidArgument,
)
from tests.support.dispatcher_parts import Talk, ids

WHO: dict[str, Any] = {"reason": "try again", "actor": "ann"}


@pytest.fixture
def talk(ow: Onceward) -> Talk:
    found = Talk(ow)
    found.group()
    return found


def died(talk: Talk, *texts: str, group: str = "team") -> int:
    """Let messages become a dead letter; return its number."""
    talk.hear(*texts, group=group)
    assert talk.failed(talk.begun(group), is_final=True) is DeliveryState.DEAD
    return talk.dead.letters()[-1].id


# --- groups --------------------------------------------------------------------------------------


def test_a_group_is_added_once(talk: Talk) -> None:
    """The same again is fine; another of the same name is a conflict; a change is a change."""
    assert talk.group() == talk.groups.show("team")
    with pytest.raises(Conflict):
        talk.group(command=("false",))
    talk.groups.set("team", command=("false",), idle_seconds=5)
    assert talk.group(command=("false",), idle_seconds=5).command == ("false",)
    assert [each.name for each in talk.groups.list()] == ["team"]


def test_a_group_that_cannot_work_is_refused(talk: Talk) -> None:
    """By its field, and nothing is kept."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("name", {"name": "no spaces"}),
        ("name", {"name": "../up"}),
        ("name", {"name": "x" * 101}),
        ("command", {"command": ()}),
        ("command", {"command": ("a\0",)}),
        ("word", {"trigger": TriggerKind.PREFIX}),
        ("workdir", {"workdir": "\0"}),
        ("idle_seconds", {"idle_seconds": 0}),
        ("hard_seconds", {"hard_seconds": float("inf")}),
    ]
    for field, change in wrong:
        with pytest.raises(InvalidArgument) as caught:
            talk.groups.add(Group(**{"name": "n", "channel": "chat", "command": ("x",), **change}))
        assert caught.value.context["field"] == field
    assert len(talk.groups.list()) == 1


def test_what_was_said_in_a_removed_group_stays(talk: Talk) -> None:
    """It takes no messages any more, and goes on where it was when it is added again."""
    talk.hear("one")
    talk.done(talk.begun())
    talk.hear("two")
    talk.groups.remove("team")
    for call in (lambda: talk.groups.show("team"), lambda: talk.groups.remove("team")):
        with pytest.raises(GroupMissing):
            call()
    with pytest.raises(GroupMissing):
        talk.receive("three")
    talk.group()
    assert [each.text for each in talk.items()] == ["one", "two"]
    talk.hear("three")
    assert ids(talk.begin()) == ["two", "three"]


# --- status --------------------------------------------------------------------------------------


def test_status_reports_where_every_group_stands(talk: Talk) -> None:
    """Read and processed, what waits, what is in flight, and the next try."""
    talk.group("quiet", trigger=TriggerKind.PREFIX, word="@bot")
    talk.hear("aside", group="quiet")
    first, second = talk.hear("one", "two")
    delivery = talk.begun()
    talk.receive("three")
    quiet, team = talk.operators.status()
    assert (quiet.group.name, quiet.processed, quiet.pending, quiet.is_called) == (
        *("quiet", 0, 1),
        False,
    )
    assert quiet.in_flight is None
    assert (team.processed, team.pending, team.is_called) == (second, 1, True)
    assert team.in_flight is not None
    assert (team.in_flight.first_seq, team.in_flight.last_seq) == (first, second)
    assert talk.operators.positions() == (second + 1, second)
    talk.arrivals.see()
    talk.failed(delivery)
    team = talk.operators.status_of("team")
    assert (team.processed, team.pending, team.in_flight) == (0, 3, None)
    assert team.group.retry_at is not None
    assert team.group.attempts == 1
    with pytest.raises(GroupMissing):
        talk.operators.status_of("unknown")


def test_the_state_reads_as_the_first_router_kept_it(talk: Talk, ow: Onceward) -> None:
    """A view shows what was read and what each group has processed, as times."""
    talk.receive("one", at="2026-02-06T12:00:00Z")
    talk.arrivals.see()
    talk.done(talk.begun())
    talk.receive("two", at="2026-02-06T12:00:05Z")
    talk.arrivals.see()
    rows = ow.store.select("select key, group_name, value from router_state order by key")
    assert [tuple(map(str, row)) for row in rows] == [
        ("last_agent_timestamp", "team", "2026-02-06T12:00:00Z"),
        ("last_timestamp", "None", "2026-02-06T12:00:05Z"),
    ]


# --- dead letters --------------------------------------------------------------------------------


def test_dead_letters_are_listed_in_pages(talk: Talk) -> None:
    """Oldest first, each with its messages."""
    talk.group("other")
    numbers = [died(talk, "a1", "a2"), died(talk, "b1", group="other"), died(talk, "a3")]
    assert [each.id for each in talk.dead.letters()] == numbers
    listed = talk.ow.dead.list(group="team")
    assert [each.id for each in listed] == [numbers[2], numbers[0]]
    assert ids(talk.dead.messages(numbers[0])) == ["a1", "a2"]
    assert talk.ow.dead.count_by_group() == {"team": 2, "other": 1}


def test_a_redriven_letter_arrives_again(talk: Talk) -> None:
    """Under new numbers in its old order, even if nothing in it calls any more."""
    talk.group("quiet", trigger=TriggerKind.PREFIX, word="@bot")
    number = died(talk, "context", "@bot help", group="quiet")
    talk.hear("later", group="quiet")
    assert talk.begin("quiet") is None
    talk.groups.set("quiet", word="@other")
    assert ids(talk.dead.redrive(number)) == ["context", "@bot help"]
    talk.arrivals.see()
    by_arrival = sorted(talk.begun("quiet").messages, key=lambda each: each.seq)
    assert ids(by_arrival) == ["later", "context", "@bot help"]
    # It was said once, and is shown where it was said.
    assert [each.text for each in talk.items("quiet")] == ["context", "@bot help", "later"]


def test_a_letter_is_decided_once(talk: Talk) -> None:
    """Of many who redrive it or drop it at once, one does."""
    number = died(talk, "one", "two")

    def decide(at: int) -> bool:
        act = talk.dead.drop if at % 2 else talk.dead.redrive
        return bool(act(number))

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(decide, range(12))) == 1
    talk.arrivals.see()
    delivery = talk.begin()
    letter = talk.ow.dead.show(number)
    is_redriven = letter.state == "redriven"
    records = {each.id: str(each.state) for each in talk.operators.deliveries("team")}
    assert records[letter.delivery or 0] == letter.state
    assert (letter.changed_by, letter.reason) == ("ann", "fixed" if is_redriven else "spam")
    assert ids(delivery) == (["one", "two"] if is_redriven else [])
    assert talk.dead.letters() == []


def test_a_dropped_letter_is_gone_for_good(talk: Talk) -> None:
    """It is handed out no more, and who looks it up sees what was decided."""
    number = died(talk, "one")
    assert talk.dead.drop(number)
    assert not talk.dead.drop(number)
    assert talk.dead.redrive(number) == []
    assert talk.dead.letters() == []
    letter, messages = talk.ow.dead.show(number), talk.dead.messages(number)
    assert (letter.state, ids(messages)) == ("dropped", ["one"])
    assert talk.operators.deliveries("team")[0].state is DeliveryState.DROPPED
    talk.arrivals.see()
    assert talk.begin() is None


def test_what_is_no_dead_letter_cannot_be_decided(talk: Talk) -> None:
    """Neither an unknown number, nor a delivery that goes on."""
    talk.hear("one")
    running = talk.begun()
    for call in (talk.dead.messages, talk.dead.redrive, talk.dead.drop):
        for number in (running.id, 10**6):
            with pytest.raises(DeadLetterMissing):
                call(number)
    talk.done(running)


# --- replays -------------------------------------------------------------------------------------


def handled(talk: Talk, *texts: str) -> list[int]:
    numbers = []
    for text in texts:
        numbers += talk.hear(text)
        talk.done(talk.begun())
    return numbers


def test_a_replay_hands_out_again_what_its_dry_run_said(talk: Talk, ow: Onceward) -> None:
    """A dry run changes nothing; the replay does what it said, and is in the history."""
    numbers = handled(talk, "one", "two", "three")
    said = talk.operators.replay("team", numbers[1], **WHO, is_dry_run=True)
    assert (said.messages, said.is_called) == (2, True)
    assert (said.from_position, said.to_position) == (numbers[2], numbers[1] - 1)
    assert talk.begin() is None
    assert talk.operators.replay("team", numbers[1], **WHO) == said
    assert ids(talk.begin()) == ["two", "three"]
    rows = ow.store.select(
        "select actor, reason, from_position, to_position from cursor_history"
        " where cursor_name = ? and kind = 'rollback'",
        ["dispatch/team"],
    )
    assert rows == [("ann", "try again", str(numbers[2]), str(numbers[1] - 1))]


def test_a_replay_takes_what_waits_along(talk: Talk) -> None:
    """Nothing that was not handed out is lost by going back, nor counted as repeated."""
    numbers = handled(talk, "one", "two")
    talk.hear("three")
    assert talk.operators.replay("team", numbers[1], **WHO).messages == 1
    assert ids(talk.begin()) == ["two", "three"]


def test_a_replay_of_context_waits_for_a_call(talk: Talk) -> None:
    """It says so before."""
    talk.group("quiet", trigger=TriggerKind.PREFIX, word="@bot")
    talk.hear("@bot go", group="quiet")
    talk.done(talk.begun("quiet"))
    (number,) = talk.hear("aside", group="quiet")
    talk.operators.replay("quiet", number, **WHO)
    assert not talk.operators.replay("quiet", number, **WHO, is_dry_run=True).is_called
    assert talk.begin("quiet") is None


def test_a_replay_is_refused_while_an_agent_works(talk: Talk) -> None:
    """And changes nothing."""
    (number,) = handled(talk, "one")
    talk.hear("two")
    delivery = talk.begun()
    with pytest.raises(BatchInFlight):
        talk.operators.replay("team", number, **WHO)
    assert talk.done(delivery) is None
    assert talk.begin() is None


def test_a_replay_goes_nowhere_that_is_not(talk: Talk) -> None:
    """Before the first arrival, beyond what was read, or in a group that is not there."""
    handled(talk, "one")
    talk.receive("unread")
    for since in (-1, 0, 3, 10**9):
        for is_dry_run in (True, False):
            with pytest.raises(InvalidArgument):
                talk.operators.replay("team", since, **WHO, is_dry_run=is_dry_run)
    with pytest.raises(GroupMissing):
        talk.operators.replay("unknown", 1, **WHO)


def test_a_replay_closes_the_letters_that_it_repeats(talk: Talk) -> None:
    """All of a letter comes again, or the part after the place; the other part stays one."""
    talk.hear("a1", "a2", "a3", "a4")
    talk.failed(talk.begun(), is_final=True)
    died(talk, "b1")
    first, _ = (each.id for each in talk.dead.letters())
    third = talk.dead.messages(first)[2].seq
    assert talk.operators.replay("team", third, **WHO).messages == 3
    (letter,) = talk.dead.letters()
    assert (letter.id, ids(talk.dead.messages(letter.id))) == (first, ["a1", "a2"])
    delivery = talk.begun()
    assert ids(delivery) == ["a3", "a4", "b1"]
    talk.done(delivery)
    talk.dead.redrive(first)
    talk.arrivals.see()
    assert ids(talk.begin()) == ["a1", "a2"]

"""Messages in the hands of agents, and what becomes of them: done, back, kept, or given up."""

from typing import Any

import pytest

from onceward.dispatch import deliveries
from onceward.dispatch.models import Delivery, DeliveryState, TriggerKind
from onceward.errors import BatchInFlight, Superseded
from onceward.retries.retry_schedule import DISPATCH
from onceward.testing.moving_time import MovingTime
from tests.support.dispatch_groups import states, talk
from tests.support.dispatcher_parts import Talk, ids

__all__ = ["talk"]

DONE, KEPT = DeliveryState.DONE, DeliveryState.KEPT
ROLLED_BACK, DEAD = DeliveryState.ROLLED_BACK, DeliveryState.DEAD


# --- handing out ---------------------------------------------------------------------------------


def test_a_delivery_has_all_since_the_last_run(talk: Talk) -> None:
    """What did not call comes along as context, and nothing comes twice."""
    talk.group("quiet", trigger=TriggerKind.MENTION, word="@bot")
    talk.hear("one", "two", group="quiet")
    assert talk.begin("quiet") is None
    assert talk.pending("quiet") == 2
    talk.hear("three @bot", group="quiet")
    delivery = talk.begun("quiet")
    assert ids(delivery) == ["one", "two", "three @bot"]
    assert (delivery.attempt, delivery.first_seq) == (1, delivery.messages[0].seq)
    assert talk.done(delivery) is None
    talk.hear("four", group="quiet")
    assert talk.begin("quiet") is None
    assert states(talk, "quiet") == [DONE]


def test_one_delivery_at_a_time(talk: Talk) -> None:
    """While an agent has messages, others wait; the group says what is in flight."""
    talk.hear("one")
    delivery = talk.begun()
    assert talk.begin() is None
    talk.hear("two")
    with pytest.raises(BatchInFlight):
        talk.begin()
    running = talk.operators.status_of("team").in_flight
    assert running is not None
    assert (running.id, running.first_seq) == (delivery.id, delivery.first_seq)
    talk.done(delivery)
    assert ids(talk.begin()) == ["two"]


def test_groups_do_not_know_of_one_another(talk: Talk) -> None:
    """One fails and goes back while the other is done."""
    talk.hear("here")
    talk.hear("there", group="far")
    here, there = talk.begun(), talk.begun("far")
    assert talk.failed(here) is ROLLED_BACK
    talk.done(there)
    assert ids(talk.begin()) == ["here"]
    assert talk.begin("far") is None


def test_follow_ups_join_what_is_in_flight(talk: Talk) -> None:
    """They share the fate of the delivery that they joined."""
    talk.hear("one")
    delivery = talk.begun()
    group = talk.groups.show("team")
    assert talk.deliveries.extend(delivery, group) is None
    talk.hear("two", "three")
    delivery = talk.extended(delivery)
    assert ids(delivery) == ["two", "three"]
    assert talk.failed(delivery) is ROLLED_BACK
    again = talk.begun()
    assert ids(again) == ["one", "two", "three"]
    talk.done(again)
    assert talk.pending() == 0


def test_what_is_done_only_in_part_goes_on(talk: Talk) -> None:
    """The rest is a delivery of its own, with the way back to where the first part ended."""
    first = talk.hear("one")[0]
    delivery = talk.begun()
    talk.hear("two", "three")
    delivery = talk.extended(delivery)
    rest = talk.done(delivery, first)
    assert rest is not None
    assert (ids(rest), rest.attempt) == (["two", "three"], 1)
    assert talk.failed(rest) is ROLLED_BACK
    assert ids(talk.begin()) == ["two", "three"]
    assert states(talk) == [DONE, ROLLED_BACK, DeliveryState.RUNNING]


@pytest.mark.parametrize("upto", [-1, 0, 10**9])
def test_an_agent_cannot_be_done_with_what_it_was_not_handed(talk: Talk, upto: int) -> None:
    """A number before its first message ends nothing; one beyond its last ends what it had."""
    talk.hear("one")
    delivery = talk.begun()
    talk.hear("two")
    rest = talk.done(delivery, upto)
    if upto > 0:
        assert rest is None
        assert ids(talk.begin()) == ["two"]
    else:
        assert ids(rest) == ["one"]


def test_a_batch_is_limited(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many messages, so many bytes, at least one; the rest is handed out next."""
    monkeypatch.setattr(deliveries, "BATCH_MESSAGES_MAX", 3)
    monkeypatch.setattr(deliveries, "BATCH_BYTES_MAX", 10)
    talk.hear("a", "b", "c", "d", "0123456789", "e" * 20, "f")
    found: list[list[str]] = []
    while (delivery := talk.begin()) is not None:
        found.append(ids(delivery))
        talk.done(delivery)
    assert found == [["a", "b", "c"], ["d"], ["0123456789"], ["e" * 20], ["f"]]


# --- failures ------------------------------------------------------------------------------------


def test_a_failure_waits_and_new_messages_do_not_shorten_that(
    talk: Talk, ow_time: MovingTime
) -> None:
    """5, 10, 20, 40, 80 seconds, whatever arrives meanwhile; then it is handed out with all."""
    talk.deliveries = deliveries.Deliveries(talk.ow.store, schedule=DISPATCH)
    talk.hear("m0")
    for attempt, seconds in enumerate((5, 10, 20, 40, 80), 1):
        delivery = talk.begun()
        assert delivery.attempt == attempt
        assert talk.failed(delivery) is ROLLED_BACK
        group = talk.groups.show("team")
        assert group.attempts == attempt
        assert group.last_error == "it failed"
        assert group.wait_seconds == pytest.approx(seconds, abs=2)
        talk.hear(f"m{attempt}")
        ow_time.advance(seconds=seconds / 2)
        left = talk.groups.show("team").wait_seconds
        assert left == pytest.approx(seconds / 2, abs=2)
        ow_time.advance(seconds=seconds / 2 + 2)
        assert talk.groups.show("team").wait_seconds == 0
    last = talk.begun()
    assert ids(last) == [f"m{number}" for number in range(6)]
    assert talk.failed(last) is DEAD


def test_h44_exhausted_retries_are_dead_letters_that_can_be_redriven(talk: Talk) -> None:
    """Then the group goes on with what comes next, and the letter is handed out when wanted."""
    talk.hear("poison")
    for state in (ROLLED_BACK, ROLLED_BACK, DEAD):
        assert talk.failed(talk.begun()) is state
    group = talk.groups.show("team")
    assert (group.attempts, group.wait_seconds) == (0, 0)
    talk.hear("next")
    fresh = talk.begun()
    assert (ids(fresh), fresh.attempt) == (["next"], 1)
    talk.done(fresh)
    (letter,) = talk.dead.letters()
    assert (letter.attempts, letter.error_message, letter.state) == (3, "it failed", "dead")
    shown = talk.ow.dead.show(letter.id)
    assert [each.attempt for each in shown.failures] == [1, 2, 3]
    assert shown.first_failed_at <= shown.dead_at
    assert (shown.cursor, shown.group, shown.source) == ("dispatch/team", "team", "chat")
    assert ids(talk.dead.messages(letter.id)) == ["poison"]
    assert ids(talk.dead.redrive(letter.id)) == ["poison"]
    assert talk.dead.letters() == []
    assert talk.arrivals.see() == ["team"]
    again = talk.begun()
    assert (ids(again), again.attempt) == (["poison"], 1)
    talk.done(again)
    assert talk.pending() == 0


def test_h44_a_completed_delivery_is_no_failed_attempt_of_a_replayed_letter(talk: Talk) -> None:
    """A replay to a completed message, then a final failure: the letter lists only failures."""
    (first,) = talk.hear("one")
    talk.done(talk.begun())
    talk.hear("two")
    assert talk.failed(talk.begun()) is ROLLED_BACK
    talk.operators.replay("team", first, reason="again", actor="ann")
    again = talk.begun()
    assert (ids(again), again.attempt) == (["one", "two"], 2)
    assert talk.failed(again, is_final=True) is DEAD
    (letter,) = talk.dead.letters()
    assert [each.attempt for each in talk.ow.dead.show(letter.id).failures] == [2]


def test_a_final_failure_is_a_dead_letter_at_once(talk: Talk) -> None:
    """An agent that says that a retry is of no use is believed."""
    talk.hear("one")
    assert talk.failed(talk.begun(), is_final=True) is DEAD
    assert talk.begin() is None
    assert len(talk.dead.letters()) == 1


def test_a_success_forgets_failures(talk: Talk) -> None:
    """The next failure is a first one again."""
    talk.hear("one")
    talk.failed(talk.begun())
    talk.done(talk.begun())
    assert talk.groups.show("team").attempts == 0
    talk.hear("two")
    assert talk.begun().attempt == 1


def test_what_is_given_back_counts_as_no_failure(talk: Talk) -> None:
    """A delivery that a stopping dispatcher gives back is due at once."""
    talk.hear("one")
    talk.deliveries.returned(talk.begun())
    group = talk.groups.show("team")
    assert (group.attempts, group.wait_seconds) == (0, 0)
    assert talk.begun().attempt == 1


def test_an_error_of_any_kind_is_kept_short(talk: Talk) -> None:
    """A NUL or a novel in an error breaks nothing."""
    talk.hear("one")
    delivery = talk.begun()
    talk.deliveries.failed(delivery, "a\0b" + "x" * 10_000)
    error = talk.groups.show("team").last_error
    assert error is not None
    assert error.startswith("a�b")
    assert len(error) <= deliveries.ERROR_CHARACTERS_MAX


# --- crashes and stale hands ---------------------------------------------------------------------


def test_h39_what_a_crash_leaves_is_handed_out_again_unless_output_was_sent(talk: Talk) -> None:
    """At start the record of what was in flight tells which it was."""
    talk.group("third")
    for name in ("team", "third"):
        talk.hear(f"to {name}", group=name)
    silent, spoken = talk.begun("team"), talk.begun("third")
    talk.say(spoken, "answer", is_stored=True)
    ended = {record.group: ending.state for record, ending in Talk(talk.ow).deliveries.recover()}
    assert ended == {"team": ROLLED_BACK, "third": KEPT}
    assert talk.deliveries.recover() == []
    again = talk.begun("team")
    assert (ids(again), again.attempt) == (ids(silent), 1)
    assert talk.begin("third") is None


def test_recovery_of_one_group_leaves_the_others_alone(talk: Talk) -> None:
    """A dispatcher that lost sight of one run does not end those that go on."""
    talk.hear("one")
    talk.hear("two", group="far")
    talk.begun()
    other = talk.begun("far")
    assert [record.group for record, _ in talk.deliveries.recover("team")] == ["team"]
    talk.done(other)


def test_a_stale_holder_changes_nothing(talk: Talk) -> None:
    """What was taken over can neither speak, nor take more, nor end; the new one can."""
    talk.hear("one")
    stale = talk.begun()
    talk.deliveries.recover()
    fresh = talk.begun()
    talk.hear("two")
    calls: list[Any] = [
        lambda: talk.say(stale, "late", is_stored=True),
        lambda: talk.say(stale, "late"),
        lambda: talk.deliveries.extend(stale, talk.groups.show("team")),
        lambda: talk.done(stale),
        lambda: talk.failed(stale),
        lambda: talk.deliveries.returned(stale),
    ]
    for call in calls:
        with pytest.raises(Superseded):
            call()
    assert talk.replies() == []
    assert talk.outbox.next_unsent() == []
    assert ids(_with(fresh, talk)) == ["two"]


def _with(delivery: Delivery, talk: Talk) -> Delivery:
    return talk.extended(delivery)


def test_what_an_agent_says_late_is_kept(talk: Talk) -> None:
    """After its `done` it is an answer to what was done."""
    talk.hear("one")
    delivery = talk.begun()
    talk.done(delivery)
    assert talk.say(delivery, "by the way", is_stored=True, is_over=True)
    assert talk.replies() == ["by the way"]
    assert talk.begin() is None

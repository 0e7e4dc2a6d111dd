"""Failures after output: what is kept, what comes again, and who decides that."""

import threading
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.dispatch.models import DeliveryState
from tests.support.dispatch_groups import states, talk
from tests.support.dispatcher_parts import FakeChannel, Talk, ids

__all__ = ["talk"]

DONE, KEPT = DeliveryState.DONE, DeliveryState.KEPT
ROLLED_BACK, DEAD = DeliveryState.ROLLED_BACK, DeliveryState.DEAD


# --- failures after output -----------------------------------------------------------------------


@pytest.mark.parametrize("is_stored", [True, False])
def test_h40_after_output_nothing_is_repeated_but_what_came_later(
    talk: Talk, is_stored: bool
) -> None:
    """Not rolled back; follow-ups that were piped in after the last output are handed out again."""
    name, channel = ("team", FakeChannel(takes_keys=True)) if is_stored else _far()
    talk.hear("one", group=name)
    delivery = talk.begun(name)
    talk.say(delivery, "answer one", is_stored=is_stored)
    talk.send_all(channel)
    talk.hear("two", "three", group=name)
    delivery = talk.extended(delivery)
    assert talk.failed(delivery) is KEPT
    group = talk.groups.show(name)
    assert (group.attempts, group.wait_seconds) == (0, 0)
    again = talk.begun(name)
    assert ids(again) == ["two", "three"]
    talk.done(again)
    assert talk.pending(name) == 0
    assert states(talk, name) == [KEPT, DONE]


def _far() -> tuple[str, FakeChannel]:
    return "far", FakeChannel(takes_keys=True)


def test_h40_an_answer_that_was_not_sent_is_not_said_for_what_comes_again(talk: Talk) -> None:
    """The follow-up is answered by the next run, so what the failed one said of it is cancelled."""
    channel = FakeChannel(takes_keys=True)
    talk.hear("one", group="far")
    delivery = talk.begun("far")
    talk.say(delivery, "answer one")
    talk.send_all(channel)
    talk.say(delivery, "more of one")
    talk.hear("two", group="far")
    delivery = talk.extended(delivery)
    talk.say(delivery, "answer two")
    assert talk.failed(delivery) is KEPT
    again = talk.begun("far")
    assert ids(again) == ["two"]
    talk.say(again, "answer two, again")
    talk.done(again)
    talk.send_all(channel)
    assert channel.texts("far") == ["answer one", "more of one", "answer two, again"]


def test_h40_a_follow_up_that_the_agent_did_not_reach_is_not_lost(talk: Talk) -> None:
    """It was in the pipe when the agent answered; the agent was not done with it, and said so."""
    first = talk.hear("one")[0]
    delivery = talk.begun()
    talk.hear("two")
    delivery = talk.extended(delivery)
    talk.say(delivery, "answer one", is_stored=True)
    rest = talk.done(delivery, first)
    assert ids(rest) == ["two"]
    assert rest is not None
    assert talk.failed(rest) is ROLLED_BACK
    assert ids(talk.begin()) == ["two"]


def test_what_was_said_about_nothing_keeps_nothing(talk: Talk) -> None:
    """An agent that speaks before it has looked at anything fails like one that was silent."""
    talk.hear("one")
    delivery = talk.begun()
    expected = {"key": "hello", "is_stored": True, "upto": 0}
    assert talk.outbox.add(delivery, "hello", **expected)  # type: ignore[arg-type]
    assert talk.failed(delivery) is ROLLED_BACK
    assert talk.groups.show("team").attempts == 1
    assert ids(talk.begin()) == ["one"]


def test_what_the_agent_did_not_look_at_is_not_given_up_with_the_rest(talk: Talk) -> None:
    """A follow-up in the pipe of an agent that fails for good is handed to the next one."""
    first = talk.hear("poison")[0]
    delivery = talk.begun()
    talk.hear("fine")
    delivery = talk.extended(delivery)
    ending = talk.deliveries.failed(delivery, "no", is_final=True, upto=first)
    assert ending.state is DEAD
    assert ids(talk.begin()) == ["fine"]
    (letter,) = talk.dead.letters()
    assert ids(talk.dead.messages(letter.id)) == ["poison"]


def test_what_was_said_before_is_no_output(talk: Talk) -> None:
    """An agent that repeats itself under a key shows nothing new, so its failure goes back."""
    talk.hear("one")
    delivery = talk.begun()
    assert talk.say(delivery, "hello", key="greeting", is_stored=True)
    talk.done(delivery)
    talk.hear("two")
    delivery = talk.begun()
    assert not talk.say(delivery, "hello", key="greeting", is_stored=True)
    assert talk.failed(delivery) is ROLLED_BACK
    assert ids(talk.begin()) == ["two"]


def test_the_last_attempt_after_output_is_kept_and_no_dead_letter(talk: Talk) -> None:
    """People have their answer; there is nothing to decide."""
    talk.hear("one")
    delivery = talk.begun()
    talk.say(delivery, "answer", is_stored=True)
    assert talk.failed(delivery, is_final=True) is KEPT
    assert talk.dead.letters() == []
    assert talk.begin() is None


def test_without_output_what_was_said_is_taken_back(talk: Talk) -> None:
    """It cannot have been seen; the next attempt sends it again, and it is shown once."""
    channel = FakeChannel(takes_keys=False)
    talk.hear("one", group="far")
    delivery = talk.begun("far")
    talk.say(delivery, "answer")
    ending = talk.deliveries.failed(delivery, "it failed")
    assert (ending.state, ending.cancelled) == (ROLLED_BACK, 1)
    assert talk.states(delivery) == ["cancelled"]
    talk.send_all(channel)
    assert channel.calls == []
    again = talk.begun("far")
    talk.say(again, "answer")
    talk.done(again)
    talk.send_all(channel)
    assert channel.texts("far") == ["answer"]


# --- the decision --------------------------------------------------------------------------------


def test_h41_a_send_that_has_begun_decides(talk: Talk) -> None:
    """From the mark on people may have seen it: the failure is kept, and the send goes on."""
    talk.hear("one", group="far")
    delivery = talk.begun("far")
    talk.say(delivery, "answer")
    (saying,) = talk.outbox.next_unsent()
    assert talk.outbox.mark_sending(saying)
    assert talk.failed(delivery) is KEPT
    talk.outbox.mark_sent(saying)
    assert talk.states(delivery) == ["sent"]


def test_h41_a_send_after_the_decision_does_not_happen(talk: Talk) -> None:
    """The sender holds a reply that was taken back meanwhile; marking it as sending fails."""
    talk.hear("one", group="far")
    delivery = talk.begun("far")
    talk.say(delivery, "answer")
    (saying,) = talk.outbox.next_unsent()
    assert talk.failed(delivery) is ROLLED_BACK
    assert not talk.outbox.mark_sending(saying)
    assert talk.outbox.next_unsent() == []


@pytest.mark.parametrize("is_send_first", [True, False])
def test_h41_the_decision_and_the_send_wait_for_one_another(
    talk: Talk, ow: Onceward, is_send_first: bool
) -> None:
    """The one that begins later waits for the other's transaction, and finds what it decided."""
    talk.hear("one", group="far")
    delivery = talk.begun("far")
    talk.say(delivery, "answer")
    (saying,) = talk.outbox.next_unsent()
    calls: list[Any] = [
        lambda: talk.outbox.mark_sending(saying),
        lambda: talk.failed(delivery),
    ]
    if not is_send_first:
        calls.reverse()
    answers: list[Any] = []
    later = threading.Thread(target=lambda: answers.append(calls[1]()))
    with ow.transaction():
        first = calls[0]()
        later.start()
        later.join(0.3)
        assert later.is_alive(), "it did not wait"
    later.join(60)
    assert [first, *answers] == ([True, KEPT] if is_send_first else [ROLLED_BACK, False])
    assert talk.states(delivery) == ["sending" if is_send_first else "cancelled"]

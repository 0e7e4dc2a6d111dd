"""What agents reply on its way out: in order, once under its key, and ambiguous when it is."""

import pytest

from onceward.client import Onceward
from onceward.dispatch.channels import IDLE_SECONDS
from onceward.dispatch.models import (
    TEXT_BYTES_MAX,
    Delivery,
    DeliveryState,
    OutboxMessage,
    OutboxState,
    Reply,
)
from onceward.errors import InvalidArgument, OutcomeUnknown, Retryable, StoreBusy
from onceward.system import crash_points
from onceward.testing.moving_time import MovingTime
from tests.support.dispatcher_parts import FakeChannel, Talk


@pytest.fixture
def talk(ow: Onceward) -> Talk:
    found = Talk(ow)
    found.group(channel="fake")
    found.group("other", channel="fake")
    return found


def at_work(talk: Talk, text: str = "hello", group: str = "team") -> Delivery:
    talk.hear(text, group=group)
    return talk.begun(group)


@pytest.fixture(params=[True, False], ids=["keys", "no keys"])
def channel(request: pytest.FixtureRequest) -> FakeChannel:
    return FakeChannel(takes_keys=request.param)


def certainties(talk: Talk) -> list[tuple[str, bool]]:
    return [(each.text, each.is_certain) for each in talk.items() if isinstance(each, Reply)]


# --- order ---------------------------------------------------------------------------------------


def test_replies_keep_their_order_per_group(talk: Talk, channel: FakeChannel) -> None:
    """Over deliveries, follow-ups and rounds of sending."""
    expected: list[str] = []
    for run in range(3):
        delivery = at_work(talk, f"m{run}")
        for number in range(3):
            text = f"{run}.{number}"
            talk.say(delivery, text)
            expected.append(text)
            if number == run:
                talk.send_all(channel)
        talk.done(delivery)
    talk.send_all(channel)
    assert channel.texts() == talk.replies() == expected


def test_one_that_waits_holds_back_only_its_own_group(
    talk: Talk, ow_time: MovingTime, channel: FakeChannel
) -> None:
    """Others are sent meanwhile, and after the wait it goes on in order."""
    ours, others = at_work(talk), at_work(talk, group="other")
    for text in ("one", "two"):
        talk.say(ours, text)
    talk.say(others, "theirs")
    channel.plan = [(Retryable("busy"), False)]
    wait = talk.send_all(channel)
    assert wait == pytest.approx(5, abs=2)
    assert (channel.texts(), channel.texts("other")) == ([], ["theirs"])
    ow_time.advance(seconds=7)
    assert talk.send_all(channel) == IDLE_SECONDS
    assert channel.texts() == ["one", "two"]


def test_one_that_waits_alone_is_due_after_its_wait(talk: Talk, channel: FakeChannel) -> None:
    """The sender learns when to come back, though nothing else was sent in this round."""
    talk.say(at_work(talk), "one")
    channel.plan = [(Retryable("busy"), False)]
    assert talk.sender(channel).send_due() == pytest.approx(5, abs=2)


def test_what_was_taken_back_and_said_again_has_its_new_place(
    talk: Talk, channel: FakeChannel
) -> None:
    """An agent may say the same things in another order the next time."""
    delivery = at_work(talk)
    for key in ("a", "b"):
        talk.say(delivery, key, key=key)
    talk.failed(delivery)
    again = talk.begun()
    talk.say(again, "new")
    for key in ("b", "a"):
        assert talk.say(again, key, key=key)
    talk.done(again)
    talk.send_all(channel)
    assert channel.texts() == talk.replies() == ["new", "b", "a"]


# --- keys ----------------------------------------------------------------------------------------


def test_the_same_key_is_the_same_reply(talk: Talk, channel: FakeChannel) -> None:
    """Said again, before or after it was sent, by this run or the next, it is shown once."""
    delivery = at_work(talk)
    assert talk.say(delivery, "answer", key="k")
    assert not talk.say(delivery, "answer", key="k")
    talk.send_all(channel)
    assert not talk.say(delivery, "another answer", key="k")
    talk.done(delivery)
    assert not talk.say(at_work(talk, "again"), "answer", key="k")
    talk.send_all(channel)
    assert channel.texts() == ["answer"]


def test_a_key_that_was_taken_back_can_be_said_again(talk: Talk, channel: FakeChannel) -> None:
    """With the words of the new attempt."""
    delivery = at_work(talk)
    talk.say(delivery, "old words", key="k")
    talk.failed(delivery)
    again = talk.begun()
    assert talk.say(again, "new words", key="k")
    talk.done(again)
    talk.send_all(channel)
    assert channel.texts() == ["new words"]


def test_keys_are_stable_over_tries(talk: Talk, ow_time: MovingTime, channel: FakeChannel) -> None:
    """The channel gets the same key each time, so that it can tell."""
    talk.say(at_work(talk), "answer", key="k")
    channel.plan = [(Retryable("busy"), False), (Retryable("busy"), False)]
    for _ in range(3):
        talk.send_all(channel)
        ow_time.advance(seconds=20)
    assert channel.calls == [("k", "answer")] * 3
    assert channel.texts() == ["answer"]


# --- what a channel answers ----------------------------------------------------------------------


def test_a_channel_that_stays_away_is_given_up(
    talk: Talk, ow_time: MovingTime, channel: FakeChannel
) -> None:
    """After its retries a saying is failed, and the next one of its group is sent."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.say(delivery, "two")
    channel.plan = [(Retryable("busy"), False)] * 3
    for _ in range(3):
        talk.send_all(channel)
        ow_time.advance(seconds=20)
    assert talk.states(delivery) == ["failed", "sent"]
    assert channel.texts() == talk.replies() == ["two"]


def test_a_refusal_is_final(talk: Talk, channel: FakeChannel) -> None:
    """An error that no retry helps against is not retried, and not shown as a reply."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.say(delivery, "two")
    channel.plan = [(InvalidArgument("too long for us"), False)]
    talk.send_all(channel)
    assert talk.states(delivery) == ["failed", "sent"]
    assert len(channel.calls) == 2
    assert talk.replies() == ["two"]


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), OSError("broken"), ValueError()])
def test_an_unknown_result_is_repeated_only_where_the_channel_takes_keys(
    talk: Talk, ow_time: MovingTime, channel: FakeChannel, error: Exception
) -> None:
    """With keys it is sent again and shown once; without, it is noted as maybe sent."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.say(delivery, "two")
    channel.plan = [(error, True)]
    for _ in range(2):
        talk.send_all(channel)
        ow_time.advance(seconds=7)
    assert channel.texts() == ["one", "two"]
    if channel.takes_keys:
        assert talk.states(delivery) == ["sent", "sent"]
        assert certainties(talk) == [("one", True), ("two", True)]
    else:
        assert talk.states(delivery) == ["maybe sent", "sent"]
        assert certainties(talk) == [("one", False), ("two", True)]


def test_what_goes_to_a_channel_of_another_dispatcher_waits_for_that(talk: Talk) -> None:
    """No channel here can send it, and others are sent meanwhile."""
    channel = FakeChannel(takes_keys=True)
    talk.group("elsewhere", channel="far-away")
    delivery = at_work(talk, group="elsewhere")
    talk.say(delivery, "into the distance")
    talk.say(at_work(talk), "answer")
    talk.send_all(channel)
    assert talk.states(delivery) == ["pending"]
    assert channel.texts() == ["answer"]
    talk.send_all(channel, "far-away")
    assert channel.texts("elsewhere") == ["into the distance"]


def test_what_was_said_in_a_group_that_is_gone_is_failed(talk: Talk, channel: FakeChannel) -> None:
    """It has nowhere to go, and blocks no other reply."""
    delivery = at_work(talk, group="other")
    talk.say(delivery, "into the void")
    talk.say(at_work(talk), "answer")
    talk.groups.remove("other")
    talk.send_all(channel)
    assert talk.states(delivery) == ["failed"]
    assert channel.texts() == ["answer"]


def test_an_ambiguous_try_stays_ambiguous(talk: Talk, ow_time: MovingTime) -> None:
    """The first try may have been shown; responses to later tries do not change that."""
    channel = FakeChannel(takes_keys=True)
    for last in (Retryable("busy"), OutcomeUnknown("no answer"), InvalidArgument("no")):
        delivery = at_work(talk, f"before {type(last).__name__}")
        talk.say(delivery, f"one {type(last).__name__}")
        channel.plan = [(OutcomeUnknown("no answer"), True), (Retryable("busy"), False)]
        channel.plan.append((last, False))
        for _ in range(2):
            talk.send_all(channel)
            ow_time.advance(seconds=20)
        assert talk.states(delivery) == ["sending"]
        talk.send_all(channel)
        assert talk.states(delivery) == ["maybe sent"], last
        # People may have seen it, so nothing is repeated.
        assert talk.failed(delivery) is DeliveryState.KEPT


def test_what_the_channel_did_not_take_is_no_output(talk: Talk, channel: FakeChannel) -> None:
    """It waits for its next try when the agent fails: it was never shown, so all goes back."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    channel.plan = [(Retryable("busy"), False)]
    talk.send_all(channel)
    assert talk.failed(delivery) is DeliveryState.ROLLED_BACK
    assert talk.states(delivery) == ["cancelled"]
    assert channel.texts() == []


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["dispatch.send.after_mark", "dispatch.send.after_send"])
def test_a_crash_while_sending_is_repeated_or_noted(
    talk: Talk, channel: FakeChannel, point: str
) -> None:
    """A channel with keys shows it once in the end; one without is never sent it again."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.say(delivery, "two")
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            talk.send_all(channel)
    finally:
        crash_points.arm(None)
    assert talk.states(delivery) == ["sending", "pending"]
    sender = talk.sender(channel)
    sender.recover()
    sender.send_due()
    is_shown = channel.takes_keys or point == "dispatch.send.after_send"
    assert channel.texts() == [*(["one"] if is_shown else []), "two"]
    assert talk.states(delivery) == ["sent" if channel.takes_keys else "maybe sent", "sent"]
    assert certainties(talk) == [("one", channel.takes_keys), ("two", True)]


def test_sent_and_not_recorded_is_repeated_or_ambiguous(
    talk: Talk, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away when the channel has it; one without keys is never sent it again."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    sender = talk.sender(channel)
    with monkeypatch.context() as patch, pytest.raises(StoreBusy):
        patch.setattr(talk.outbox, "mark_sent", busy)
        sender.send_due()
    sender.send_due()
    assert channel.texts() == ["one"]
    assert talk.states(delivery) == ["sent" if channel.takes_keys else "maybe sent"]


def busy(_: OutboxMessage) -> None:
    raise StoreBusy


@pytest.mark.parametrize("error", [Retryable("busy"), InvalidArgument("no")])
def test_the_sender_that_sends_last_decides(talk: Talk, error: Exception) -> None:
    """A late dispatcher's send fails as not shown; another dispatcher has shown the reply."""
    channel = FakeChannel(takes_keys=True)
    delivery = at_work(talk)
    talk.say(delivery, "one")
    marked = iter([True])

    def replaced(_: str) -> None:
        if next(marked, False):
            (saying,) = talk.outbox.next_unsent()
            assert talk.outbox.mark_sending(saying)

    channel.during = replaced
    channel.plan = [(error, False)]
    talk.send_all(channel)
    assert talk.states(delivery) in (["sending"], ["sent"])
    assert talk.failed(delivery) is DeliveryState.KEPT


def test_a_crash_while_a_known_failure_waits_is_not_ambiguous(
    talk: Talk, ow_time: MovingTime, channel: FakeChannel
) -> None:
    """The channel said that it did not take it, so it is sent after the restart."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    channel.plan = [(Retryable("busy"), False)]
    talk.send_all(channel)
    talk.sender(channel).recover()
    ow_time.advance(seconds=7)
    talk.send_all(channel)
    assert talk.states(delivery) == ["sent"]
    assert channel.texts() == ["one"]


def test_what_waits_is_sent_after_a_restart(talk: Talk, channel: FakeChannel) -> None:
    """Its delivery is done, and its words were only in the store."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.done(delivery)
    after = Talk(talk.ow)
    assert after.deliveries.recover() == []
    sender = after.sender(channel)
    sender.recover()
    sender.send_due()
    assert channel.texts() == ["one"]


def test_a_channel_in_the_store_shows_what_is_there(talk: Talk) -> None:
    """Saying and sending are one transaction: nothing is ever on its way."""
    talk.group("near")
    delivery = at_work(talk, group="near")
    talk.say(delivery, "answer", is_stored=True)
    assert talk.outbox.next_unsent() == []
    (saying,) = talk.outbox.of_delivery("near", delivery.batch.number)
    assert saying.state is OutboxState.SENT
    assert talk.replies("near") == ["answer"]


def test_a_reply_of_any_text_is_shown_as_it_was_sent(talk: Talk, channel: FakeChannel) -> None:
    """A NUL too; half a character pair is replaced; what is too long is refused."""
    delivery = at_work(talk)
    for text in ("nul \0", "<b>%_&</b>", "\r\n \t", "é\U0001f600", "x" * TEXT_BYTES_MAX):
        talk.say(delivery, text)
        talk.send_all(channel)
        assert channel.shown[-1][2] == text
    talk.say(delivery, "half \ud800")
    talk.send_all(channel)
    assert channel.shown[-1][2].startswith("half ")
    with pytest.raises(InvalidArgument):
        talk.say(delivery, "x" * (TEXT_BYTES_MAX + 1))


def test_status_counts_what_is_not_sent(talk: Talk, channel: FakeChannel) -> None:
    """Per group, until it has gone out."""
    delivery = at_work(talk)
    talk.say(delivery, "one")
    talk.say(delivery, "two")
    assert talk.operators.status_of("team").unsent == 2
    assert talk.operators.status_of("other").unsent == 0
    talk.send_all(channel)
    assert talk.operators.status_of("team").unsent == 0

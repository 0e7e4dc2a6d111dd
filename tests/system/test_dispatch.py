"""A dispatcher with real agent processes: what people get when a process dies, hangs or is late."""

import json
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from onceward.dispatch.models import DeliveryState, TriggerKind
from onceward.retries.retry_schedule import FixedDelays
from tests.support.dispatch_store import HARD_SECONDS, PATIENCE_SECONDS, World, chat, lines
from tests.support.dispatcher_parts import TEXTS, FakeChannel
from tests.support.waiting import until

__all__ = ["chat"]

DONE, KEPT = DeliveryState.DONE, DeliveryState.KEPT
ROLLED_BACK, DEAD = DeliveryState.ROLLED_BACK, DeliveryState.DEAD


# --- talking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_kit", [True, False], ids=["kit", "bare"])
def test_h45_a_text_comes_back_from_an_agent_as_it_was_typed(chat: World, with_kit: bool) -> None:
    """Through the pipe and back, whatever is in it."""
    chat.group(with_kit=with_kit, idle_seconds=60)
    chat.start()
    for name, text in TEXTS.items():
        chat.tell(text, name)
    until(lambda: len(chat.replies()) == len(TEXTS), lambda: chat.summary("team"))
    assert chat.replies() == list(TEXTS.values())


@pytest.mark.parametrize("with_kit", [True, False], ids=["kit", "bare"])
def test_follow_ups_are_piped_into_the_agent_that_works(chat: World, with_kit: bool) -> None:
    """One process answers all of them, and later ones too while it is idle."""
    own = chat.group(with_kit=with_kit, idle_seconds=60)
    chat.start()
    chat.tell("!wait go; say one", "1")
    until((own / "at-go").exists)
    chat.tell("two")
    until(lambda: chat.operators.status_of("team").pending == 0)
    (own / "go").touch()
    chat.answered("one", "two")
    until(chat.is_idle)
    chat.tell("three")
    chat.answered("one", "two", "three")
    assert len(lines(own / "starts")) == 1
    assert lines(own / "handed") == ["False 1", "True two", "True three"]
    until(lambda: set(chat.states()) == {DONE}, chat.states)


def test_context_comes_along_with_a_call(chat: World) -> None:
    """What did not call waits, and is handed over with what does."""
    own = chat.group(trigger=TriggerKind.PREFIX, word="@bot")
    chat.start()
    chat.tell("good morning")
    chat.tell("@bot help")
    chat.answered("good morning", "@bot help")
    assert lines(own / "handed") == ["False good morning @bot help"]


def test_an_agent_knows_where_it_is(chat: World, tmp_path: Path) -> None:
    """Its group, run and directory are in its environment; another directory can be set."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = (
        "import os, json, sys\n"
        "handed = json.loads(sys.stdin.readline())\n"
        "names = ('ONCEWARD_AGENT', 'ONCEWARD_GROUP', 'ONCEWARD_RUN', 'ONCEWARD_WORKSPACE')\n"
        "text = json.dumps([*(os.environ[n] for n in names), os.getcwd(), handed['run_id']])\n"
        "print(json.dumps({'kind': 'output', 'text': text}))\n"
        "print(json.dumps({'kind': 'done', 'upto': handed['upto']}))\n"
    )
    command = (sys.executable, "-I", "-S", "-c", script)
    chat.group(command=command, workdir=str(elsewhere))
    chat.start()
    chat.tell("where are you?")
    until(chat.replies)
    kind, group, run, workspace, directory, run_id = json.loads(chat.replies()[0])
    assert (kind, group, run) == ("chat", "team", run_id)
    assert workspace == directory == str(elsewhere)


# --- failing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail", "exit 3", "die", "exit 0"])
def test_a_failure_without_output_is_tried_again(chat: World, how: str) -> None:
    """However the agent ends without being done, the next one gets the same messages."""
    own = chat.group()
    chat.start()
    chat.tell(f"!once {how}; say sorry", "1")
    chat.answered("sorry")
    assert lines(own / "begun") == ["1", "1"]
    chat.ended(ROLLED_BACK, DONE)


def test_h44_what_fails_for_good_is_a_dead_letter_until_it_is_redriven(chat: World) -> None:
    """The group goes on; an operator redrives the letter, and then it is answered."""
    own = chat.group()
    chat.start()
    chat.tell("!wait-not", "poison")  # No order that the agent knows.
    until(chat.dead.letters)
    assert lines(own / "begun") == ["poison"] * 3
    chat.tell("next")
    chat.answered("next")
    (letter,) = chat.dead.letters()
    assert "exit code 1" in letter.error_message
    chat.tell("better now", "poison")
    assert [each.id for each in chat.dead.redrive(letter.id)] == ["poison"]
    chat.answered("next", "better now")


def test_a_failure_that_no_retry_helps_is_given_up_at_once(chat: World) -> None:
    """The agent says so itself."""
    own = chat.group(with_kit=True)
    chat.start()
    chat.tell("!final", "1")
    until(chat.dead.letters)
    assert lines(own / "begun") == ["1"]


def test_an_agent_that_cannot_be_started_is_a_failure_like_others(chat: World) -> None:
    """It is retried and given up, and other groups do not notice."""
    chat.group("broken", command=("/nonexistent/agent",))
    chat.group("no-place", workdir="/nonexistent")
    chat.group()
    chat.start(agents_max=1)
    for group in ("broken", "no-place", "team"):
        chat.tell("hello", group=group)
    chat.answered("hello")
    until(lambda: len(chat.dead.letters()) == 2, chat.dead.letters)
    errors = [each.error_message for each in chat.dead.letters()]
    assert all("could not be started" in error for error in errors), errors


def test_a_wait_is_not_shortened_by_new_messages_nor_by_a_restart(chat: World) -> None:
    """Neither a new message nor a new dispatcher makes the next try come before it is due."""
    # A busy machine may need longer than the wait for the restart; then that waits for longer.
    assert any(restarted_while_waiting(chat, seconds) for seconds in (1.5, 6.0, 24.0))


def restarted_while_waiting(chat: World, seconds: float) -> bool:
    """Check that the second try comes when it is due; say whether a restart came before that."""
    group = f"team-{seconds:.0f}"
    chat.group(group)
    slowly = FixedDelays(seconds=(seconds, seconds))
    chat.start(schedule=slowly)
    chat.tell("!once fail; say sorry", "1", group=group)
    until(lambda: chat.states(group)[:1] == [ROLLED_BACK])
    due = chat.operators.status_of(group).group.retry_at
    chat.tell("two", group=group)
    chat.dispatcher.stop(seconds=60)
    chat.start(schedule=slowly)
    chat.tell("three", group=group)
    until(lambda: chat.dispatcher.is_held)
    is_waiting = chat.operators.status_of(group).group.wait_seconds > 0
    chat.answered("sorry", "two", "three", group=group)
    chat.dispatcher.stop(seconds=60)
    if due is None:
        return False
    second = list(reversed(chat.operators.deliveries(group)))[1]
    # Both are of the store's clock, rounded to milliseconds.
    early = datetime.fromisoformat(due) - datetime.fromisoformat(second.started_at)
    assert early < timedelta(milliseconds=10), (due, second)
    return is_waiting


def test_noise_on_stdout_disturbs_nothing(chat: World) -> None:
    """What is no message of an agent is passed over, however long it is."""
    chat.group()
    chat.start()
    chat.tell("!noise; say clear", "1")
    chat.answered("clear")
    chat.ended(DONE)


@pytest.mark.parametrize("how", ["mute", "deaf"])
def test_an_agent_that_closes_a_pipe_is_not_waited_for_for_ever(chat: World, how: str) -> None:
    """It is ended by the limit, or by its own end, and the messages are handed out again."""
    chat.start()

    def is_ended_once(seconds: float) -> bool:
        group = f"team-{seconds:.0f}"
        own = chat.group(group, hard_seconds=seconds)
        chat.tell(f"!once {how}; say well", "1", group=group)
        until(lambda: chat.is_idle(group), lambda: chat.summary(group))
        begun = len(lines(own / "begun"))
        return (begun, chat.replies(group)) == (2 if how == "mute" else 1, ["well"])

    assert any(map(is_ended_once, HARD_SECONDS))


# --- failing after output ------------------------------------------------------------------------


@pytest.mark.parametrize("with_kit", [True, False], ids=["kit", "bare"])
def test_h40_a_failure_after_output_is_not_repeated_and_follow_ups_are_answered(
    chat: World, with_kit: bool
) -> None:
    """People see the half answer once, and what they wrote meanwhile gets its own."""
    own = chat.group(with_kit=with_kit)
    chat.start()
    chat.tell("!say half an answer; wait go; exit 1", "1")
    until((own / "at-go").exists)
    chat.answered("half an answer")
    chat.tell("two")
    until(lambda: chat.operators.status_of("team").pending == 0)
    (own / "go").touch()
    chat.answered("half an answer", "two")
    chat.ended(KEPT, DONE)
    assert lines(own / "begun") == ["1", "two"]


def test_h40_a_follow_up_in_the_pipe_survives_its_agent(chat: World) -> None:
    """It was handed over before the answer; the agent dies before it gets to it."""
    own = chat.group(with_kit=True)
    chat.start()
    chat.tell("!wait go; say one", "1")
    until((own / "at-go").exists)
    chat.tell("!once die; say two", "2")
    until(lambda: chat.operators.status_of("team").pending == 0)
    (own / "go").touch()
    chat.answered("one", "two")
    assert lines(own / "begun") == ["1", "2", "2"]


class SlowChannel(FakeChannel):
    """A channel that waits for a sign before it shows anything."""

    def __init__(self, *, takes_keys: bool) -> None:
        super().__init__(takes_keys=takes_keys)
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.during = self.wait

    def wait(self, _: str) -> None:
        self.began.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)


def test_h41_the_decision_waits_for_what_is_being_sent(chat: World) -> None:
    """The agent fails while its words are on their way: nothing is repeated."""
    channel = SlowChannel(takes_keys=False)
    own = chat.group(channel="slow")
    chat.start({"slow": channel})
    chat.tell("!say hello; wait go; once fail", "1")
    assert channel.began.wait(PATIENCE_SECONDS)
    (own / "go").touch()
    chat.ended(KEPT)
    channel.may_go_on.set()
    until(chat.is_idle)
    assert channel.texts() == chat.replies() == ["hello"]
    assert lines(own / "begun") == ["1"]


def test_h41_replies_that_were_not_shown_are_taken_back(chat: World) -> None:
    """The sender is held up elsewhere; the words of the failed try are never shown."""
    channel = SlowChannel(takes_keys=True)
    chat.group("first", channel="slow")
    own = chat.group(channel="slow")
    chat.start({"slow": channel})
    chat.tell("holding the line", group="first")
    assert channel.began.wait(PATIENCE_SECONDS)
    chat.tell("!say hello; wait go; once fail", "1")
    until((own / "at-go").exists)
    until(lambda: chat.operators.status_of("team").unsent == 1)
    (own / "go").touch()
    chat.ended(ROLLED_BACK, DONE)
    channel.may_go_on.set()
    until(lambda: channel.texts() == ["hello"], lambda: channel.shown)
    assert len([key for key, _ in channel.calls]) == 2

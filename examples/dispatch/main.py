"""Five things that happen to chat messages, each shown step by step and checked.

Run it: `python examples/dispatch/main.py`. Real agents, a real store in a temporary directory, and
one dispatcher that is killed for real.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dispatcher import started  # The file beside this one.

import onceward
from onceward.dispatch import Group, Groups, Inbox, NewMessage, Operators, Reply

HERE = Path(__file__).parent
AGENT = (sys.executable, str(HERE / "agent.py"))
PATIENCE_SECONDS = 60.0


class Stage:
    """A store, a home for agents, and what can be seen of both."""

    def __init__(self, directory: Path) -> None:
        """Open a store in this directory."""
        self.store = f"sqlite:///{directory / 'chat.db'}"
        self.home = directory / "home"
        self.ow = onceward.open(self.store)
        self.groups = Groups(self.ow.store)
        self.operators = Operators(self.ow.store)
        self._arrivals = Inbox(self.ow.store)

    def add(self, group: str) -> None:
        """Add a group in which the agent answers every message."""
        self.groups.add(Group(name=group, channel="chat", command=AGENT))

    def say(self, group: str, number: str, text: str) -> str:
        """Send a message as ann; returns whether it is new or known."""
        message = NewMessage(group=group, id=number, sender="ann", text=text)
        received = self._arrivals.receive(message)
        tell(f"ann says {text!r} in {group}: {received.fate}")
        return received.fate

    def replies(self, group: str) -> list[str]:
        """Return what the agent has said so far."""
        items, _ = self._arrivals.conversation(group, 0)
        return [each.text for each in items if isinstance(each, Reply)]

    def attempts(self, group: str) -> list[str]:
        """Return what the agent has begun with so far."""
        notes = self.home / "groups" / group / "attempts.txt"
        return notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []

    def endings(self, group: str) -> list[str]:
        """Return what became of each time messages were handed to the agent, the oldest first."""
        return [str(each.state) for each in reversed(self.operators.deliveries(group))]

    def wait_for(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until something is so, and tell it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"in vain: {what}"
            time.sleep(0.02)
        tell(what)

    def is_quiet(self, group: str) -> bool:
        """Say whether nothing is in flight and nothing is left to do."""
        status = self.operators.status_of(group)
        return status.in_flight is None and not status.is_called

    def tell_cursors(self, group: str) -> tuple[int, int]:
        """Tell both cursors of a group."""
        _, read = self.operators.positions()
        processed = self.operators.status_of(group).processed
        tell(f"read cursor {read}, processed cursor of {group} {processed}")
        return read, processed


def tell(text: str) -> None:
    """Print a step."""
    print(f"   {text}", flush=True)


def normal_delivery(stage: Stage) -> None:
    """Show a message that is read, handed to the agent, answered and confirmed."""
    dispatcher = started(stage.store, stage.home)
    assert stage.say("normal", "m1", "hello") == "new"
    stage.wait_for("the agent answers", lambda: stage.replies("normal"))
    stage.wait_for("and is done", lambda: stage.is_quiet("normal"))
    read, processed = stage.tell_cursors("normal")
    assert read == processed == 1
    assert stage.say("normal", "m1", "hello") == "known"  # The channel delivered it twice.
    dispatcher.stop()
    assert stage.replies("normal") == ["You said: hello"]
    assert stage.endings("normal") == ["done"]


def failure_and_rollback(stage: Stage) -> None:
    """Let the agent fail before it said anything: its messages come again."""
    _, before = stage.tell_cursors("failing")
    dispatcher = started(stage.store, stage.home)
    stage.say("failing", "m1", "fail once")
    stage.wait_for("the agent fails", lambda: "rolled back" in stage.endings("failing"))
    (moved,) = stage.ow.cursors.history("dispatch/failing")
    tell(f"the processed cursor went back from {moved.from_position} to {moved.to_position}")
    assert (moved.kind, moved.to_position) == ("rollback", str(before))
    stage.wait_for("the message comes again", lambda: len(stage.attempts("failing")) == 2)
    stage.wait_for("and is answered", lambda: stage.is_quiet("failing"))
    dispatcher.stop()
    assert stage.endings("failing") == ["rolled back", "done"]
    assert stage.replies("failing") == ["You said: fail once"]


def two_groups(stage: Stage) -> None:
    """Let one group fail permanently: it delays no other group, and loses nothing."""
    dispatcher = started(stage.store, stage.home)
    stage.say("left", "m1", "always fail")
    stage.say("right", "m1", "hello")
    stage.wait_for("right is answered", lambda: stage.replies("right"))
    stage.wait_for("left is given up after three tries", lambda: stage.ow.dead.list(group="left"))
    (letter,) = stage.ow.dead.list(group="left")
    tell(f"dead letter {letter.id}: {letter.group}, {letter.error_message}")
    assert (letter.group, letter.attempts) == ("left", 3)
    stage.say("left", "m2", "are you well?")
    stage.wait_for("left goes on with what came after", lambda: stage.replies("left"))
    stage.wait_for("and both are done", lambda: all(map(stage.is_quiet, ("left", "right"))))
    dispatcher.stop()
    assert stage.attempts("left") == ["always fail"] * 3 + ["are you well?"]
    assert stage.endings("left") == ["rolled back", "rolled back", "dead", "done"]
    assert stage.endings("right") == ["done"]


def crash_and_recovery(stage: Stage) -> None:
    """Kill the dispatcher while messages are in flight: the next one hands them out again."""
    program = [sys.executable, str(HERE / "dispatcher.py"), stage.store, str(stage.home)]
    with subprocess.Popen(program) as first:  # noqa: S603 - our own program
        stage.say("crashing", "m1", "take your time")
        stage.wait_for("the agent is at work", lambda: stage.attempts("crashing"))
        first.kill()
    tell("the dispatcher is killed")
    assert stage.operators.status_of("crashing").in_flight is not None
    tell("in the store the message is in flight, with the way back")
    stage.say("crashing", "m2", "still there?")
    (stage.home / "groups" / "crashing" / "in-a-hurry").touch()
    with subprocess.Popen(program) as second:  # noqa: S603 - the same
        stage.wait_for("a second dispatcher hands both out", lambda: stage.replies("crashing"))
        stage.wait_for("and the agent is done", lambda: stage.is_quiet("crashing"))
        second.kill()
    assert stage.endings("crashing") == ["rolled back", "done"]
    assert stage.attempts("crashing") == ["take your time", "take your time + still there?"]
    assert stage.replies("crashing") == ["You said: take your time + still there?"]


def failure_after_output(stage: Stage) -> None:
    """Let the agent fail after people saw something: only what comes after is handed out."""
    dispatcher = started(stage.store, stage.home)
    stage.say("talking", "m1", "begin, then fail")
    stage.wait_for("the agent says something", lambda: stage.replies("talking"))
    stage.wait_for("and fails", lambda: stage.is_quiet("talking"))
    assert stage.endings("talking") == ["kept"]
    tell("the processed cursor stays: no person sees two answers")
    stage.say("talking", "m2", "and now?")
    stage.wait_for("what came after is answered", lambda: len(stage.replies("talking")) == 2)
    stage.wait_for("and is done", lambda: stage.is_quiet("talking"))
    dispatcher.stop()
    assert stage.endings("talking") == ["kept", "done"]
    assert stage.attempts("talking") == ["begin, then fail", "and now?"]
    assert stage.replies("talking") == ["I have ordered the tickets.", "You said: and now?"]


SCENARIOS = {
    "Normal delivery": (normal_delivery, ["normal"]),
    "Failure and rollback": (failure_and_rollback, ["failing"]),
    "Two groups are independent": (two_groups, ["left", "right"]),
    "Crash and recovery at start": (crash_and_recovery, ["crashing"]),
    "Failure after output was sent": (failure_after_output, ["talking"]),
}


def main() -> None:
    """Play all scenarios in one store."""
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(Path(directory))
        for number, (title, (play, groups)) in enumerate(SCENARIOS.items(), 1):
            print(f"{number}. {title}")
            for group in groups:
                stage.add(group)
            play(stage)
            tell("as it should be")
    print("all five as promised")


if __name__ == "__main__":
    main()

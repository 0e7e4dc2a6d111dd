"""Chat demo: an agent fails, its dispatcher is killed, and each message is answered once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceward.client import Onceward
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import DemoProcess, DemoProcesses
from onceward.demo.interleaving import Act, Stage
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DeliveryState, Group, GroupMessage, NewMessage, Reply
from onceward.dispatch.operator_actions import Operators
from onceward.journal import atomic_file

PART: Final = "chat"
GROUP: Final = "sales"
#: Time for a lease of ten seconds to expire and for agents to start, on a busy machine.
ANSWER_SECONDS: Final = 40.0
#: How long the agent works before it replies.
THINK_SECONDS: Final = 0.6


class ChatDemo:
    """The conversations of the demo: people's messages and the agent's replies."""

    def __init__(
        self, stage: Stage, processes: DemoProcesses, world: DemoWorld, ow: Onceward
    ) -> None:
        """Prepare the conversations without sending a message."""
        self._stage, self._processes, self._world = stage, processes, world
        self._groups, self._operators = Groups(ow.store), Operators(ow.store)
        self._arrivals = Inbox(ow.store)
        self._sent = 0

    def add(self, group: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Add a group whose scripted agent follows these rules."""
        path = self._world.home / f"{group}.json"
        atomic_file.write(path, json.dumps({"chat": {"rules": rules}}).encode())
        command = (sys.executable, "-m", "onceward", "agent", "script", "--type", "chat", str(path))
        self._groups.add(Group(name=group, channel="chat", command=command))

    def serve(self) -> DemoProcess:
        """Start a dispatcher, which runs the agents."""
        words = (self._world.store_url, str(self._world.home))
        return self._processes.start(
            PART, "dispatcher", *words, module="onceward.demo.dispatcher_process"
        )

    def send(self, text: str, *, group: str = GROUP, sender: str = "ann") -> None:
        """Send a message twice under the same id, because real channels may deliver twice."""
        self._sent += 1
        message = NewMessage(group=group, id=f"m{self._sent}", sender=sender, text=text)
        self._arrivals.receive(message)
        self._arrivals.receive(message)

    def converse(self) -> Act:
        """Send messages while the agent fails and while the dispatcher is killed."""
        dispatcher = self.serve()
        self.send("which niches do you have?")
        yield from self._await_reply(1, "ann asks a question and gets a reply")
        self.send("flaky: how many leads today?")
        detail = "the agent fails before any output was sent: the message is rolled back"
        is_rolled_back = self._is_rolled_back
        yield from self._stage.await_event(
            PART, detail, is_rolled_back, ANSWER_SECONDS, is_blow=True
        )
        yield from self._await_reply(2, "the message is delivered again, and the agent replies")
        self.send("slow: send me the offer")
        yield from self._stage.until(self._is_at_work, ANSWER_SECONDS)
        self._processes.kill(dispatcher)
        detail = "the dispatcher is killed while the agent works; another one starts"
        self._stage.tell(PART, detail, is_blow=True)
        dispatcher = self.serve()
        detail = "it finds the message in flight and delivers it again; the agent replies"
        yield from self._await_reply(3, detail)
        yield from self._stage.until(lambda: not self._is_at_work(), ANSWER_SECONDS)
        self._processes.stop(dispatcher)

    def _await_reply(self, count: int, text: str) -> Act:
        def is_answered() -> bool:
            return len(messages_and_replies(self._arrivals)[1]) >= count

        yield from self._stage.await_event(PART, text, is_answered, ANSWER_SECONDS)

    def _is_at_work(self) -> bool:
        return self._operators.status_of(GROUP).in_flight is not None

    def _is_rolled_back(self) -> bool:
        return rolled_back(self._operators) > 0


def messages_and_replies(arrivals: Inbox, group: str = GROUP) -> tuple[list[str], list[str]]:
    """Return the messages of people in a group, and the replies they got."""
    asked: list[str] = []
    answered: list[str] = []
    place = 0
    while True:
        items, following = arrivals.conversation(group, place)
        asked += [each.text for each in items if isinstance(each, GroupMessage)]
        answered += [each.text for each in items if isinstance(each, Reply)]
        if not items or following == place:
            return asked, answered
        place = following


def rolled_back(operators: Operators, group: str = GROUP) -> int:
    """Return the number of deliveries that were rolled back."""
    found = operators.deliveries(group, limit=1000)
    return sum(each.state is DeliveryState.ROLLED_BACK for each in found)


_ANSWER: Final = [{"delay": THINK_SECONDS}, {"echo": True}]
#: The agent repeats the message, so that replies can be matched to messages.
ECHO: Final = (
    {"when": "flaky", "do": [{"fail": "the model is overloaded", "once": True}, *_ANSWER]},
    {"when": "slow", "do": [{"delay": 2.0, "once": True}, *_ANSWER]},
    {"do": _ANSWER},
)

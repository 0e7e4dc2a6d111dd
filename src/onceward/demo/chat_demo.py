"""Chat demo: people in a chat, and an agent that fails, retries, and answers once."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceward.client import Onceward
from onceward.demo.demo_home import DemoWorld
from onceward.demo.demo_processes import Cast, Player
from onceward.demo.interleaving import Act, Stage
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DeliveryState, Group, GroupMessage, NewMessage, Reply
from onceward.dispatch.operator_actions import Operators
from onceward.journal import atomic_file

PART: Final = "chat"
GROUP: Final = "sales"
#: A lease of ten seconds, and agents that start, on a busy machine.
ANSWER_SECONDS: Final = 40.0
#: How long the agent thinks before it answers.
THINK_SECONDS: Final = 0.6


class Talk:
    """What is said in the groups of a story."""

    def __init__(self, stage: Stage, cast: Cast, world: DemoWorld, ow: Onceward) -> None:
        """Say nothing yet."""
        self._stage, self._cast, self._world = stage, cast, world
        self._groups, self._operators = Groups(ow.store), Operators(ow.store)
        self._arrivals = Inbox(ow.store)
        self._said = 0

    def add(self, group: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Add a group with an agent that plays by these rules."""
        path = self._world.home / f"{group}.json"
        atomic_file.write(path, json.dumps({"chat": {"rules": rules}}).encode())
        command = (sys.executable, "-m", "onceward", "agent", "script", "--type", "chat", str(path))
        self._groups.add(Group(name=group, channel="chat", command=command))

    def serve(self) -> Player:
        """Start a dispatcher, which runs the agents."""
        words = (self._world.store_url, str(self._world.home))
        return self._cast.start(
            PART, "dispatcher", *words, module="onceward.demo.dispatcher_process"
        )

    def say(self, text: str, *, group: str = GROUP, sender: str = "ann") -> None:
        """Say something, and once more under the same id: channels deliver twice."""
        self._said += 1
        message = NewMessage(group=group, id=f"m{self._said}", sender=sender, text=text)
        self._arrivals.receive(message)
        self._arrivals.receive(message)

    def converse(self) -> Act:
        """Talk while the agent fails, and while the dispatcher is killed."""
        dispatcher = self.serve()
        self.say("which niches do you have?")
        yield from self._see_answer(1, "ann asks something, and is answered")
        self.say("flaky: how many leads today?")
        detail = "the agent fails before any output was sent: the message is rolled back"
        is_rolled_back = self._is_rolled_back
        yield from self._stage.see(PART, detail, is_rolled_back, ANSWER_SECONDS, is_blow=True)
        yield from self._see_answer(2, "the message is handed out again, and answered")
        self.say("slow: send me the offer")
        yield from self._stage.until(self._is_at_work, ANSWER_SECONDS)
        self._cast.kill(dispatcher)
        detail = "the dispatcher is killed while the agent is at work; another one starts"
        self._stage.tell(PART, detail, is_blow=True)
        dispatcher = self.serve()
        detail = "it finds the message in flight, hands it out again, and it is answered"
        yield from self._see_answer(3, detail)
        yield from self._stage.until(lambda: not self._is_at_work(), ANSWER_SECONDS)
        self._cast.stop(dispatcher)

    def _see_answer(self, count: int, text: str) -> Act:
        def is_answered() -> bool:
            return len(said(self._arrivals)[1]) >= count

        yield from self._stage.see(PART, text, is_answered, ANSWER_SECONDS)

    def _is_at_work(self) -> bool:
        return self._operators.status_of(GROUP).in_flight is not None

    def _is_rolled_back(self) -> bool:
        return rolled_back(self._operators) > 0


def said(arrivals: Inbox, group: str = GROUP) -> tuple[list[str], list[str]]:
    """Return what people have said in a group, and what they were answered."""
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
    """Return how often messages were handed to an agent in vain."""
    found = operators.deliveries(group, limit=1000)
    return sum(each.state is DeliveryState.ROLLED_BACK for each in found)


_ANSWER: Final = [{"delay": THINK_SECONDS}, {"echo": True}]
#: An agent that repeats its message, so that answers can be counted.
ECHO: Final = (
    {"when": "flaky", "do": [{"fail": "the model is overloaded", "once": True}, *_ANSWER]},
    {"when": "slow", "do": [{"delay": 2.0, "once": True}, *_ANSWER]},
    {"do": _ANSWER},
)

"""Talk: the parts of a dispatcher on one store, without threads and without processes."""

import itertools
from collections.abc import Callable, Sequence

from onceward.client import Onceward
from onceward.dispatch.channels import OutboxSender
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import (
    Delivery,
    DeliveryState,
    Group,
    GroupMessage,
    NewMessage,
    Received,
    Reply,
)
from onceward.dispatch.operator_actions import Operators
from onceward.dispatch.outbox import Outbox
from onceward.retries.retry_schedule import FixedDelays
from tests.support.chat_letters import ChatLetters

#: Three attempts, with waits that tests can tell apart.
SCHEDULE = FixedDelays(seconds=(5.0, 10.0))

#: Texts that must arrive, be handed out and be shown unchanged.
TEXTS = {
    "name": "@bot @bot: do it",
    "percent": "100 %, %s %d %% _under_ \\_ \\% :group ? $1",
    "markup": "<b>&amp;</b> <script>alert('x')</script> &#0;",
    "quotes": "'; drop table dispatch_messages; -- \" ` \\",
    "nul": "before\0after\0",
    "lines": " \r\n\ttwo lines \u2028 and \u0085 more \n",
    "unicode": "é e\u0301 \u202e\u05e2\u05d1\u05e8\u202c 👩‍👩‍👧 \U0010ffff \ufeff \ufffd",
    "control": "".join(map(chr, range(32))) + "\x7f",
    "json": '{"kind":"done","upto":99}\n{"kind":"error"}',
    "long": "x" * (128 * 1024),
}


class FakeChannel:
    """A channel that remembers what it showed, and fails on request."""

    is_stored = False

    def __init__(self, *, takes_keys: bool) -> None:
        self.takes_keys = takes_keys
        #: Every call, shown or not.
        self.calls: list[tuple[str, str]] = []
        #: What people see: one with keys shows each key once.
        self.shown: list[tuple[str, str, str]] = []
        #: What the next calls raise, and whether the text was shown before that.
        self.plan: list[tuple[Exception | None, bool]] = []
        #: Called while something is being sent.
        self.during: Callable[[str], None] | None = None

    def send(self, *, key: str, group: str, text: str) -> None:
        self.calls.append((key, text))
        if self.during is not None:
            self.during(key)
        error, is_shown = self.plan.pop(0) if self.plan else (None, True)
        if is_shown and not (self.takes_keys and any(key == each for each, _, _ in self.shown)):
            self.shown.append((key, group, text))
        if error is not None:
            raise error

    def texts(self, group: str = "team") -> list[str]:
        """Return what people of a group see."""
        return [text for _, at, text in self.shown if at == group]


class Talk:
    """What a dispatcher does, step by step and by hand."""

    def __init__(self, ow: Onceward, schedule: FixedDelays = SCHEDULE) -> None:
        self.ow = ow
        self.groups = Groups(ow.store)
        self.arrivals = Inbox(ow.store)
        self.deliveries = Deliveries(ow.store, schedule=schedule)
        self.outbox = Outbox(ow.store, schedule=schedule)
        self.operators = Operators(ow.store)
        self.dead = ChatLetters(ow)
        self._numbers = itertools.count(1)

    def group(self, name: str = "team", **fields: object) -> Group:
        """Add a group whose every message triggers the agent by default."""
        given = {"channel": "chat", "command": ("true",), **fields}
        return self.groups.add(Group(name=name, **given))  # type: ignore[arg-type]

    def receive(
        self, text: str, *, group: str = "team", id_: str | None = None, at: str | None = None
    ) -> Received:
        """Let a message arrive, by default under its text."""
        message = NewMessage(group=group, id=id_ or text, sender="ann", text=text, timestamp=at)
        return self.arrivals.receive(message)

    def hear(self, *texts: str, group: str = "team") -> list[int]:
        """Let messages arrive and see them; return their numbers."""
        found = [self.receive(text, group=group).seq for text in texts]
        self.arrivals.see()
        return found

    def begin(self, group: str = "team") -> Delivery | None:
        return self.deliveries.begin(self.groups.show(group))

    def begun(self, group: str = "team") -> Delivery:
        delivery = self.begin(group)
        assert delivery is not None
        return delivery

    def extended(self, delivery: Delivery) -> Delivery:
        found = self.deliveries.extend(delivery, self.groups.show(delivery.group))
        assert found is not None
        return found

    def done(self, delivery: Delivery, upto: int | None = None) -> Delivery | None:
        return self.deliveries.done(delivery, delivery.batch.position if upto is None else upto)

    def failed(self, delivery: Delivery, *, is_final: bool = False) -> DeliveryState:
        return self.deliveries.failed(delivery, "it failed", is_final=is_final).state

    def say(
        self,
        delivery: Delivery,
        text: str,
        *,
        key: str | None = None,
        is_stored: bool = False,
        is_over: bool = False,
    ) -> bool:
        return self.outbox.add(
            delivery,
            text,
            key=key or f"{delivery.group}/{delivery.batch.number}/{next(self._numbers)}",
            is_stored=is_stored,
            is_over=is_over,
        )

    def send_all(self, channel: FakeChannel, name: str = "fake") -> float:
        """Send what is due; return how long until more is."""
        return self.sender(channel, name).send_due()

    def sender(self, channel: FakeChannel, name: str = "fake") -> OutboxSender:
        return OutboxSender(self.outbox, self.groups, {name: channel}, lambda _: None)

    def states(self, delivery: Delivery) -> list[str]:
        """Return the state of each reply of a delivery."""
        return [
            str(each.state)
            for each in self.outbox.of_delivery(delivery.group, delivery.batch.number)
        ]

    def replies(self, group: str = "team") -> list[str]:
        return [each.text for each in self.items(group) if isinstance(each, Reply)]

    def items(self, group: str = "team") -> list[GroupMessage | Reply]:
        return self.arrivals.conversation(group, 0)[0]

    def pending(self, group: str = "team") -> int:
        return self.operators.status_of(group).pending


def ids(messages: Sequence[GroupMessage] | Delivery | None) -> list[str]:
    """Return the ids of messages, in their order."""
    found = messages.messages if isinstance(messages, Delivery) else messages
    return [each.id for each in found or ()]

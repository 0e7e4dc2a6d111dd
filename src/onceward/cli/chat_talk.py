"""Talk: one person's part in a conversation: what to show, what to wait for, what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceward.cli.dispatch import receive
from onceward.cli.dispatch_looks import line, time
from onceward.cli.dispatch_status import holder
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.models import DeliveryState, Message
from onceward.dispatch.operators import Operators
from onceward.errors import AgentFailed
from onceward.seams import Ids

if TYPE_CHECKING:
    from onceward.dispatch.models import DeliveryRecord, GroupStatus, Reply
    from onceward.handle import Onceward

#: How many of a group's last deliveries are looked through for what became of ours.
_DELIVERIES_MAX: Final = 100
_FAILED: Final = {
    DeliveryState.DEAD: "the agent failed too often, and gave up",
    DeliveryState.KEPT: "the agent failed after it had begun to answer",
}


class Talk:
    """What somebody says and hears in one group."""

    def __init__(self, ow: Onceward, group: str, sender: str, place: int) -> None:
        """Hear what is said behind a place."""
        self.group = group
        self._ow = ow
        self._sender = sender
        self._place = place
        self._arrivals = Arrivals(ow.store)
        self._operators = Operators(ow.store)
        self._ids = Ids()
        self._own: set[str] = set()
        self._numbers: list[int] = []
        self._told: str | None = None

    def say(self, text: str) -> None:
        """Send a message; it is kept when this returns."""
        message_id = self._ids.new("msg")
        self._own.add(message_id)
        received = receive(self._ow, self.group, message_id, self._sender, text)
        self._numbers.append(received.seq)

    def news(self) -> list[Message | Reply]:
        """Return what others have said since this was last asked."""
        found: list[Message | Reply] = []
        while True:
            items, self._place = self._arrivals.conversation(self.group, self._place)
            found += [each for each in items if not self._is_own(each)]
            if not items:
                return found

    def _is_own(self, item: Message | Reply) -> bool:
        return isinstance(item, Message) and item.id in self._own

    @property
    def is_attended(self) -> bool:
        """Say whether somebody hands messages to agents."""
        return holder(self._ow) is not None

    def status(self) -> GroupStatus:
        """Return where the group stands."""
        return self._operators.status_of(self.group)

    def trouble(self) -> str | None:
        """Return what is wrong, once each time it changes."""
        found = _trouble(self.status())
        told, self._told = self._told, found
        return found if found != told else None

    def check(self) -> None:
        """Raise AgentFailed when a failure ended what we said, or a part of it."""
        lately = self._operators.deliveries(self.group, _DELIVERIES_MAX)
        for record in reversed(lately):
            if record.state in _FAILED and self._concerns(record):
                message = f"{_FAILED[record.state]}: {line(record.error or '', 500)}"
                fix = f"see `onceward dispatch status {self.group}`"
                if record.state is DeliveryState.DEAD:
                    fix = f"mend it, then `onceward dispatch dead redrive {record.id}`"
                raise AgentFailed(message, code="AGENT_FAILED", retryable=False, fix=fix)

    def _concerns(self, record: DeliveryRecord) -> bool:
        return any(record.first_seq <= each <= record.last_seq for each in self._numbers)


def is_waiting(status: GroupStatus) -> bool:
    """Say whether an agent works or will, so that more may be said."""
    return status.is_called or status.in_flight is not None or status.unsent > 0


def _trouble(status: GroupStatus) -> str | None:
    group = status.group
    if group.is_paused and status.is_called:
        resume = f"onceward dispatch groups set {group.name} --resume"
        return f"{group.name} is paused; what was said waits for `{resume}`"
    if status.is_called and group.attempts and group.last_error:
        again = f"; tried again at {time(group.retry_at)}" if group.wait_seconds > 0 else ""
        return f"the agent failed ({line(group.last_error, 200)}){again}"
    return None

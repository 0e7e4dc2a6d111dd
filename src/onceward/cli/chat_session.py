"""Chat session: one person's part of a conversation: output, waiting and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceward.cli.dispatch import receive
from onceward.cli.dispatch_format import line, time
from onceward.cli.dispatch_status import holder
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DeliveryState, GroupMessage
from onceward.dispatch.operator_actions import Operators
from onceward.errors import AgentFailed
from onceward.system import Ids

if TYPE_CHECKING:
    from onceward.client import Onceward
    from onceward.dispatch.models import DeliveryRecord, GroupStatus, Reply

#: How many of a group's latest deliveries are checked for this user's messages.
_DELIVERIES_MAX: Final = 100
_FAILED: Final = {
    DeliveryState.DEAD: "the agent failed too often; its messages are a dead letter",
    DeliveryState.KEPT: "the agent failed after it had sent a reply",
}


class ChatSession:
    """One user's side of a group's conversation: sends messages and reads replies."""

    def __init__(self, ow: Onceward, group: str, sender: str, place: int) -> None:
        """Read items after a position."""
        self.group = group
        self._ow = ow
        self._sender = sender
        self._place = place
        self._arrivals = Inbox(ow.store)
        self._operators = Operators(ow.store)
        self._ids = Ids()
        self._own: set[str] = set()
        self._numbers: list[int] = []
        self._reported: str | None = None

    def say(self, text: str) -> None:
        """Send a message; it is stored when this returns."""
        message_id = self._ids.new("msg")
        self._own.add(message_id)
        received = receive(self._ow, self.group, message_id, self._sender, text)
        self._numbers.append(received.seq)

    def news(self) -> list[GroupMessage | Reply]:
        """Return items of others since the last call."""
        found: list[GroupMessage | Reply] = []
        while True:
            items, self._place = self._arrivals.conversation(self.group, self._place)
            found += [each for each in items if not self._is_own(each)]
            if not items:
                return found

    def _is_own(self, item: GroupMessage | Reply) -> bool:
        return isinstance(item, GroupMessage) and item.id in self._own

    @property
    def is_attended(self) -> bool:
        """Return whether a dispatcher serves the store."""
        return holder(self._ow) is not None

    def status(self) -> GroupStatus:
        """Return the state of the group."""
        return self._operators.status_of(self.group)

    def trouble(self) -> str | None:
        """Return the current problem, once each time it changes."""
        found = _trouble(self.status())
        previous, self._reported = self._reported, found
        return found if found != previous else None

    def check(self) -> None:
        """Raise AgentFailed if a delivery of this user's messages failed permanently."""
        lately = self._operators.deliveries(self.group, _DELIVERIES_MAX)
        for record in reversed(lately):
            if record.state in _FAILED and self._concerns(record):
                message = f"{_FAILED[record.state]}: {line(record.error or '', 500)}"
                fix = f"see `onceward dispatch status {self.group}`"
                if record.state is DeliveryState.DEAD:
                    fix = f"fix the cause, then `onceward dead redrive --group {self.group} --yes`"
                raise AgentFailed(message, code="AGENT_FAILED", retryable=False, fix=fix)

    def _concerns(self, record: DeliveryRecord) -> bool:
        return any(record.first_seq <= each <= record.last_seq for each in self._numbers)


def is_waiting(status: GroupStatus) -> bool:
    """Return whether replies may still come."""
    return status.is_called or status.in_flight is not None or status.unsent > 0


def _trouble(status: GroupStatus) -> str | None:
    group = status.group
    if group.is_paused and status.is_called:
        resume = f"onceward dispatch groups set {group.name} --resume"
        return f"{group.name} is paused; messages wait for `{resume}`"
    if status.is_called and group.attempts and group.last_error:
        again = f"; tried again at {time(group.retry_at)}" if group.wait_seconds > 0 else ""
        return f"the agent failed ({line(group.last_error, 200)}){again}"
    return None

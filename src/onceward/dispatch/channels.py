"""Channels: deliver replies from the transactional outbox, in order for each group.

A channel that takes keys shows a reply once, however often it is sent under its key. To a channel
without keys an ambiguous reply is not sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from onceward.dispatch.groups import Groups
from onceward.dispatch.models import OutboxMessage, OutboxState
from onceward.dispatch.outbox import Outbox
from onceward.errors import GroupMissing, OncewardError
from onceward.system.crash_points import crash_point

log = logging.getLogger("onceward.dispatch")
#: The channel of the page, of HTTP and of the terminal.
CHAT: Final = "chat"
#: Polling interval while nothing is pending.
IDLE_SECONDS: Final = 3600.0


class Channel(Protocol):
    """Delivers replies to the readers of some groups."""

    @property
    def is_stored(self) -> bool:
        """Return whether readers get replies from the store, so that nothing is sent."""

    @property
    def takes_keys(self) -> bool:
        """Return whether a reply that is sent twice under one key is shown once."""

    def send(self, *, key: str, group: str, text: str) -> None:
        """Show a reply; raise a retryable error when a later attempt may succeed.

        Any other error is final. When it is unknown whether the reply was shown, raise
        OutcomeUnknown.
        """


class StoredChannel:
    """A channel whose replies are read from the store."""

    is_stored = True
    takes_keys = True

    def send(self, *, key: str, group: str, text: str) -> None:
        """Do nothing: the reply is in the store already."""


class OutboxSender:
    """Sends pending replies from the outbox, one at a time for each group."""

    def __init__(
        self,
        outbox: Outbox,
        groups: Groups,
        channels: Mapping[str, Channel],
        on_sent: Callable[[str], None],
    ) -> None:
        """Send to these channels; `on_sent` is called with each group that changed."""
        self._outbox = outbox
        self._groups = groups
        self._channels = channels
        self._on_sent = on_sent

    def recover(self) -> None:
        """Mark replies as ambiguous that an earlier process was sending when it died."""
        for reply in self._outbox.next_unsent():
            channel = self._channel(reply.group)
            if reply.state is OutboxState.SENDING and channel and not channel.takes_keys:
                self._outbox.mark_ambiguous(reply, "the dispatcher died while this was sent")
                self._on_sent(reply.group)

    def send_due(self) -> float:
        """Send all replies that are due, and return the seconds until the next one is."""
        soonest = IDLE_SECONDS
        is_moving = True
        while is_moving:
            is_moving = False
            soonest = IDLE_SECONDS
            for reply in self._outbox.next_unsent():
                if reply.wait_seconds > 0:
                    soonest = min(soonest, reply.wait_seconds)
                else:
                    is_moving = self._send(reply) or is_moving
        return soonest

    def _channel(self, group: str) -> Channel | None:
        try:
            return self._channels.get(self._groups.show(group).channel)
        except GroupMissing:
            return None

    def _send(self, reply: OutboxMessage) -> bool:
        """Send one reply; return whether its group may have another one to send."""
        try:
            channel = self._channels.get(self._groups.show(reply.group).channel)
        except GroupMissing:
            if self._outbox.mark_sending(reply):
                self._outbox.mark_rejected(_marked(reply), "the group was removed")
            return True
        if reply.is_ambiguous and channel and not channel.takes_keys:
            # Sent but not recorded, or still being sent by a former dispatcher.
            self._outbox.mark_ambiguous(reply, "ambiguous: the reply may have been sent")
            self._on_sent(reply.group)
            return True
        # Replies to a channel of another dispatcher stay pending for that one.
        if channel is None or not self._outbox.mark_sending(reply):
            return False
        try:
            channel.send(key=reply.key, group=reply.group, text=reply.text)
        except Exception as exc:  # noqa: BLE001 - an error of one channel must not stop the others
            return self._not_sent(reply, channel, exc)
        crash_point("dispatch.send.after_send")
        self._outbox.mark_sent(reply)
        self._on_sent(reply.group)
        return True

    def _not_sent(self, reply: OutboxMessage, channel: Channel, error: Exception) -> bool:
        said = f"{type(error).__name__}: {error}"
        log.warning(
            "reply not sent to %s: %s", reply.group, said, extra={"event": "reply.not_sent"}
        )
        reply = _marked(reply)
        is_known = isinstance(error, OncewardError) and error.code != "OUTCOME_UNKNOWN"
        if not is_known and not channel.takes_keys:
            # The reply may have been shown before the error.
            self._outbox.mark_ambiguous(reply, said)
            self._on_sent(reply.group)
            return True
        if getattr(error, "retryable", False) or not is_known:
            self._outbox.schedule_retry(reply, said, is_unseen=is_known)
            return True  # The next pass reads its new due time.
        self._outbox.mark_rejected(reply, said)
        return True


def _marked(reply: OutboxMessage) -> OutboxMessage:
    """Return a reply with the attempt that `mark_sending` counted."""
    return replace(reply, attempts=reply.attempts + 1)

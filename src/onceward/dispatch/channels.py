"""Channels: where replies go, and how what is on its way gets there, in order.

A channel that takes keys shows a saying once, however often it is sent under its key. One that does
not is never sent the same again when nobody knows whether it arrived.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from onceward.crash import crash_point
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import Saying, SayingState
from onceward.dispatch.outbox import Outbox
from onceward.errors import GroupMissing, OncewardError

log = logging.getLogger("onceward.dispatch")
#: The channel of the page, of HTTP and of the terminal.
CHAT: Final = "chat"
#: When nothing waits, look again after so long.
IDLE_SECONDS: Final = 3600.0


class Channel(Protocol):
    """Where the replies of some groups go."""

    @property
    def is_stored(self) -> bool:
        """Say whether people read replies from the store, so that nothing has to be sent."""

    @property
    def takes_keys(self) -> bool:
        """Say whether it shows what is sent twice under one key once."""

    def send(self, *, key: str, group: str, text: str) -> None:
        """Show a saying; raise a retryable error when it may work later.

        Any other error means that it will never work. When it is not known whether people saw it,
        raise OutcomeUnknown.
        """


class StoredChannel:
    """Replies are in the store, and whoever wants them reads them there."""

    is_stored = True
    takes_keys = True

    def send(self, *, key: str, group: str, text: str) -> None:
        """Do nothing: it is there."""


class Sender:
    """Sends what waits in the outbox, of each group one after the other."""

    def __init__(
        self,
        outbox: Outbox,
        groups: Groups,
        channels: Mapping[str, Channel],
        on_sent: Callable[[str], None],
    ) -> None:
        """Send to these channels, and tell of each group whose conversation changed."""
        self._outbox = outbox
        self._groups = groups
        self._channels = channels
        self._on_sent = on_sent

    def recover(self) -> None:
        """Decide about what an earlier life was sending when it died."""
        for saying in self._outbox.open():
            channel = self._channel(saying.group)
            if saying.state is SayingState.SENDING and channel and not channel.takes_keys:
                self._outbox.doubtful(saying, "the dispatcher died while this was sent")
                self._on_sent(saying.group)

    def round(self) -> float:
        """Send what is due, and return the seconds until more is."""
        soonest = IDLE_SECONDS
        is_moving = True
        while is_moving:
            is_moving = False
            soonest = IDLE_SECONDS
            for saying in self._outbox.open():
                if saying.wait_seconds > 0:
                    soonest = min(soonest, saying.wait_seconds)
                else:
                    is_moving = self._send(saying) or is_moving
        return soonest

    def _channel(self, group: str) -> Channel | None:
        try:
            return self._channels.get(self._groups.show(group).channel)
        except GroupMissing:
            return None

    def _send(self, saying: Saying) -> bool:
        """Send one; returns whether its group has to be looked at again."""
        try:
            channel = self._channels.get(self._groups.show(saying.group).channel)
        except GroupMissing:
            if self._outbox.sending(saying):
                self._outbox.refused(_marked(saying), "the group is not there any more")
            return True
        if saying.is_doubtful and channel and not channel.takes_keys:
            # Sent, and not noted; or somebody who was the dispatcher before us is still at it.
            self._outbox.doubtful(saying, "nobody knows whether this was sent")
            self._on_sent(saying.group)
            return True
        # What goes to a channel that only another dispatcher knows waits for that one.
        if channel is None or not self._outbox.sending(saying):
            return False
        try:
            channel.send(key=saying.key, group=saying.group, text=saying.text)
        except Exception as exc:  # noqa: BLE001 - whatever a channel raises, the others go on
            return self._not_sent(saying, channel, exc)
        crash_point("dispatch.send.after_send")
        self._outbox.sent(saying)
        self._on_sent(saying.group)
        return True

    def _not_sent(self, saying: Saying, channel: Channel, error: Exception) -> bool:
        said = f"{type(error).__name__}: {error}"
        log.warning("not sent to %s: %s", saying.group, said, extra={"event": "reply.not_sent"})
        saying = _marked(saying)
        is_known = isinstance(error, OncewardError) and error.code != "OUTCOME_UNKNOWN"
        if not is_known and not channel.takes_keys:
            # It may have been shown before whatever went wrong.
            self._outbox.doubtful(saying, said)
            self._on_sent(saying.group)
            return True
        if getattr(error, "retryable", False) or not is_known:
            self._outbox.later(saying, said, is_unseen=is_known)
            return True  # Its wait counts only when it is looked at again.
        self._outbox.refused(saying, said)
        return True


def _marked(saying: Saying) -> Saying:
    """Return a saying as it is known since it was marked as going out."""
    return replace(saying, attempts=saying.attempts + 1)

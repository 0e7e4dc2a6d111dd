"""Memory log: write the log events of a memory server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_log: Final = logging.getLogger("onceward.memory")


def log_event(level: int, event: Mapping[str, object]) -> None:
    """Log an event of `system.log_events.MEMORY`; the other items are its fields."""
    facts = {name: value for name, value in event.items() if name != "event"}
    extra = {"event": event["event"], "facts": facts}
    _log.log(level, "memory %s", event["event"], extra=extra)

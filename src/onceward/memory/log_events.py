"""Log events: what a memory server says about its store, by names that programs can look for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_log: Final = logging.getLogger("onceward.memory")


def log_event(level: int, said: Mapping[str, object]) -> None:
    """Log an event of `onceward.events.MEMORY`; the rest of what is said are its facts."""
    facts = {name: value for name, value in said.items() if name != "event"}
    extra = {"event": said["event"], "facts": facts}
    _log.log(level, "memory %s", said["event"], extra=extra)

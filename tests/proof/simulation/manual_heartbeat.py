"""Manual heartbeat: the production heartbeat without its thread; and loggers made silent."""

from __future__ import annotations

import logging

from greenlet import getcurrent  # type: ignore[import-untyped]

from onceward.outcomes.heartbeat import ClaimHeartbeat


class ManualHeartbeat(ClaimHeartbeat):
    """The production heartbeat without its thread, which no seed would govern: call `beat`."""

    def _start(self) -> None:
        """Start nothing."""


def silence_logger(name: str) -> None:
    """Let a logger be silent in simulated processes: what it warns of is what we inject."""
    logger = logging.getLogger(name)
    if _is_outside not in logger.filters:
        logger.addFilter(_is_outside)


def _is_outside(_: logging.LogRecord) -> bool:
    return getcurrent().parent is None

"""Agent slots: limit running agents; choose the next group to start and idle agents to stop."""

from __future__ import annotations

from collections import OrderedDict


class AgentSlots:
    """Limits the number of running agents; waiting groups start in FIFO order."""

    def __init__(self, most: int) -> None:
        """Allow this many agents at a time."""
        self._most = most
        self._waiting: OrderedDict[str, None] = OrderedDict()
        #: Groups with an agent, and since when it is idle; None while it works.
        self._running: dict[str, float | None] = {}
        self._closing: set[str] = set()

    @property
    def waiting(self) -> list[str]:
        """Return the waiting groups, the longest waiting first."""
        return list(self._waiting)

    @property
    def is_crowded(self) -> bool:
        """Return whether groups wait and no slot is free."""
        return bool(self._waiting) and len(self._running) >= self._most

    def enqueue(self, group: str) -> None:
        """Add a group to the queue, unless it waits or has an agent."""
        if group not in self._running:
            self._waiting.setdefault(group, None)

    def dequeue(self, group: str) -> None:
        """Remove a group from the queue."""
        self._waiting.pop(group, None)

    def start_next(self) -> str | None:
        """Give the next group a slot and return it; None if no slot is free or no group waits."""
        if not self._waiting or len(self._running) >= self._most:
            return None
        group, _ = self._waiting.popitem(last=False)
        self._running[group] = None
        return group

    def mark_idle(self, group: str, since: float) -> None:
        """Record since when a group's agent is idle."""
        if group in self._running:
            self._running[group] = since

    def mark_busy(self, group: str) -> None:
        """Record that a group's agent works."""
        if group in self._running:
            self._running[group] = None

    def release(self, group: str) -> None:
        """Free the slot of a group whose agent has ended."""
        self._running.pop(group, None)
        self._closing.discard(group)

    def take_agents_to_close(self) -> list[str]:
        """Return groups whose idle agents must close for waiting groups, each once."""
        wanted = len(self._waiting) - (self._most - len(self._running)) - len(self._closing)
        idle = [
            (since, group)
            for group, since in self._running.items()
            if since is not None and group not in self._closing
        ]
        chosen = [group for _, group in sorted(idle)[: max(0, wanted)]]
        self._closing.update(chosen)
        return chosen

"""Slots: which group's agent starts next, and which idle one gives way. Pure; knows no process."""

from __future__ import annotations

from collections import OrderedDict


class Slots:
    """At most so many agents at a time; groups that wait come in turn."""

    def __init__(self, most: int) -> None:
        """Have this many."""
        self._most = most
        self._waiting: OrderedDict[str, None] = OrderedDict()
        #: Groups with an agent; since when it is idle, or None while it works.
        self._running: dict[str, float | None] = {}
        self._giving: set[str] = set()

    @property
    def waiting(self) -> list[str]:
        """Return the groups that wait, the longest waiting first."""
        return list(self._waiting)

    @property
    def is_crowded(self) -> bool:
        """Say whether groups wait and no slot is free."""
        return bool(self._waiting) and len(self._running) >= self._most

    def want(self, group: str) -> None:
        """Let a group wait for its turn; one that waits or has an agent stays where it is."""
        if group not in self._running:
            self._waiting.setdefault(group, None)

    def forget(self, group: str) -> None:
        """Let a group wait no more."""
        self._waiting.pop(group, None)

    def take(self) -> str | None:
        """Give the next group a slot, if one is free."""
        if not self._waiting or len(self._running) >= self._most:
            return None
        group, _ = self._waiting.popitem(last=False)
        self._running[group] = None
        return group

    def idle(self, group: str, since: float) -> None:
        """Note that a group's agent has nothing to do."""
        if group in self._running:
            self._running[group] = since

    def busy(self, group: str) -> None:
        """Note that a group's agent works."""
        if group in self._running:
            self._running[group] = None

    def free(self, group: str) -> None:
        """Note that a group's agent has ended."""
        self._running.pop(group, None)
        self._giving.discard(group)

    def giving_way(self) -> list[str]:
        """Return the groups whose idle agents should close now, the longest idle first."""
        wanted = len(self._waiting) - (self._most - len(self._running)) - len(self._giving)
        idle = [
            (since, group)
            for group, since in self._running.items()
            if since is not None and group not in self._giving
        ]
        chosen = [group for _, group in sorted(idle)[: max(0, wanted)]]
        self._giving.update(chosen)
        return chosen

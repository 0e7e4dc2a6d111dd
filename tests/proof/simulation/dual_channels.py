"""Wires: channels that show what they are sent, refuse it, or do not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.errors import InvalidArgument, OutcomeUnknown, Retryable

if TYPE_CHECKING:
    from tests.proof.simulation.dual import Dual


class Wire:
    """A channel, and what people have seen on it."""

    is_stored = False

    def __init__(self, world: Dual, *, takes_keys: bool) -> None:
        self.world, self.takes_keys = world, takes_keys
        #: Keys in the order in which people saw what was sent under them.
        self.shown: list[str] = []

    def send(self, *, key: str, group: str, text: str) -> None:
        """Show it, sometimes late, and answer, sometimes not."""
        assert key == text, f"{group}: {text} under {key}"
        simulation = self.world.simulation
        for _ in range(self.world.slow):
            simulation.give_way("channel.before")
        # Out of order in one of five ways, or not at all.
        chance = 1.0 if simulation.is_healed else simulation.random.random()
        part = chance / self.world.trouble * 5
        if part < 2:
            raise Retryable
        if part < 3:
            message = "too rude"
            raise InvalidArgument(message, fix="be polite", field="text")
        if part < 4:
            raise OutcomeUnknown(fix="look")
        self._show(key)
        for _ in range(self.world.slow):
            simulation.give_way("channel.after")
        if part < 5:
            raise OutcomeUnknown(fix="look")

    def _show(self, key: str) -> None:
        if key in self.shown and self.takes_keys:
            self.world.simulation.sometimes("a reply was sent again under its key")
            return
        assert key not in self.shown, f"{key} is shown twice"
        self.shown.append(key)
        self.world.shown(key)

"""Worlds: all that are simulated, by name."""

from __future__ import annotations

from typing import Final

from tests.proof.simulation.campaign import World
from tests.proof.simulation.dual import Dual
from tests.proof.simulation.leases import Leases
from tests.proof.simulation.outcomes import Outcomes
from tests.proof.simulation.parked import Parked

_ALL: Final[tuple[type[World], ...]] = (
    Leases,
    Parked,
    Outcomes,
    Dual,
)
WORLDS: Final = {world.name: world for world in _ALL}

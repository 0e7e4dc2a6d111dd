"""Random ids: random numbers and new identifiers, from the system or from a seed."""

from __future__ import annotations

import random
import uuid
from typing import ClassVar, Protocol


class Randomness(Protocol):
    """A source of random numbers."""

    def fraction(self) -> float:
        """Return a number from 0 up to, but not including, 1."""

    def hex(self, digits: int) -> str:
        """Return that many random lower-case hexadecimal digits."""


class SystemRandomness:
    """Randomness of the operating system, suitable for tokens."""

    _source: ClassVar = random.SystemRandom()

    def fraction(self) -> float:
        """Return an unpredictable fraction."""
        return self._source.random()

    def hex(self, digits: int) -> str:
        """Return unpredictable digits."""
        return f"{self._source.getrandbits(4 * digits):0{digits}x}"


class SeededRandomness:
    """Reproducible randomness for tests."""

    def __init__(self, seed: int) -> None:
        """Start the sequence that belongs to `seed`."""
        self._source = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def fraction(self) -> float:
        """Return the next fraction of the sequence."""
        return self._source.random()

    def hex(self, digits: int) -> str:
        """Return the next digits of the sequence."""
        return f"{self._source.getrandbits(4 * digits):0{digits}x}"


class Ids:
    """Generates identifiers: a prefix for the kind of object, and a random UUID."""

    def __init__(self, randomness: Randomness | None = None) -> None:
        """Draw from `randomness`. Default: the system's."""
        self._randomness = randomness or SystemRandomness()

    def new(self, prefix: str) -> str:
        """Return a new unique identifier, such as `fb_6f1c…`."""
        return f"{prefix}_{uuid.UUID(hex=self._randomness.hex(32), version=4)}"

"""Fast path, exact path and an independent implementation agree on seeded values."""

import math
import random
import struct
from typing import Any

import pytest
import rfc8785

from onceward.keys import canonical_json, loads
from onceward.keys.canonical import _write

VALUES_PER_CHUNK = 1_250
#: Characters that tell encoders apart: escapes, sorting traps, and text that looks like numbers.
LETTERS = ["a", "é", "\ue000", "\U0001f680", "\uffff", "\ufe0f", '"', "\\", "\n", "\0", "\x7f"]
LETTERS += ["e", ".0", ".0,", "1.0", " ", "/", "\u2028", "\ud7ff", "null", "{", ":", "1e5"]


def text(source: random.Random) -> str:
    return "".join(source.choice(LETTERS) for _ in range(source.randint(0, 6)))


def number(source: random.Random) -> float:
    kind = source.random()
    if kind < 0.3:
        return source.uniform(-1, 1) * 10.0 ** source.randint(-10, 25)
    if kind < 0.5:
        return float(source.randint(-(10**6), 10**6))
    if kind < 0.6:
        return round(source.uniform(-100, 100), 2)
    value: float = struct.unpack("d", struct.pack("Q", source.getrandbits(64)))[0]
    return value if math.isfinite(value) else 0.5


def value(source: random.Random, depth: int = 0) -> Any:
    kind = source.random()
    if depth > 3 or kind < 0.5:
        leaves: list[Any] = [None, True, False, source.randint(-9, 9)]
        leaves += [source.randint(-(2**53) + 1, 2**53 - 1), number(source), text(source)]
        return source.choice(leaves)
    if kind < 0.75:
        return [value(source, depth + 1) for _ in range(source.randint(0, 4))]
    return {text(source): value(source, depth + 1) for _ in range(source.randint(0, 4))}


def exact(given: Any) -> bytes:
    out: list[str] = []
    _write(given, None, out, depth=0, sort=True)
    return "".join(out).encode()


@pytest.mark.prove
@pytest.mark.parametrize("chunk", range(4))
def test_all_ways_agree(chunk: int, prove: bool, soak: bool) -> None:
    """Seeded values, two hundred thousand in a proof: one form, which reads back the same."""
    seeds = range(chunk, 800 if soak else 160 if prove else 4, 4)
    checked = 0
    for seed in seeds:
        source = random.Random(seed)
        for index in range(VALUES_PER_CHUNK):
            given = value(source)
            ours = canonical_json(given)
            assert ours == rfc8785.dumps(given), (seed, index, given)
            assert ours == exact(given), (seed, index, given)
            assert canonical_json(loads(ours)) == ours, (seed, index, given)
            checked += 1
    assert checked == VALUES_PER_CHUNK * len(seeds)

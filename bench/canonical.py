"""Canonical JSON of nested agent inputs, beside two public implementations of RFC 8785."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jcs
import rfc8785

from bench.table import Row, interleaved
from onceward.keys import canonical_json

CALLS = 300
INPUTS: dict[str, Any] = {
    "goal": "Implement the import of leads from the partner's feed, with retries.",
    "context": {
        "files": [
            {"path": f"src/feed/module_{n}.py", "sha256": f"{n:064x}", "size": 800 + n, "tags": []}
            for n in range(20)
        ],
        "spec": "The feed is paged. Every page names the next one; the last names none.\n" * 8,
        "limits": {"temperature": 0.7, "max_tokens": 4096, "stop": None, "strict": True},
    },
    "items": [
        {"id": n, "name": f"item {n}", "done": n % 2 == 0, "weight": n + 0.5, "labels": ["a", "b"]}
        for n in range(20)
    ],
    "round": 2,
    "previous": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}
HARD: dict[str, Any] = {**INPUTS, "scores": [1.0, 2.0, 1e-7], "größe": "🚀", "\ufb33": 1}


def repeat(encode: Callable[[Any], bytes], given: object) -> None:
    for _ in range(CALLS):
        encode(given)


def rows() -> list[Row]:
    found = []
    for label, given, goal in (("ordinary inputs", INPUTS, 8.0), ("hard inputs", HARD, 1.0)):
        assert canonical_json(given) == rfc8785.dumps(given) == jcs.canonicalize(given)
        seconds = interleaved(
            [
                partial(repeat, canonical_json, given),
                partial(repeat, rfc8785.dumps, given),
                partial(repeat, jcs.canonicalize, given),
            ]
        )
        ours, *peers = (each / CALLS * 1e6 for each in seconds)
        found.append(
            Row(
                work=f"canonical JSON, {label}",
                ours=f"{ours:.0f} µs",
                peer=f"rfc8785 {peers[0]:.0f} µs, jcs {peers[1]:.0f} µs",
                ratio=min(peers) / ours,
                goal=goal,
            )
        )
    return found

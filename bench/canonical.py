"""Measure canonical JSON of agent inputs, beside two public implementations of RFC 8785."""

from typing import Any

from bench.peer import Peer, peer
from bench.table import Row
from bench.timing import Run, timed, turns
from bench.units import micro
from onceward.keys import canonical_json

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


def compared(run: Run, peers: list[Peer], label: str, given: object, goal: float) -> list[Row]:
    calls = run.size(200, quick=20)
    for each in peers:
        assert each.missing or each.ask("encoded", given=given).encode() == canonical_json(given)

    def ours() -> None:
        for _ in range(calls):
            canonical_json(given)

    rounds = {each.label: each.round(given=given, calls=calls) for each in peers}
    found = turns({"ours": timed(ours, calls), **rounds}, run.repetitions(7))
    return [
        Row(
            work=f"canonical JSON, {label}",
            ours=found["ours"],
            shown=micro,
            besides=(each.beside(found[each.label], goal),),
            is_headline=goal > 1 and each is peers[0],
        )
        for each in peers
    ]


def rows(run: Run) -> list[Row]:
    with (
        peer("rfc8785", "canonical_json", "rfc8785") as first,
        peer("jcs", "canonical_json", "jcs") as second,
    ):
        return [
            *compared(run, [first, second], "ordinary inputs", INPUTS, 8),
            *compared(run, [first, second], "hard inputs", HARD, 1),
        ]

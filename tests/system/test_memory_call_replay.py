"""A day of an agent's calls, repeated with duplicates and late retries, on both engines."""

from collections import Counter
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from tests.support.memory_call_log import CallSequence, graph_contents, memory_at_hour, with_retries

SEED = 20260206


@pytest.mark.prove
def test_a_day_played_with_duplicates_and_retries_gives_the_same_graph(
    ow: Onceward, tmp_path: Path, prove: bool, soak: bool
) -> None:
    """Half of the calls retried, many again later: names, types, facts and relations are equal."""
    short = 1_000 if ow.store.engine == "sqlite" else 400
    calls = 10_000 if soak else 2 * short if prove else short
    with open_handle(f"sqlite:///{tmp_path / 'first.db'}") as first:
        memory, clock = memory_at_hour(first, hour=1)
        day = CallSequence(memory, clock, SEED)
        day.play(calls)
        once = graph_contents(memory.graph)
        assert len(Counter(call.verb for call in day.log)) == 17
        # The whole log again, in the same place: nothing is new, and nothing comes back.
        for call in day.log:
            call.play(memory)
        assert graph_contents(memory.graph) == once
    repeated = with_retries(day.log, SEED)
    assert len(repeated) > 1.5 * len(day.log)
    memory, clock = memory_at_hour(ow, hour=2)
    for call in repeated:
        clock.advance(seconds=2.0)
        call.play(memory)
    assert graph_contents(memory.graph) == once
    assert memory.graph.problems() == []

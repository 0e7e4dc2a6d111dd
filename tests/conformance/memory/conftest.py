"""Fixtures of the memory: a graph in a store, and who records in it."""

from collections.abc import Iterator

import pytest

from onceward.handle import Onceward
from onceward.memory.graph import Graph
from onceward.memory.recording import Recorder
from onceward.seams import ManualClock
from onceward.secrets import Redactor
from tests.conformance.memory import records


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def graph(ow: Onceward) -> Iterator[Graph]:
    made = Graph(ow.store, redactor=Redactor())
    yield made
    assert made.problems() == []


@pytest.fixture
def recorder(graph: Graph, clock: ManualClock) -> Recorder:
    return records.recorder(graph, clock)

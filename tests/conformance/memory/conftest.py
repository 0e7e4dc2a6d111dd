"""Fixtures of the memory: a graph in a store, and a recorder."""

from collections.abc import Iterator

import pytest

from onceward.client import Onceward
from onceward.memory.graph import Graph
from onceward.memory.recorder import Recorder
from onceward.system import ManualClock
from onceward.system.redaction import Redactor
from tests.support import memory_records


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
    return memory_records.recorder(graph, clock)

"""Provenance: the source, run and time of each fact, and the chain to its runs."""

import json
from typing import Any

import pytest

from onceward.errors import EntityMissing
from onceward.keys import doc_key
from onceward.memory import serialization
from onceward.memory.fact_text import TOKENS_MAX, tokens
from onceward.memory.graph import Graph
from onceward.memory.models import Link, NewEntity, Removal, Validation, WriteBatch, WriteOrigin
from onceward.memory.provenance import (
    CHAIN_ENTITIES_MAX,
    CONTENT_CHARACTERS_MAX,
    FACTS_MAX,
    explain,
)
from onceward.memory.recorder import Recorder
from onceward.system import ManualClock
from onceward.system.redaction import Redactor
from tests.support import memory_records
from tests.support.memory_records import ISSUE, MESSAGE, STARTED_AT, URL, story


def test_each_fact_has_its_source_run_and_times(graph: Graph, recorder: Recorder) -> None:
    """Observed and stored are two times; the newest fact comes first."""
    recorded = story(recorder)
    other = Recorder(graph, clock=ManualClock(), origin=WriteOrigin(source="ci", run=recorded.run))
    other.outcome(
        recorded.fix,
        status="failed",
        verification_method="pytest -q",
        duration_to_verify=1,
        ts="2020-02-02T00:00:00Z",
    )
    found = explain(graph, recorded.fix)
    stored = memory_records.entity(graph, recorded.fix)
    assert (found.name, found.entity_type, found.node_id) == (recorded.fix, "Fix", stored.id)
    assert (found.source, found.run, found.stored_at) == ("test", None, stored.created_at)
    newest, oldest = found.facts
    assert (newest.kind, newest.source, newest.run) == ("fix.outcome", "ci", recorded.run)
    assert newest.observed_at == "2020-02-02T00:00:00Z"
    assert newest.stored_at == stored.observations[-1].created_at
    assert (oldest.kind, oldest.source, oldest.run) == ("fix.apply", "test", None)
    assert not found.is_cut


def test_a_fix_leads_back_to_the_run_that_showed_the_error(
    graph: Graph, recorder: Recorder
) -> None:
    """Fix, error, command, run: each step with where it came from."""
    recorded = story(recorder)
    found = explain(graph, recorded.fix)
    assert [(each.from_name, each.relation_type, each.to_name) for each in found.chain] == [
        (recorded.fix, "RESOLVES", recorded.error),
        (recorded.command, "EMITS", recorded.error),
        (recorded.run, "EXECUTES", recorded.command),
    ]
    assert found.runs == (recorded.run,)
    assert {each.source for each in found.chain} == {"test"}
    assert found.chain[2].run == recorded.run
    assert {each.relation_type for each in found.relations} == {"RESOLVES", "DERIVED_FROM"}
    assert all(word in found.text for word in ("RESOLVES", "EMITS", "EXECUTES"))


def test_everything_in_the_vocabulary_leads_back_to_a_run(graph: Graph, recorder: Recorder) -> None:
    """Documents, topics, causes, tools, files and modes are followed as well."""
    recorded = story(recorder)
    recorder.error(
        MESSAGE, kind="KeyError", detector="pytest", dependency="pydantic", concepts=["dict"]
    )
    cases: list[Any] = [
        (doc_key(URL), 4),
        ("concept#dict", 3),
        ("dep#pydantic", 3),
        (ISSUE, 2),
        ("tool#pytest@8.4", 1),
        ("file#cart.py", 1),
        ("mode#debugger@2", 1),
    ]
    for name, steps in cases:
        found = explain(graph, name)
        assert len(found.chain) == steps
        assert found.runs == (recorded.run,)


def test_what_has_no_run_says_so(graph: Graph) -> None:
    """A plain entity is explained by its source alone."""
    ada = NewEntity(name="Ada", entity_type="person", observations=("likes tea",))
    graph.write(WriteBatch(entities=(ada,)), WriteOrigin(source="chat", run="session 5"))
    found = explain(graph, "Ada")
    assert (found.source, found.run, found.chain, found.runs) == ("chat", "session 5", (), ())
    assert [(each.content, each.kind, each.observed_at) for each in found.facts] == [
        ("likes tea", None, None)
    ]
    assert '"chat" in "session 5"' in found.text
    assert "No recorded run produced it." in found.text


def test_what_is_missing_is_named(graph: Graph, recorder: Recorder) -> None:
    """Neither what never was nor what was deleted is explained."""
    memory_records.error(recorder, None)
    graph.remove(Removal(entities=(ISSUE,)))
    for name in ("unknown", ISSUE):
        with pytest.raises(EntityMissing) as caught:
            explain(graph, name)
        assert name in caught.value.message


def test_of_many_facts_the_newest_are_explained(graph: Graph) -> None:
    """They are cut where they are long, and the answer says that there are more."""
    texts = tuple(f"{number} {'x' * 2_000}" for number in range(FACTS_MAX + 10))
    entity = NewEntity(name="Ada", entity_type="person", observations=texts)
    graph.write(WriteBatch(entities=(entity,)))
    found = explain(graph, "Ada")
    assert found.is_cut
    assert len(found.facts) == FACTS_MAX
    assert found.facts[0].content.startswith(f"{len(texts) - 1} ")
    assert {len(each.content) for each in found.facts} == {CONTENT_CHARACTERS_MAX}
    assert tokens(found.text) <= TOKENS_MAX


def test_a_wide_chain_is_truncated(graph: Graph) -> None:
    """The newest runs are there, and the answer says that there are more."""
    runs = [f"run#{STARTED_AT}#{number:08x}" for number in range(CHAIN_ENTITIES_MAX + 5)]
    entities = [NewEntity(name=name, entity_type="Run") for name in runs]
    hub = NewEntity(name="tool#git", entity_type="Tool")
    links = [Link(from_name=name, to_name="tool#git", relation_type="USES") for name in runs]
    graph.write(WriteBatch(entities=(hub, *entities), relations=tuple(links)))
    found = explain(graph, "tool#git")
    assert found.is_cut
    assert found.runs == tuple(reversed(runs[6:]))
    assert tokens(found.text) <= TOKENS_MAX


def test_a_circle_ends(graph: Graph) -> None:
    """What was written without checks can lead back to where it began."""
    names = ("fix#a", "err#b", "cmd#c")
    links = [
        Link(from_name=start, to_name=end, relation_type=kind)
        for start in names
        for end in names
        for kind in ("RESOLVES", "EMITS", "DERIVED_FROM")
    ]
    entities = tuple(NewEntity(name=name, entity_type="any") for name in names)
    lenient = Graph(graph.store, redactor=Redactor(), validation=Validation.LENIENT)
    lenient.write(WriteBatch(entities=entities, relations=tuple(links)))
    found = explain(graph, "fix#a")
    assert len(found.chain) == len(
        {json.dumps(serialization.to_json(each)) for each in found.chain}
    )
    assert not found.is_cut

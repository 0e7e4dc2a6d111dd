"""Recorder: names, envelopes and relations of records; a repeated record changes nothing."""

from collections.abc import Callable, Iterator

import pytest

from onceward.client import Onceward
from onceward.errors import EntityMissing, InvalidArgument
from onceward.keys import doc_key, fix_key, fp8
from onceward.memory.graph import Graph
from onceward.memory.models import (
    NewEntity,
    Removal,
    Validation,
    WriteBatch,
    WriteOrigin,
    WriteStatus,
)
from onceward.memory.recorder import Recorded, Recorder
from onceward.system import ManualClock
from onceward.system.redaction import Redactor
from tests.support import memory_records
from tests.support.memory_records import (
    ISSUE,
    MESSAGE,
    STARTED_AT,
    URL,
    entity,
    facts,
    fates,
    sentences,
    story,
)

CREATED, KNOWN, REFUSED = WriteStatus.CREATED, WriteStatus.KNOWN, WriteStatus.REFUSED


@pytest.fixture(params=list(Validation))
def graph(ow: Onceward, request: pytest.FixtureRequest) -> Iterator[Graph]:
    made = Graph(ow.store, redactor=Redactor(), validation=request.param)
    yield made
    assert made.problems() == []


def test_a_run_is_named_by_its_start_and_related_to_what_it_used(
    graph: Graph, recorder: Recorder
) -> None:
    """The start is the caller's; mode, tools and files are created with it, in one write."""
    recorded = memory_records.run(recorder)
    digits = fp8(cmd="pytest -q", cwd="/srv/shop", exit_code=1, stdout="1 failed")
    assert recorded.name == f"run#{STARTED_AT}#{digits}"
    assert {each.name for each in recorded.related} == {
        "mode#debugger@2",
        "tool#pytest@8.4",
        "file#cart.py",
    }
    assert sentences(graph, recorded.name) == {
        (recorded.name, "PERFORMED_BY", "mode#debugger@2"),
        (recorded.name, "USES", "tool#pytest@8.4"),
        (recorded.name, "TOUCHES", "file#cart.py"),
    }
    [fact] = facts(graph, recorded.name)
    assert (fact.kind, fact.mode, fact.repo, fact.branch) == (
        *("run.summary", "debugger@2"),
        *("acme/shop", "main"),
    )
    assert fact.data["keyEvents"] == ["collected 12", {"failed": 1}]
    assert entity(graph, recorded.name).run == recorded.name


def test_a_command_belongs_to_its_run(graph: Graph, recorder: Recorder) -> None:
    """White space in it does not matter; what it put out is part of its name."""
    run = memory_records.run(recorder)
    recorded = memory_records.command(recorder, run.name)
    assert recorded.name.startswith("cmd#pytest -q#")
    assert sentences(graph, recorded.name) == {(run.name, "EXECUTES", recorded.name)}
    [fact] = facts(graph, recorded.name)
    assert fact.data == {
        "cmd": "pytest  -q",
        "cwd": "/srv/shop",
        "exitCode": 1,
        "durationMs": 900,
        "stdoutHead": "1 failed",
    }
    assert memory_records.command(recorder, None, output="2 failed").name != recorded.name


def test_an_error_is_named_by_its_normalised_message(graph: Graph, recorder: Recorder) -> None:
    """Another path, position or version is the same error; its cause and topics are related."""
    command = memory_records.command(recorder, None)
    recorded = recorder.error(
        MESSAGE,
        kind="KeyError",
        detector="pytest",
        context={"test": "test_cart"},
        command=command.name,
        dependency="pydantic@2.11.4",
        concepts=["dictionaries"],
    )
    assert recorded.name == ISSUE
    assert sentences(graph, ISSUE) == {
        (command.name, "EMITS", ISSUE),
        (ISSUE, "CAUSED_BY", "dep#pydantic@2.11.4"),
        (ISSUE, "ABOUT", "concept#dictionaries"),
    }
    [fact] = facts(graph, ISSUE)
    assert fact.kind == "error.capture"
    assert fact.data["normalizedKey"] == ISSUE.removeprefix("err#")
    assert fact.data["message"] == MESSAGE
    again = memory_records.error(
        recorder, None, "KeyError: 'price' in /tmp/x.py:99:1 with pydantic 2.12.0"
    )
    assert (again.name, again.entity, again.observation) == (ISSUE, KNOWN, CREATED)


def test_a_warning_is_never_an_error(graph: Graph, recorder: Recorder) -> None:
    """Its name, its envelope and its fix say that it is a warning."""
    command = memory_records.command(recorder, None)
    recorded = recorder.error(
        "warn#Deprecated", kind="lint", detector="ruff", is_warning=True, command=command.name
    )
    assert (recorded.name, recorded.entity_type) == ("warn#deprecated", "Warning")
    assert facts(graph, recorded.name)[0].kind == "warning.capture"
    fix = recorder.fix("Deprecated", strategy="ignore it")
    assert sentences(graph, recorded.name) == {
        (command.name, "EMITS", "warn#deprecated"),
        (fix.name, "MITIGATES", "warn#deprecated"),
    }


def test_what_the_vocabulary_does_not_have_is_refused_and_the_rest_stays(
    graph: Graph, recorder: Recorder
) -> None:
    """A warning has no cause in the vocabulary: that is reported, and no node left without use."""
    recorded = recorder.error(
        "deprecated",
        kind="lint",
        detector="ruff",
        is_warning=True,
        dependency="numpy",
        command=ISSUE,
    )
    assert fates(recorded) == [CREATED, CREATED, REFUSED, REFUSED]
    assert all(" goes from " in each.reason for each in recorded.relations)
    assert recorded.related == ()
    assert graph.open(["dep#numpy"]).entities == ()
    assert len(facts(graph, "warn#deprecated")) == 1


@pytest.mark.parametrize("missing", ["run", "command"])
def test_a_neighbour_that_is_not_there_is_reported_not_invented(
    graph: Graph, recorder: Recorder, missing: str
) -> None:
    """Entity and observation stay; the refused relation names who is missing."""
    name = f"run#{STARTED_AT}#00000000" if missing == "run" else "cmd#pytest -q#00000000"
    record = memory_records.command if missing == "run" else memory_records.error
    recorded = record(recorder, name)
    assert fates(recorded) == [CREATED, CREATED, REFUSED]
    assert name in recorded.relations[0].reason
    assert graph.open([name]).entities == ()


def test_a_fix_resolves_an_error_that_was_recorded(graph: Graph, recorder: Recorder) -> None:
    """By name or by message as seen; documents are noted by their URL, once."""
    seeded = story(recorder)
    assert seeded.fix == fix_key(ISSUE, strategy="use .get", changes=["cart.py"])
    doc = doc_key(URL)
    assert sentences(graph, seeded.fix) == {
        (seeded.fix, "RESOLVES", ISSUE),
        (seeded.fix, "DERIVED_FROM", doc),
    }
    assert facts(graph, doc)[0].data == {"url": URL, "accessed_at": "2026-01-01"}
    by_message = recorder.fix(
        "KeyError: 'price' in /else.py:1:1 with pydantic 3.0.0",
        strategy="use .get",
        changes=["cart.py"],
        docs=[URL, doc],
    )
    assert (by_message.name, set(fates(by_message))) == (seeded.fix, {KNOWN})
    assert len(facts(graph, doc)) == 1


def test_a_document_that_is_known_is_not_noted_again(graph: Graph, recorder: Recorder) -> None:
    """A fix that names its URL adds nothing to what was said about it."""
    recorder.doc(URL, title="dict.get")
    story(recorder)
    assert [each.data["title"] for each in facts(graph, doc_key(URL))] == ["dict.get"]


def test_a_fix_of_nothing_is_refused(graph: Graph, recorder: Recorder) -> None:
    """An issue that was never recorded is not invented; the error says what to do first."""
    for issue in (ISSUE, MESSAGE, "warn#nothing"):
        with pytest.raises(EntityMissing) as caught:
            recorder.fix(issue, strategy="use .get")
        assert caught.value.fix == (
            "record it first: `onceward memory capture -- COMMAND`, or record_error"
        )
    assert graph.counts().entities == 0


def test_a_document_that_is_not_there_is_reported(recorder: Recorder) -> None:
    """By its bare name a document cannot be created: its URL is unknown."""
    memory_records.error(recorder, None)
    recorded = recorder.fix(ISSUE, strategy="use .get", docs=[f"doc#{'0' * 64}"])
    assert fates(recorded) == [CREATED, CREATED, CREATED, REFUSED]


def test_an_outcome_is_an_observation_of_its_fix(graph: Graph, recorder: Recorder) -> None:
    """It is an observation of the fix, and a fix that is not there has none."""
    fix = story(recorder).fix
    recorded = memory_records.outcome(recorder, fix, "verified_successful")
    assert (recorded.name, recorded.entity, recorded.observation) == (fix, KNOWN, CREATED)
    assert [each.kind for each in facts(graph, fix)] == ["fix.apply", "fix.outcome"]
    assert facts(graph, fix)[1].data["fixId"] == fix
    with pytest.raises(EntityMissing, match="00000000"):
        memory_records.outcome(recorder, f"fix#{ISSUE}#00000000", "failed")
    with pytest.raises(InvalidArgument, match="not the name of a fix"):
        memory_records.outcome(recorder, ISSUE, "failed")
    with pytest.raises(InvalidArgument, match="status"):
        memory_records.outcome(recorder, fix, "fine")


def test_a_document_is_named_by_its_url(
    graph: Graph, recorder: Recorder, clock: ManualClock
) -> None:
    """The same note later is the same note; who says when it was accessed is believed."""
    first = recorder.doc(URL, title="dict.get", excerpt="Returns", concepts=["dictionaries"])
    assert fates(first) == [CREATED, CREATED, CREATED]
    clock.advance(seconds=3 * 86_400)
    again = recorder.doc(URL, title="dict.get", excerpt="Returns", concepts=["dictionaries"])
    assert fates(again) == [KNOWN, KNOWN, KNOWN]
    other = recorder.doc(URL, title="dict.get", excerpt="Returns", accessed_at="2026-02-01")
    assert fates(other) == [KNOWN, CREATED]
    assert [each.data["accessed_at"] for each in facts(graph, doc_key(URL))] == [
        "2026-01-01",
        "2026-02-01",
    ]


@pytest.mark.parametrize("said", ["", ',"accessed_at":"long ago"', ',"accessed_at":5'])
def test_a_note_written_without_the_recorder_is_tolerated(
    ow: Onceward, clock: ManualClock, said: str
) -> None:
    """One without a proper time is none to take the time from; the next note has its own."""
    graph = Graph(ow.store, redactor=Redactor(), validation=Validation.LENIENT)
    note = f'{{"type":"doc.note","data":{{"url":"{URL}"{said}}}}}'
    batch = WriteBatch(
        entities=(NewEntity(name=doc_key(URL), entity_type="Doc", observations=(note,)),)
    )
    graph.write(batch)
    recorder = Recorder(graph, clock=clock, origin=WriteOrigin())
    assert fates(recorder.doc(URL)) == [KNOWN, CREATED]
    assert facts(graph, doc_key(URL))[1].data["accessed_at"] == "2026-01-01"
    clock.advance(seconds=86_400)
    assert fates(recorder.doc(URL)) == [KNOWN, KNOWN]


RECORDS: dict[str, Callable[[Recorder], Recorded]] = {
    "run": memory_records.run,
    "command": lambda recorder: memory_records.command(recorder, memory_records.run(recorder).name),
    "error": lambda recorder: memory_records.error(
        recorder, memory_records.command(recorder, None).name
    ),
    "fix": lambda recorder: recorder.fix(memory_records.error(recorder, None).name, strategy="s"),
    "outcome": lambda recorder: memory_records.outcome(recorder, story(recorder).fix, "failed"),
    "doc": lambda recorder: recorder.doc(URL, title="t", concepts=["c"]),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_h36_the_same_record_at_another_time_is_the_same_record(
    graph: Graph, recorder: Recorder, clock: ManualClock, kind: str
) -> None:
    """Repeated a month later everything is known; the first time stays, and nothing is added."""
    first = RECORDS[kind](recorder)
    assert first.observation is CREATED
    before, seen = graph.counts(), entity(graph, first.name)
    clock.advance(seconds=30 * 86_400)
    again = RECORDS[kind](recorder)
    assert again.name == first.name
    assert set(fates(again)) == {KNOWN}
    assert again.related == ()
    assert graph.counts() == before
    assert entity(graph, first.name) == seen


def test_h36_another_fact_at_the_same_time_is_another_observation(
    graph: Graph, recorder: Recorder, clock: ManualClock
) -> None:
    """Only the time does not count: another duration, branch or mode does."""
    first = memory_records.command(recorder, None)
    slower = recorder.command(
        "pytest -q", cwd="/srv/shop", exit_code=1, duration_ms=901, stdout_head="1 failed"
    )
    elsewhere = Recorder(graph, clock=clock, origin=WriteOrigin(), branch="dev")
    there = memory_records.command(elsewhere, None)
    assert first.observation is slower.observation is there.observation is CREATED
    assert there.name == first.name
    assert len(facts(graph, first.name)) == 2


def test_a_record_keeps_who_wrote_it_and_in_which_run(graph: Graph, recorder: Recorder) -> None:
    """The source is the recorder's; the run is the one that the record names."""
    seeded = story(recorder)
    assert entity(graph, seeded.command).run == seeded.run
    assert entity(graph, seeded.command).source == "test"
    assert entity(graph, seeded.error).run is None


@pytest.mark.parametrize("run", [f"run#{STARTED_AT}#deadbeef", "the moon"])
def test_an_unrecorded_run_is_not_an_origin(graph: Graph, recorder: Recorder, run: str) -> None:
    """What is refused as a neighbour is not reported as the origin."""
    recorded = memory_records.command(recorder, run)
    assert fates(recorded) == [CREATED, CREATED, REFUSED]
    found = entity(graph, recorded.name)
    assert (found.run, found.observations[0].run, found.source) == (None, None, "test")


def test_what_was_deleted_is_restored_by_its_record(graph: Graph, recorder: Recorder) -> None:
    """Adding again what was deleted softly brings it back, and the answer says so."""
    fix = story(recorder).fix
    graph.remove(Removal(entities=(ISSUE,)))
    with pytest.raises(EntityMissing):
        recorder.fix(ISSUE, strategy="use .get")
    again = memory_records.error(recorder, None)
    assert again.entity is WriteStatus.RESTORED
    assert fix in {each.name for each in graph.find_by_prefix("fix#")}


def test_a_name_that_has_another_type_keeps_it(ow: Onceward, clock: ManualClock) -> None:
    """The answer tells the type that the entity has."""
    graph = Graph(ow.store, redactor=Redactor(), validation=Validation.LENIENT)
    graph.write(WriteBatch(entities=(NewEntity(name=ISSUE, entity_type="bug"),)))
    recorded = memory_records.error(Recorder(graph, clock=clock, origin=WriteOrigin()), None)
    assert (recorded.entity, recorded.entity_type, recorded.observation) == (KNOWN, "bug", CREATED)

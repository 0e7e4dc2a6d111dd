"""Record arguments: no argument can store a secret, corrupt data or write a part."""

from collections.abc import Iterator
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument
from onceward.memory.graph import Graph
from onceward.memory.models import Validation, WriteStatus
from onceward.memory.recorder import Recorded, Recorder
from onceward.system.redaction import Redactor
from tests.support import memory_records
from tests.support.memory_records import ISSUE, STARTED_AT, URL, facts, fates

SECRET = "hunter2-hunter2"
CREATED, KNOWN, REFUSED = WriteStatus.CREATED, WriteStatus.KNOWN, WriteStatus.REFUSED


@pytest.fixture(params=list(Validation))
def graph(ow: Onceward, request: pytest.FixtureRequest) -> Iterator[Graph]:
    made = Graph(ow.store, redactor=Redactor([SECRET]), validation=request.param)
    yield made
    assert made.problems() == []


def everything(graph: Graph) -> str:
    found = graph.read()
    return repr(found)


def test_no_secret_gets_into_a_name_an_envelope_or_a_relation(
    graph: Graph, recorder: Recorder
) -> None:
    """Whatever argument a secret is in, it is gone before anything is derived; repeats agree."""

    def record_all() -> list[Recorded]:
        run = recorder.run(
            started_at=STARTED_AT,
            cmd=f"deploy --token {SECRET}",
            cwd=f"/srv/{SECRET}",
            exit_code=1,
            stdout_head=f"using {SECRET}",
            stderr_head=f"PASSWORD={SECRET}x",
            summary=SECRET,
            key_events=[SECRET, {"api_key": "abc", SECRET: 1}],
            success=False,
            duration_ms=1,
            tools=[SECRET],
            files=[f"/home/{SECRET}"],
            mode=f"mode-{SECRET}",
        )
        command = recorder.command(
            f"deploy --token {SECRET}", exit_code=1, stdout_head=SECRET, run=run.name
        )
        error = recorder.error(
            f"Token: {SECRET} refused",
            kind=SECRET,
            detector=SECRET,
            context={"password": "short", "text": SECRET},
            command=command.name,
            dependency=SECRET,
            concepts=[SECRET],
        )
        fix = recorder.fix(
            f"Token: {SECRET} refused",
            strategy=f"export API_TOKEN={SECRET}",
            changes=[{"password": "short"}, SECRET],
            docs=[f"https://ada:{SECRET}@example.org/"],
        )
        outcome = recorder.outcome(
            fix.name,
            status="failed",
            verification_method=SECRET,
            duration_to_verify=1,
            side_effects=[SECRET],
        )
        doc = recorder.doc(f"https://example.org/?key={SECRET}", title=SECRET, concepts=[SECRET])
        return [run, command, error, fix, outcome, doc]

    first = record_all()
    assert all(REFUSED not in fates(each) for each in first)
    assert SECRET not in everything(graph)
    assert "short" not in everything(graph)
    before = graph.counts()
    assert {status for each in record_all() for status in fates(each)} == {KNOWN}
    assert graph.counts() == before


def test_a_secret_at_the_end_of_a_head_is_not_kept_in_part(
    graph: Graph, recorder: Recorder
) -> None:
    """Secrets go before the head is cut: half of one would not be known for what it is."""
    output = "x" * (8_192 - len(SECRET) // 2) + SECRET
    recorder.command("cat", exit_code=0, stdout_head=output, stderr_head=output)
    memory_records.error(recorder, None, f"boom {output}")
    assert SECRET[:5] not in everything(graph)


RUN = {
    "started_at": STARTED_AT,
    "cmd": "x",
    "exit_code": 0,
    "summary": "",
    "success": True,
    "duration_ms": 1,
}
DEEP: list[Any] = []
for _ in range(5_000):
    DEEP = [DEEP]


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("run", {**RUN, "started_at": "2026-01-01"}),
    ("run", {**RUN, "started_at": 5}),
    ("run", {**RUN, "cmd": " "}),
    ("run", {**RUN, "exit_code": "1"}),
    ("run", {**RUN, "success": "yes"}),
    ("run", {**RUN, "duration_ms": float("nan")}),
    ("run", {**RUN, "duration_ms": -1}),
    ("run", {**RUN, "tools": "pytest"}),
    ("run", {**RUN, "tools": [""]}),
    ("run", {**RUN, "files": [5]}),
    ("run", {**RUN, "key_events": DEEP}),
    ("run", {**RUN, "key_events": {"a": 1}}),
    ("run", {**RUN, "key_events": [{1, 2}]}),
    ("run", {**RUN, "ts": "now"}),
    ("command", {"cmd": "", "exit_code": 0}),
    ("command", {"cmd": "\ud800", "exit_code": 0}),
    ("command", {"cmd": "x", "exit_code": True}),
    ("error", {"message": "1a2b3c4d5e", "kind": "k", "detector": "d"}),
    ("error", {"message": "m", "kind": "", "detector": "d"}),
    ("error", {"message": "m", "kind": "k", "detector": "d", "context": DEEP}),
    ("error", {"message": "m", "kind": "k", "detector": "d", "concepts": "abc"}),
    ("error", {"message": "m", "kind": "k", "detector": "d", "command": 5}),
    ("fix", {"issue": "", "strategy": "s"}),
    ("fix", {"issue": ISSUE, "strategy": "", "changes": []}),
    ("fix", {"issue": ISSUE, "strategy": "s", "changes": [5]}),
    ("fix", {"issue": ISSUE, "strategy": "s", "result": "done"}),
    ("fix", {"issue": ISSUE, "strategy": "s", "docs": ["not a url"]}),
    ("doc", {"url": "not a url"}),
    ("doc", {"url": URL, "excerpt": "x" * 501}),
    ("doc", {"url": URL, "accessed_at": "yesterday"}),
]


def test_a_wrong_argument_is_refused_and_nothing_is_written(
    graph: Graph, recorder: Recorder
) -> None:
    """Whatever is wrong, the answer says what to mend, and the graph is as before."""
    memory_records.error(recorder, None)
    before = graph.counts()
    for kind, arguments in WRONG:
        with pytest.raises(InvalidArgument) as caught:
            getattr(recorder, kind)(**arguments)
        assert caught.value.fix, (kind, arguments)
    assert graph.counts() == before


def test_output_of_any_size_and_kind_is_kept_in_part(graph: Graph, recorder: Recorder) -> None:
    """Heads are cut between characters; NULs and half characters are no reason to refuse."""
    recorded = recorder.command(
        "cat\0 blob", exit_code=0, stdout_head="\0é" * 10_000, stderr_head="\udcff" * 9_000
    )
    [fact] = facts(graph, recorded.name)
    assert len(fact.data["stdoutHead"].encode()) <= 8_192
    assert len(fact.data["stderrHead"].encode()) == 8_192
    long = memory_records.error(recorder, None, "x\0 " * 50_000)
    assert len(facts(graph, long.name)[0].data["message"].encode()) <= 8_192
    assert recorder.fix(long.name, strategy="shorten it").entity is CREATED

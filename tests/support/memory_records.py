"""Memory records: record one failing command with its error, its fix and their outcome."""

from dataclasses import dataclass

from onceward.memory.envelope import Envelope, parse
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, WriteOrigin, WriteStatus
from onceward.memory.recorder import Recorded, Recorder
from onceward.system import Clock

STARTED_AT = "2026-01-01T00:00:00Z"
MESSAGE = "KeyError: 'price' in /srv/shop/cart.py:10:2 with pydantic 2.11.4"
ISSUE = "err#keyerror: 'price' in <path><pos> with pydantic <ver>"
URL = "https://docs.example.org/dict#get"


def recorder(graph: Graph, clock: Clock) -> Recorder:
    return Recorder(
        graph,
        clock=clock,
        origin=WriteOrigin(source="test"),
        mode="debugger@2",
        repo="acme/shop",
        branch="main",
    )


def run(recorder: Recorder, *, started_at: str = STARTED_AT, exit_code: int = 1) -> Recorded:
    return recorder.run(
        started_at=started_at,
        cmd="pytest -q",
        cwd="/srv/shop",
        exit_code=exit_code,
        stdout_head="1 failed",
        summary="one test fails",
        key_events=["collected 12", {"failed": 1}],
        success=exit_code == 0,
        duration_ms=1200,
        tools=["pytest@8.4"],
        files=["cart.py"],
    )


def command(recorder: Recorder, run: str | None, *, output: str = "1 failed") -> Recorded:
    return recorder.command(
        "pytest  -q", cwd="/srv/shop", exit_code=1, duration_ms=900, stdout_head=output, run=run
    )


def error(recorder: Recorder, command: str | None, message: str = MESSAGE) -> Recorded:
    return recorder.error(message, kind="KeyError", detector="pytest", command=command)


def outcome(recorder: Recorder, fix: str, status: str, *, took: float = 5) -> Recorded:
    return recorder.outcome(
        fix, status=status, verification_method="pytest -q", duration_to_verify=took
    )


@dataclass(frozen=True)
class Story:
    """The names of what happened."""

    run: str
    command: str
    error: str
    fix: str


def story(recorder: Recorder) -> Story:
    """A run executed a command that emitted an error, which a fix resolved."""
    begun = run(recorder)
    executed = command(recorder, begun.name)
    failed = error(recorder, executed.name)
    fixed = recorder.fix(failed.name, strategy="use .get", changes=["cart.py"], docs=[URL])
    return Story(run=begun.name, command=executed.name, error=failed.name, fix=fixed.name)


def entity(graph: Graph, name: str) -> Entity:
    [found] = graph.open([name]).entities
    return found


def facts(graph: Graph, name: str) -> list[Envelope]:
    read = [parse(each.content) for each in entity(graph, name).observations]
    return [each for each in read if each is not None]


def sentences(graph: Graph, name: str) -> set[tuple[str, str, str]]:
    relations = graph.open([name]).relations
    return {(each.from_name, each.relation_type, each.to_name) for each in relations}


def fates(recorded: Recorded) -> list[WriteStatus]:
    return [recorded.entity, recorded.observation, *(each.status for each in recorded.relations)]

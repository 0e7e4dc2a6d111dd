"""Measure how fast long ledgers resume, and what a command and a snapshot cost."""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.table import Row, bound, growth, itself, limit
from bench.timing import Run, spread, timed, turns
from bench.units import fine_micro, milli, plain
from onceward.journal import Journal, Record, atomic_file
from onceward.keys import snapshot
from onceward.keys.snapshot import DigestCache
from onceward.orchestrator.config import load_config
from onceward.orchestrator.ledger import Ledger, seal_line
from onceward.orchestrator.ledger_replay import replay
from onceward.orchestrator.models import AgentTask
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.system import SystemClock, SystemFiles

FILE_BYTES = 50_000
_numbers = itertools.count(1)
AGENT = """
from onceward.agents import Agent, changes_requested, completed
agent = Agent({type!r})
@agent.on("implement", "implement_changes")
def build(command):
    return completed()
@agent.on("review")
def review(command):
    return changes_requested(["again"])
agent.run()
"""
ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


def long_ledger(path: Path, messages: int) -> Ledger:
    """Write a ledger of so many records: commands, answers and receipts, over and over."""
    ledger = Ledger(path, files=SystemFiles(), clock=SystemClock())
    tasks = [AgentTask(id="T-1", goal="g").to_record()]
    ledger.append(1, "run.started", {"run_id": "run-20260206-120000-00000000", "tasks": tasks})
    ledger.append(2, "task.started", {"task_id": "T-1", "snapshot_id": "snap-1"})
    sample = _records(path.with_suffix(".sample"), 1)
    lines = []
    for number in range(messages // 5):
        seq, step = 3 + number * 5, number + 1
        lines += _lines(sample, seq, step)
    with path.open("ab") as file:
        file.writelines(lines)
    return ledger


def _records(path: Path, step: int) -> list[bytes]:
    """Return one command from its announcement to its receipt, as a ledger has it."""
    ledger = Ledger(path, files=SystemFiles(), clock=SystemClock())
    message = {"task_id": "T-1", "idempotency_key": "ik:" + "0" * 64, "inputs": {"goal": "x" * 100}}
    message |= {"to": {"agent_type": "builder"}, "version": {"snapshot_id": "snap-1"}}
    event = {"event": "builder.completed", "payload": {"tests": {"status": "pass"}}}
    records: list[tuple[str, Record]] = [
        ("command", {"step": step, "stage": "implement", "round": 1, "command": message}),
        ("command.sent", {"step": step, "attempt": 1}),
        ("event", {"step": step, "agent": "builder", "event": {"event": "builder.progress"}}),
        ("command.answered", {"step": step, "event": event}),
        ("receipt", {"step": step, "path": "p", "checksum": "c" * 64, "tree": "snap-1"}),
    ]
    for seq, (kind, fields) in enumerate(records, 1):
        ledger.append(seq, kind, fields, sync=False)
    return path.read_bytes().splitlines(keepends=True)


def _lines(sample: list[bytes], seq: int, step: int) -> list[bytes]:
    found = []
    for place, line in enumerate(sample):
        record: Record = json.loads(line)
        del record["sum"]
        found.append(seal_line({**record, "seq": seq + place, "step": step}))
    return found


def _replayed(ledger: Ledger) -> None:
    replay(ledger.read().records)


def resuming(run: Run, directory: Path) -> Row:
    rounds = {}
    for name, count in (("few", 1_000), ("many", run.size(100_000, quick=5_000))):
        ledger = long_ledger(directory / f"{name}.ndjson", count)
        rounds[name] = timed(partial(_replayed, ledger), count)
    rounds["lines"] = timed(ledger.read, count)
    found = turns(rounds, run.repetitions(5))
    lines = fine_micro(spread(found["lines"]).median)
    why = f"Reading a line, parsing it and checking its sum is {lines} of it, folding is the rest."
    return Row(
        work="replay of a ledger with 100,000 messages, each",
        ours=found["many"],
        shown=fine_micro,
        # A second for all of them.
        besides=(growth("with 1,000", found["few"]), bound(10e-6, why)),
    )


def command_seconds(directory: Path, commands: int) -> float:
    """Return the median time of one command of a real run, from its announcement to its receipt."""
    workspace = directory / f"workspace{next(_numbers)}"
    workspace.mkdir()
    agents = {}
    for agent in ("builder", "reviewer", "spec_maintainer"):
        agents[agent] = {"command": [sys.executable, "-c", AGENT.format(type=agent)]}
    config = {"schemaVersion": 1, "agents": agents, "limits": {"rounds_max": commands // 2}}
    (workspace / "onceward.json").write_text(json.dumps(config))
    moments: list[float] = []

    def watch(record: Record) -> None:
        if record["kind"] == "receipt":
            moments.append(time.perf_counter())

    conductor = Orchestrator(load_config(workspace / "onceward.json"), watch=watch)
    conductor.run([AgentTask(id="T-1", goal="g")])
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    return statistics.median(gaps[10:])


def bare_seconds(directory: Path, commands: int) -> float:
    """Return the same over a bare pipe: the line there and back, and as many syncs as we make."""
    journal, receipt = (
        Journal(directory / f"bare{next(_numbers)}.ndjson"),
        directory / "receipt.json",
    )
    line = json.dumps({"message": "x" * 700}).encode() + b"\n"
    with subprocess.Popen(
        [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as echo:
        assert echo.stdin is not None
        assert echo.stdout is not None

        def once() -> None:
            assert echo.stdin is not None
            assert echo.stdout is not None
            journal.append({"command": "x" * 700})
            atomic_file.write(directory / "state.json", b"{}")
            atomic_file.write(directory / "run.json", b"{}")
            echo.stdin.write(line)
            echo.stdin.flush()
            echo.stdout.readline()
            journal.append({"answer": "x" * 300})
            atomic_file.write(receipt, b"x" * 900)
            journal.append({"receipt": "x" * 200})
            atomic_file.write(directory / "state.json", b"{}")
            atomic_file.write(directory / "run.json", b"{}")

        times = []
        for _ in range(commands):
            began = time.perf_counter()
            once()
            times.append(time.perf_counter() - began)
        echo.stdin.close()
    return statistics.median(times[10:])


def commanding(run: Run, directory: Path) -> Row:
    commands = run.size(120, quick=24)
    found = turns(
        {
            "ours": partial(command_seconds, directory, commands),
            "bare": partial(bare_seconds, directory, commands),
        },
        run.repetitions(5),
    )
    return Row(
        work="a command of a run, from its announcement to its receipt",
        ours=found["ours"],
        shown=milli,
        besides=(limit("a bare pipe and the same syncs", found["bare"], 0.5),),
        is_headline=True,
    )


def _looked_at(place: Path) -> None:
    for folder, _, names in os.walk(place):
        for name in names:
            os.stat(f"{folder}/{name}")  # noqa: PTH116 - a Path for each would be most of it


def snapshots(run: Run, directory: Path) -> Row:
    place = directory / "many"
    for number in range(run.size(20_000, quick=200)):
        path = place / f"{number % 100}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(4, "big") * (FILE_BYTES // 4))
        os.utime(path, (1, 1))
    time.sleep(2.1)  # What was touched just before is never taken for unchanged.
    known = DigestCache()
    first = snapshot(place, digests=known)
    assert snapshot(place, digests=known) == first
    found = turns(
        {
            "uncached": timed(lambda: snapshot(place, digests=DigestCache())),
            "again": timed(lambda: snapshot(place, digests=known)),
            "bare": timed(lambda: _looked_at(place)),
        },
        run.repetitions(3),
    )
    bare = found["bare"]
    why = f"To walk through them and look at each takes {plain(spread(bare).median)} by itself."
    return Row(
        work="snapshot of 20,000 unchanged files of 50 kB",
        ours=found["again"],
        shown=plain,
        besides=(
            itself("ours, the first time", found["uncached"], 5, why),
            limit("a bare walk with a stat of each", bare),
        ),
    )


def rows(run: Run) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        return [resuming(run, directory), commanding(run, directory), snapshots(run, directory)]

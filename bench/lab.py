"""Measure how fast feedback reaches an agent, and what polls and long history cost the Lab."""

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.journals import make
from bench.table import Row, bound, growth, limit
from bench.timing import Run, timed, turns
from bench.units import micro, milli, per_second
from onceward.journal import Journal
from onceward.lab import Lab, LabPaths, NewFeedback, open_session

FEW = 10
FEEDBACK_BYTES = 64 * 1024 * 1024


def paths_in(directory: Path) -> LabPaths:
    return LabPaths(root=directory / "lab", feedback=directory / "feedback.jsonl")


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Serve a Lab whose feedback file has some history; gives host and port."""
    paths = paths_in(directory)
    make(paths.feedback, FEEDBACK_BYTES)
    named = {"CM_LAB_ROOT": str(paths.root), "CM_FEEDBACK_STORE_PATH": str(paths.feedback)}
    command = [sys.executable, "-m", "onceward", "lab", "--port", "0", "--json", "--no-open"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env={**os.environ, **named}, **pipes) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"].removeprefix("http://")
        finally:
            process.kill()


class Connection:
    """One connection that is kept open."""

    def __init__(self, address: str) -> None:
        self._http = http.client.HTTPConnection(address, timeout=70)

    def get(self, path: str) -> dict[str, Any]:
        self._http.request("GET", path)
        return self._answer()

    def post(self, path: str, token: str, body: object) -> dict[str, Any]:
        headers = {"x-cm-lab-token": token, "content-type": "application/json"}
        self._http.request("POST", path, json.dumps(body), headers)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._http.getresponse().read())
        return found


def delivery_seconds(address: str, cursor: str, deliveries: int) -> float:
    """Return the median time from a submit to its arrival at an agent that waits."""
    person, agent = Connection(address), Connection(address)
    token = person.get("/api/config")["token"]
    arrived: list[float] = []
    waits, came = threading.Event(), threading.Event()

    def wait_for_all(since: str) -> None:
        for _ in range(deliveries):
            waits.set()
            page = agent.get(f"/api/feedback?since={since}&wait=30")
            arrived.append(time.perf_counter())
            since = page["nextCursor"]
            came.set()

    thread = threading.Thread(target=wait_for_all, args=[cursor])
    thread.start()
    sent: list[float] = []
    for number in range(deliveries):
        waits.wait()
        waits.clear()
        time.sleep(0.005)  # The agent's request has reached the server.
        sent.append(time.perf_counter())
        person.post("/api/feedback", token, {"notes": f"number {number}"})
        came.wait()
        came.clear()
    thread.join()
    return statistics.median(end - start for start, end in zip(sent, arrived, strict=True))


def with_history(directory: Path, requests: int) -> Lab:
    """Return a Lab that has answered so many requests before."""
    paths = paths_in(directory)
    session = open_session(paths)
    lab = Lab(paths=paths, session=session)
    lab.add_feedback(NewFeedback(notes="one"), "first")
    intent, done = Journal(paths.requests(session.session_id)).read().items
    old = open_session(paths)
    journal = Journal(paths.requests(old.session_id), sync=False)
    for start in range(0, requests, 1000):
        lines = []
        for number in range(start, min(requests, start + 1000)):
            name = {"requestId": f"old-{number}", "entityId": f"fb_{number}"}
            lines += [{**intent, **name}, {**done, **name}]
        journal.append(*lines)
    again = Lab(paths=paths, session=session)
    assert again.add_feedback(NewFeedback(notes="one"), "first").replayed
    return again


def rows(run: Run) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        return [*served(run, Path(name)), submitting(run, Path(name))]


def served(run: Run, directory: Path) -> list[Row]:
    polls, deliveries = run.size(1_000, quick=50), run.size(50, quick=5)
    with server(directory) as address:
        tail = Connection(address)
        since = str(paths_in(directory).feedback.stat().st_size)

        def poll() -> None:
            for _ in range(polls):
                tail.get(f"/api/feedback?since={since}")

        def health() -> None:
            for _ in range(polls):
                tail.get("/healthz")

        found = turns({"poll": timed(poll, polls), "bare": timed(health, polls)}, run.repetitions())
        delivered = []
        for _ in range(run.repetitions(4)):
            end = str(paths_in(directory).feedback.stat().st_size)
            delivered.append(delivery_seconds(address, end, deliveries))
    return [
        Row(
            work="from a judgement's submit to the agent that waits, over HTTP",
            ours=tuple(delivered),
            shown=milli,
            besides=(bound(0.015),),
        ),
        Row(
            work="polls of the end of the feedback, one connection",
            ours=found["poll"],
            shown=per_second,
            besides=(limit("/healthz of the same server", found["bare"], 0.5),),
        ),
    ]


def submitting(run: Run, directory: Path) -> Row:
    submits = run.size(200, quick=10)
    few = with_history(directory / "few", FEW)
    many = with_history(directory / "many", run.size(100_000, quick=1_000))

    def submit(lab: Lab) -> None:
        for _ in range(submits):
            lab.add_feedback(NewFeedback(notes="new"))

    found = turns(
        {"few": timed(lambda: submit(few), submits), "many": timed(lambda: submit(many), submits)},
        run.repetitions(7),
    )
    return Row(
        work="a submit after 100,000 requests",
        ours=found["many"],
        shown=micro,
        besides=(growth("after 10", found["few"], 1.2),),
    )

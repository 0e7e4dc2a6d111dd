"""The Lab: how soon a judgement reaches an agent, what a poll costs, and what history costs."""

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
from bench.table import Row, interleaved
from onceward.journal import Journal
from onceward.lab import Lab, LabPaths, NewFeedback, open_session

DELIVERIES, POLLS, SUBMITS = 200, 1000, 200
FEW, MANY = 10, 100_000
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


def delivery_milliseconds(address: str) -> list[float]:
    """Return the time from each submit to its arrival at an agent that waits."""
    person, agent = Connection(address), Connection(address)
    token = person.get("/api/config")["token"]
    cursor = "0"
    while (page := agent.get(f"/api/feedback?since={cursor}"))["nextCursor"] != cursor:
        cursor = page["nextCursor"]
    arrived: list[float] = []
    waits, came = threading.Event(), threading.Event()

    def wait_for_all(since: str) -> None:
        for _ in range(DELIVERIES):
            waits.set()
            page = agent.get(f"/api/feedback?since={since}&wait=30")
            arrived.append(time.perf_counter())
            since = page["nextCursor"]
            came.set()

    thread = threading.Thread(target=wait_for_all, args=[cursor])
    thread.start()
    sent: list[float] = []
    for number in range(DELIVERIES):
        waits.wait()
        waits.clear()
        time.sleep(0.005)  # The agent's request has reached the server.
        sent.append(time.perf_counter())
        person.post("/api/feedback", token, {"notes": f"number {number}"})
        came.wait()
        came.clear()
    thread.join()
    return [(end - start) * 1000 for start, end in zip(sent, arrived, strict=True)]


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


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with server(directory) as address:
            times = delivery_milliseconds(address)
            tail = Connection(address)
            since = str(paths_in(directory).feedback.stat().st_size)
            poll, health = interleaved(
                [
                    lambda: [tail.get(f"/api/feedback?since={since}") for _ in range(POLLS)],
                    lambda: [tail.get("/healthz") for _ in range(POLLS)],
                ]
            )
        few, many = with_history(directory / "few", FEW), with_history(directory / "many", MANY)

        def submit(lab: Lab) -> None:
            for _ in range(SUBMITS):
                lab.add_feedback(NewFeedback(notes="new"))

        costs = interleaved([lambda: submit(few), lambda: submit(many)], rounds=7)
    small, large = (each / SUBMITS * 1e6 for each in costs)
    p95 = statistics.quantiles(times, n=20)[-1]
    return [
        Row(
            work="submit to delivery at a waiting agent, median in ms",
            ours=f"95 % under {p95:.1f} ms",
            peer="as it is",
            ratio=statistics.median(times),
            goal=15,
            better="below",
        ),
        Row(
            work="polls of the tail a second, one connection",
            ours=f"{POLLS / poll:.0f}/s",
            peer=f"/healthz {POLLS / health:.0f}/s",
            ratio=health / poll,
            goal=0.5,
        ),
        Row(
            work="submit with 100,000 earlier request ids",
            ours=f"{large:.0f} µs",
            peer=f"with 10 {small:.0f} µs",
            ratio=large / small,
            goal=1.2,
            better="below",
        ),
    ]

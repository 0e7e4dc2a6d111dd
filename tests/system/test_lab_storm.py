"""Many clients, two servers on one root, both killed again and again: each request counts once."""

from __future__ import annotations

import queue
import random
import signal
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from onceward.errors import OncewardError
from onceward.lab import FeedbackClient
from tests.support.evidence import Entry, Evidence
from tests.support.lab_servers import LabServer
from tests.support.labs import feedback_of, make_experiment, make_lab, paths_in, submission

CONNECTIONS, SIDES = 8, 3
#: Where a server dies by itself, at its nth pass; "" lives until it is killed at some moment.
DEATHS = (
    *("", "lab.request.after_intent", "lab.request.after_entries", "lab.request.after_done"),
    *("journal.append.after_write", "lab.request.before_intent"),
)


class Storm:
    """The work to do, who does it, and what was seen of it."""

    def __init__(self, directory: Path, requests: int, seed: int) -> None:
        self.source = random.Random(seed)
        lab = make_lab(directory)
        self.bodies: dict[str, tuple[str, dict[str, Any]]] = {}
        for number in range(requests):
            experiment = make_experiment(lab, directory, SIDES)
            body = submission(experiment).model_dump(mode="json", exclude_none=True)
            path = f"/api/experiments/{experiment.experiment_id}/submit"
            self.bodies[f"req-{number}"] = (path, body)
        self.answers: dict[str, list[bytes]] = defaultdict(list)
        self.done = threading.Event()
        self.kills = 0

    def client(self, work: queue.SimpleQueue[str], servers: list[LabServer], seed: int) -> None:
        """Send what is to be sent, to any server, until it is answered."""
        source = random.Random(seed)
        with suppress(queue.Empty):
            while True:
                name = work.get_nowait()
                path, body = self.bodies[name]
                while True:
                    with suppress(httpx.TransportError):
                        response = source.choice(servers).post(path, body, name)
                        # A server that has just started refuses the token of the one before.
                        if response.status_code not in (401, *range(500, 600)):
                            assert response.status_code == 200, response.text
                            self.answers[name].append(response.content)
                            break

    def killer(self, servers: list[LabServer], deaths: int) -> None:
        """Let one server after the other die, and start it again."""
        while self.kills < deaths or not self.done.wait(0.05):
            if self.kills >= deaths:
                continue
            server = self.source.choice(servers)
            assert server.process is not None
            with suppress(Exception):
                # One that was armed dies by itself; the others are killed at whatever moment.
                server.process.wait(self.source.uniform(0.05, 0.6))
            server.kill()
            self.kills += 1
            point = self.source.choice(DEATHS)
            if self.kills >= deaths or not point:
                server.start()
            else:
                start_armed(server, f"{point}:{self.source.randint(1, 8)}:kill")
        for server in servers:
            if server.process is not None and server.process.poll() is not None:
                server.start()


def start_armed(server: LabServer, crash: str) -> None:
    """Start a server that dies by itself, which may be before it says where it is."""
    try:
        server.start(crash)
    except (ValueError, httpx.TransportError):
        assert server.process is not None
        assert server.process.wait(60) == -signal.SIGKILL


def poller(storm: Storm, servers: list[LabServer], total: int) -> list[str]:
    """An agent that polls any server by cursor and tag, as long as something is to come."""
    seen: list[str] = []
    since, tag, turn = "0", "", 0
    while len(seen) < total or not storm.done.is_set():
        turn += 1
        headers = {"x-cm-lab-cursor-tag": tag} if tag else {}
        with suppress(httpx.TransportError):
            params = {"since": since, "wait": "0.2", "limit": "7"}
            response = servers[turn % 2].get("/api/feedback", params=params, headers=headers)
            if response.status_code == 200:
                page = response.json()
                seen += [each["id"] for each in page["items"]]
                since, tag = page["nextCursor"], response.headers["x-cm-lab-cursor-tag"]
    return seen


def agent(storm: Storm, directory: Path, total: int) -> list[str]:
    """An agent of the library, which is closed and opened again after every few entries."""
    seen: list[str] = []
    while len(seen) < total or not storm.done.is_set():
        client = FeedbackClient(paths_in(directory).feedback, cursor=directory / "agent.json")
        with client, suppress(OncewardError):
            for number, entry in enumerate(client.available()):
                seen.append(entry["id"])
                client.done()
                if number == 4:
                    break
    return seen


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_two_hundred_submits_to_two_dying_servers_are_twenty_decisions(
    tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Ten of each request id over 8 connections: one entry set each, and agents see each once."""
    requests, deaths = (200, 40) if soak else (60, 15) if prove else (20, 6)
    storm = Storm(tmp_path, requests, seed=7)
    work: queue.SimpleQueue[str] = queue.SimpleQueue()
    names = [*storm.bodies] * 10
    storm.source.shuffle(names)
    for name in names:
        work.put(name)
    total = requests * SIDES
    with ExitStack() as stack, ThreadPoolExecutor(CONNECTIONS + 3) as pool:
        servers = [stack.enter_context(LabServer(tmp_path)) for _ in range(2)]
        watching = [
            pool.submit(poller, storm, servers, total),
            pool.submit(agent, storm, tmp_path, total),
        ]
        killing = pool.submit(storm.killer, servers, deaths)
        sending = [pool.submit(storm.client, work, servers, each) for each in range(CONNECTIONS)]
        try:
            for each in sending:
                each.result()
        finally:
            storm.done.set()
        killing.result()
        seen = [each.result() for each in watching]
    assert storm.kills >= deaths
    assert {len(each) for each in storm.answers.values()} == {10}
    assert all(len(set(each)) == 1 for each in storm.answers.values()), "answers differ"
    entries = feedback_of(make_lab(tmp_path))
    found = Counter(each["extra"]["requestId"] for each in entries)
    assert found == dict.fromkeys(storm.bodies, SIDES)
    for ids in seen:
        assert ids == [each["id"] for each in entries]
    evidence.record(
        Entry(
            campaign="judgements submitted ten times each to two servers",
            layer="storms",
            claims=("L1", "L2"),
            engine="files",
            schedules=1,
            faults={"kill": storm.kills, "repeated request": 9 * requests},
            work=requests,
        )
    )

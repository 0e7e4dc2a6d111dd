"""`onceward lab` as a process: serving, for whom, until when, and what it opens."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from onceward.lab import FeedbackClient
from tests.support.lab_processes import COMMAND, STOP_SECONDS_MAX, Bench
from tests.support.labs import make_run
from tests.support.served_commands import browser_in


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_lab_alone_serves_the_lab(bench: Bench) -> None:
    """`serve` may be left out; one line for machines, then quiet until Ctrl-C."""
    with bench.lab() as server:
        assert list(server.announced) == ["url", "sessionId"]
        config = server.get("/api/config")
        assert config["sessionId"] == server.announced["sessionId"]
        assert config["allowedRoots"] == [str(bench.directory)]
        assert (config["task"], config["exitAfterSubmit"]) == (None, 0)
        assert httpx.get(f"{server.url}/lab", trust_env=False, timeout=60).status_code == 200
        assert server.get("/healthz")["status"] == "ok"
        assert server.stop() == (0, [], "stopped\n")


def test_people_read_where_the_lab_is(bench: Bench) -> None:
    """Without --json it is a sentence with the address of the page."""
    with bench.start("lab", "serve", "--port", "0", "--no-open") as server:
        assert "the Lab is at http://127.0.0.1:" in server.line
        assert server.line.endswith("/lab - Ctrl-C stops it\n")
        assert server.stop(signal.SIGTERM) == (0, [], "stopped\n")


def test_a_session_is_resumed_with_a_new_token(bench: Bench) -> None:
    """The page that was open before the restart has to fetch the token of the new process."""
    with bench.lab("--session", "lab_mine") as server:
        before = server.get("/api/config")
        server.stop()
    with bench.lab("--session", "lab_mine") as server:
        after = server.get("/api/config")
    assert after["sessionId"] == "lab_mine"
    assert after["token"] != before["token"]


def test_runs_lie_in_the_allowed_roots(bench: Bench, tmp_path: Path) -> None:
    """Those given, and only those: the working directory is the default, not an addition."""
    elsewhere = make_run(tmp_path / "elsewhere", "x")
    arguments = ["--allow-root", "elsewhere", "--allow-root", "runs/a"]
    with bench.lab(*arguments) as server:
        assert len(server.get("/api/config")["allowedRoots"]) == 2
        assert server.post("/api/runs/import", {"path": str(elsewhere)}).status_code == 200
        refused = server.post("/api/runs/import", {"path": str(bench.directory / "runs" / "b")})
        assert refused.status_code == 403
    refusal = bench.run("lab", "--allow-root", "nowhere")
    assert refusal.returncode == 2
    assert "nowhere is not a directory" in refusal.stderr


def test_up_serves_the_lab_too(bench: Bench) -> None:
    """The same paths and a session that is really there."""
    with bench.start("up", "--port", "0", "--json", "--allow-root", "runs") as server:
        config = server.get("/api/config")
        assert config["sessionId"] == server.announced["sessionId"]
        assert config["allowedRoots"] == [str(bench.directory / "runs")]
        path = str(bench.directory / "runs" / "a")
        assert server.post("/api/runs/import", {"path": path}).status_code == 200
        assert (bench.root / "sessions" / server.announced["sessionId"]).is_dir()
        assert server.stop() == (0, [], "stopped\n")


def test_it_exits_after_so_many_submissions(bench: Bench) -> None:
    """Replays are not counted, and the last answer still arrives."""
    with bench.lab("--exit-after-submit", "2") as server:
        assert server.get("/api/config")["exitAfterSubmit"] == 2
        first = server.post("/api/feedback", {"notes": "one"}, "r1")
        assert server.post("/api/feedback", {"notes": "one"}, "r1").json() == first.json()
        assert server.post("/api/feedback", {"notes": "two"}, "r2").status_code == 200
        assert server.end() == (0, [], "stopped\n")
    assert [entry["notes"] for entry in bench.entries] == ["one", "two"]


@pytest.mark.parametrize("is_asked_again", [True, False])
def test_what_a_killed_server_had_announced_counts(bench: Bench, is_asked_again: bool) -> None:
    """The next one completes it, lets the page ask for its answer, and exits; not for ever."""
    words = ["--exit-after-submit", "1", "--session", "lab_mine"]
    dying = {**bench.environment, "ONCEWARD_CRASH": "lab.request.after_intent:1:kill"}
    with bench.start("lab", "--port", "0", "--no-open", "--json", *words, env=dying) as server:
        with pytest.raises(httpx.TransportError):
            server.post("/api/feedback", {"notes": "one"}, "r1")
        assert server.end()[0] == -signal.SIGKILL
    with bench.lab(*words) as server:
        if is_asked_again:
            assert server.post("/api/feedback", {"notes": "one"}, "r1").status_code == 200
        assert server.end() == (0, [], "stopped\n")
    assert [entry["notes"] for entry in bench.entries] == ["one"]


def test_waiting_agents_get_the_last_entry_before_the_server_goes(bench: Bench) -> None:
    """A long poll that is open when the server ends by itself is answered with what came."""
    with bench.lab("--exit-after-submit", "1") as server, ThreadPoolExecutor(1) as pool:
        asked = f"{server.url}/api/feedback?since=0&wait=30"
        waiting = pool.submit(httpx.get, asked, trust_env=False, timeout=60)
        server.post("/api/feedback", {"notes": "one"})
        assert [entry["notes"] for entry in waiting.result().json()["items"]] == ["one"]
        assert server.end()[0] == 0


def test_a_waiting_agent_does_not_hold_up_the_end(bench: Bench) -> None:
    """Ctrl-C answers those who wait, with nothing, and says nothing of cut requests."""
    with bench.lab() as server, ThreadPoolExecutor(1) as pool:
        asked = f"{server.url}/api/feedback?since=0&wait=30"
        with httpx.Client(trust_env=False, timeout=60) as client:
            waiting = pool.submit(client.get, asked)
            server.get("/api/config")
            assert server.stop() == (0, [], "stopped\n")
            with contextlib.suppress(httpx.TransportError):  # It may not have arrived yet.
                assert waiting.result().json() == {"items": [], "nextCursor": "0"}


def test_other_machines_need_the_token(bench: Bench, tmp_path: Path) -> None:
    """The token is on stderr only; with it a FeedbackClient is let in, without it is not."""
    arguments = ["--host", "0.0.0.0", "--allow-external"]
    with bench.lab(*arguments) as server:
        assert server.process.stderr is not None
        token = server.process.stderr.readline().removeprefix("token: ").strip()
        link = server.process.stderr.readline().strip()
        assert link == f"open {server.url}/lab#token={token}"
        headers = {"x-cm-lab-token": token}
        assert server.get("/api/config", headers=headers)["token"] is None
        answer = httpx.post(
            f"{server.url}/api/feedback",
            json={"notes": "x"},
            headers=headers,
            trust_env=False,
            timeout=60,
        )
        assert answer.status_code == 200
        with FeedbackClient(server.url, cursor=tmp_path / "cursor", token=token) as client:
            assert [entry["notes"] for entry in client.available()] == ["x"]


def test_a_client_reads_from_a_server_across_its_restart(bench: Bench, tmp_path: Path) -> None:
    """Each entry once, whichever server it came through."""
    seen: list[str] = []
    for life in range(2):
        with bench.lab() as server:
            for number in range(3):
                server.post("/api/feedback", {"notes": f"{life}.{number}"})
            with FeedbackClient(server.url, cursor=tmp_path / "cursor", wait=5) as client:
                for entry in client:
                    seen.append(entry["notes"])
                    if len(seen) == 3 * life + 3:
                        client.done()
                        break
            server.process.kill()
    assert seen == [f"{life}.{number}" for life in range(2) for number in range(3)]


def test_open_opens_the_page_of_the_task_also_for_machines(bench: Bench, tmp_path: Path) -> None:
    """An agent that reads --json can still have the page opened for the person."""
    called, browser = browser_in(tmp_path)
    environment = {**bench.environment, **browser}
    words = ["review", "runs/a", "--port", "0", "--json", "--open"]
    with bench.start("lab", *words, env=environment) as server:
        assert called.read_text().strip() == server.announced["pageUrl"]


def test_no_open_opens_nothing_on_a_terminal(bench: Bench, tmp_path: Path) -> None:
    """With --no-open no browser is opened."""
    script = tmp_path / "browser"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/opened\n")
    script.chmod(0o700)
    master, slave = pty.openpty()
    command = [*COMMAND, "lab", "--port", "0", "--no-open", "--exit-after-submit", "1"]
    environment = {**bench.environment, "BROWSER": f"{script} %s"}
    with (
        os.fdopen(master) as terminal,
        subprocess.Popen(command, stdout=slave, env=environment, cwd=bench.directory) as process,
    ):
        os.close(slave)
        line = terminal.readline()
        url = line.split("is at ")[1].split("/lab ")[0]
        token = httpx.get(f"{url}/api/config", trust_env=False, timeout=60).json()["token"]
        headers = {"x-cm-lab-token": token}
        httpx.post(
            f"{url}/api/feedback", json={"notes": "x"}, headers=headers, trust_env=False, timeout=60
        )
        assert process.wait(STOP_SECONDS_MAX) == 0
    assert not (tmp_path / "opened").exists()

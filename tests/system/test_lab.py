"""The Lab as a server process: its files, restarts, and long-lived clients."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from onceward.journal import Journal
from tests.support.lab_servers import LabServer
from tests.support.labs import make_lab, make_run, paths_in, submission

LONG_LINE_BYTES = 100 * 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabServer]:
    with LabServer(tmp_path) as made:
        yield made


def feedback(server: LabServer, **params: str) -> dict[str, Any]:
    response = server.get("/api/feedback", params=params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page


def entries(server: LabServer) -> list[dict[str, Any]]:
    """Return all entries: a page that moved the cursor says to ask again at once."""
    items: list[dict[str, Any]] = []
    since = "0"
    while True:
        page = feedback(server, since=since)
        items += page["items"]
        if page["nextCursor"] == since:
            return items
        since = page["nextCursor"]


def set_up(server: LabServer, directory: Path) -> tuple[str, dict[str, Any]]:
    """Compare two runs; return where to submit, and what."""
    runs = [
        server.post("/api/runs/import", {"path": str(make_run(directory, each))}).json()["runId"]
        for each in ("one", "two")
    ]
    body = {"baselineRunId": runs[0], "variants": [{"runId": runs[1]}]}
    experiment_id = server.post("/api/experiments", body).json()["experimentId"]
    experiment = make_lab(directory).experiment(experiment_id)
    path = f"/api/experiments/{experiment_id}/submit"
    return path, submission(experiment).model_dump(mode="json", exclude_none=True)


def die(server: LabServer, crash: str, path: str, body: object, request_id: str) -> None:
    """Send a request to a server that dies at a crash point instead of answering."""
    server.kill()
    server.start(crash)
    with pytest.raises(httpx.TransportError):
        server.post(path, body, request_id)
    server.kill()
    server.start()


def test_plan_submitted_feedback_is_polled_and_advances_the_cursor(server: LabServer) -> None:
    """Start, submit, poll from 0: the entry comes, and the cursor stands after it."""
    made = server.post("/api/feedback", {"notes": "good"}, "req-1").json()
    page = feedback(server, since="0")
    assert [each["id"] for each in page["items"]] == [made["feedbackId"]]
    assert int(page["nextCursor"]) == paths_in(server.directory).feedback.stat().st_size


def test_plan_polling_again_with_the_returned_cursor_repeats_nothing(server: LabServer) -> None:
    """The cursor is exclusive, also after a restart of the server."""
    server.post("/api/feedback", {"notes": "good"})
    cursor = feedback(server)["nextCursor"]
    assert feedback(server, since=cursor) == {"items": [], "nextCursor": cursor}
    server.kill()
    server.start()
    assert feedback(server, since=cursor) == {"items": [], "nextCursor": cursor}


def test_plan_double_submit_with_one_request_id_appends_once(server: LabServer) -> None:
    """The same id, and the same bytes, come back."""
    first = server.post("/api/feedback", {"notes": "good"}, "req-1")
    second = server.post("/api/feedback", {"notes": "good"}, "req-1")
    assert first.content == second.content
    assert len(entries(server)) == 1


def test_plan_importing_the_same_directory_twice_gives_one_run(
    server: LabServer, tmp_path: Path
) -> None:
    """Unchanged it is the same run; changed it is a new one that names the old."""
    body = {"path": str(make_run(tmp_path))}
    first = server.post("/api/runs/import", body).json()["runId"]
    assert server.post("/api/runs/import", body).json()["runId"] == first
    make_run(tmp_path, topic="something else")
    second = server.post("/api/runs/import", body).json()["runId"]
    runs = server.get("/api/runs").json()["items"]
    assert [each["runId"] for each in runs] == [second, first]
    assert runs[0]["supersedesRunId"] == first


def test_h01_ten_requests_at_once_to_two_servers_are_one_entry(
    server: LabServer, tmp_path: Path
) -> None:
    """Ten equal answers, one entry."""
    with LabServer(tmp_path) as other, ThreadPoolExecutor(10) as pool:
        servers = [server, other] * 5
        answers = list(
            pool.map(lambda each: each.post("/api/feedback", {"notes": "x"}, "r"), servers)
        )
    assert {each.status_code for each in answers} == {200}
    assert len({each.content for each in answers}) == 1
    assert len(entries(server)) == 1


@pytest.mark.parametrize("point", ["lab.request.after_intent", "lab.request.after_entries"])
def test_h02_killed_before_the_mapping_is_written_the_retry_appends_nothing(
    server: LabServer, point: str
) -> None:
    """The process dies between entry and answer; the retry gets the id of that entry."""
    die(server, f"{point}:1:kill", "/api/feedback", {"notes": "x"}, "req-1")
    found = entries(server)
    assert len(found) == 1, "the next server completes it without being asked"
    answer = server.post("/api/feedback", {"notes": "x"}, "req-1")
    assert answer.json() == {"feedbackId": found[0]["id"]}
    assert entries(server) == found


def test_h03_a_submit_killed_after_its_first_entry_is_completed_once(
    server: LabServer, tmp_path: Path
) -> None:
    """Only the missing entry is appended, with its own id, and the winner is recorded."""
    path, body = set_up(server, tmp_path)
    server.kill()
    server.start("lab.request.after_intent:1:kill")
    with pytest.raises(httpx.TransportError):
        server.post(path, body, "req-1")
    requests = Journal(paths_in(tmp_path).requests(server.session_id)).read().items
    first = requests[-1]["redo"]["entries"][0]
    Journal(paths_in(tmp_path).feedback).append(first)
    server.kill()
    server.start()
    answer = server.post(path, body, "req-1").json()
    assert [each["id"] for each in entries(server)] == answer["feedbackIds"]
    assert answer["feedbackIds"][0] == first["id"]
    experiment = server.get(path.removesuffix("/submit")).json()
    assert experiment["status"] == "done"
    assert experiment["winner"]["variantId"] == body["winnerVariantId"]


def test_h04_request_ids_of_before_the_restart_are_recognised(
    server: LabServer, tmp_path: Path
) -> None:
    """By the same session, and by a server with a session of its own."""
    first = server.post("/api/feedback", {"notes": "x"}, "req-1")
    server.kill()
    server.start()
    assert server.post("/api/feedback", {"notes": "x"}, "req-1").content == first.content
    with LabServer(tmp_path) as other:
        assert other.post("/api/feedback", {"notes": "x"}, "req-1").content == first.content
        assert other.session_id != server.session_id
    assert len(entries(server)) == 1


def test_h05_one_request_id_for_two_payloads_is_refused(server: LabServer, tmp_path: Path) -> None:
    """422, never the result of the other request."""
    path, body = set_up(server, tmp_path)
    server.post("/api/feedback", {"notes": "x"}, "req-1")
    for target, payload in (("/api/feedback", {"notes": "y"}), (path, body)):
        answer = server.post(target, payload, "req-1")
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "KEY_REUSED"
    assert len(entries(server)) == 1


def test_h06_a_line_torn_by_another_tool_is_skipped_once(server: LabServer) -> None:
    """The next entry is whole, and polls pass the torn line."""
    path = paths_in(server.directory).feedback
    server.post("/api/feedback", {"notes": "before"})
    with path.open("ab") as file:
        file.write(b'{"id":"fb_torn","createdAt":"2026-')
    cursor = feedback(server)["nextCursor"]
    server.post("/api/feedback", {"notes": "after"})
    page = feedback(server, since=cursor)
    assert [each["notes"] for each in page["items"]] == ["after"]
    assert int(page["nextCursor"]) == path.stat().st_size


def resident_bytes(server: LabServer) -> int:
    assert server.process is not None
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(server: LabServer) -> float:
    """Return for how long a server has worked, whatever else the machine did."""
    assert server.process is not None
    stat = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")


def test_h09_a_line_of_100_mb_without_an_end_costs_little(server: LabServer) -> None:
    """Polls answer in linear time and bounded memory, and the server goes on."""
    path = paths_in(server.directory).feedback
    server.post("/api/feedback", {"notes": "before"})
    page, before = feedback(server), resident_bytes(server)
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + LONG_LINE_BYTES)  # Zeros, and no newline.
    worked = processor_seconds(server)
    assert feedback(server, since=page["nextCursor"]) == {**page, "items": []}
    assert processor_seconds(server) - worked < 20
    assert resident_bytes(server) - before < 32 * 1024 * 1024
    server.post("/api/feedback", {"notes": "after"})
    assert [each["notes"] for each in entries(server)] == ["before", "after"]


def test_h10_a_replaced_or_truncated_file_is_an_error(server: LabServer) -> None:
    """A client that sends the tag back never reads from the middle of another file."""
    path = paths_in(server.directory).feedback
    server.post("/api/feedback", {"notes": "aaaa"})
    response = server.get("/api/feedback")
    cursor, tag = response.json()["nextCursor"], response.headers["x-cm-lab-cursor-tag"]
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content.replace(b"aaaa", b"bbbb"))
    params, headers = {"since": cursor}, {"x-cm-lab-cursor-tag": tag}
    answer = server.get("/api/feedback", params=params, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_CURSOR")
    path.write_bytes(b"")
    answer = server.get("/api/feedback", params=params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_CURSOR")


def test_h12_no_address_leads_out_of_a_run_or_the_exports(
    server: LabServer, tmp_path: Path
) -> None:
    """Dots, links and encodings read nothing outside the run, and write nothing outside exports."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret.md"
    secret.write_text("the secret")
    place = make_run(tmp_path)
    (place / "link.md").symlink_to(secret)
    files = ["link.md", "../../../" + secret.name, str(secret)]
    (place / "lab.json").write_text(json.dumps({"files": [*files, "real.md"]}))
    (place / "real.md").write_text("shown")
    run_id = server.post("/api/runs/import", {"path": str(place)}).json()["runId"]
    base = f"/api/runs/{run_id}/artifact"
    assert server.get(f"{base}/real.md").text == "shown"
    for name in (*files, f"..%2f..%2f..%2f{secret.name}", "%2e%2e/%2e%2e/x", "session.json"):
        answer = server.get(f"{base}/{name}")
        assert answer.status_code in (400, 403, 404), name
        assert "the secret" not in answer.text
    before = sorted(tmp_path.parent.rglob("*.json"))
    (paths_in(tmp_path).exports).mkdir(parents=True, exist_ok=True)
    (paths_in(tmp_path).exports / "out").symlink_to(tmp_path.parent)
    for path in ("../x.json", "out/x.json", f"{tmp_path.parent}/x.json", "/etc/x.json", "a\0b"):
        answer = server.post("/api/export", {"path": path})
        assert answer.status_code in (400, 403), (path, answer.text)
    assert sorted(tmp_path.parent.rglob("*.json")) == before
    answer = server.post("/api/export", {"path": "mine.json"})
    assert answer.status_code == 200, answer.text
    assert Path(answer.json()["path"]) == paths_in(tmp_path).exports / "mine.json"


def test_what_another_tool_appends_reaches_an_agent_that_waits(server: LabServer) -> None:
    """The long poll wakes up for a line that this server did not write."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(feedback, server, wait="60")
        assert server.get("/healthz").status_code == 200  # Meanwhile the server answers others.
        line = {"id": "fb_theirs", "createdAt": "2026-02-06T00:00:00.000Z", "odd": [1]}
        Journal(paths_in(server.directory).feedback).append(line)
        assert waiting.result(timeout=55)["items"] == [line]

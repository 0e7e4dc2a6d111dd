"""`onceward lab compare` and `review` as processes: asking, waiting, the result, going on."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.lab_processes import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- comparing ----------------------------------------------------------------------------------


def test_compare_waits_for_the_decision_and_prints_it(bench: Bench) -> None:
    """Two lines: where the page is, then who won, where it lies, why, and every entry."""
    words = ["runs/a", "runs/b", "runs/c", "--name", "hooks", "--hypothesis", "b wins"]
    questions = ["--question", "Is B clearer?", "--question", "text:What is missing?"]
    with bench.lab("compare", *words, "--topic", "cats", *questions) as server:
        task = server.get("/api/config")["task"]
        assert server.announced["pageUrl"] == f"{server.url}/lab/compare/{task['experimentId']}"
        assert (
            httpx.get(server.announced["pageUrl"], trust_env=False, timeout=60).status_code == 200
        )
        experiment = server.get(f"/api/experiments/{task['experimentId']}")
        said = [experiment[name] for name in ("name", "hypothesis", "topic")]
        assert said == ["hooks", "b wins", "cats"]
        assert [each["label"] for each in experiment["variants"]] == ["b", "c"]
        assert experiment["questions"] == [
            {"id": "q1", "prompt": "Is B clearer?", "type": "yes_no_unsure"},
            {"id": "q2", "prompt": "What is missing?", "type": "text"},
        ]
        answers = {"q1": "yes", "q2": "an end"}
        submitted = server.submit(reason="clearer", answers=answers)
        assert submitted.status_code == 200
        code, (line,), err = server.end()
    result = json.loads(line)
    assert (code, err) == (0, "")
    assert result["experimentId"] == task["experimentId"]
    assert (result["outcome"], result["reason"]) == ("winner", "clearer")
    winner = result["winner"]
    assert (winner["label"], winner["path"]) == ("b", str(bench.directory / "runs" / "b"))
    assert winner["runId"] == experiment["variants"][0]["runId"]
    assert result["answers"] == answers
    assert result["feedbackIds"] == submitted.json()["feedbackIds"]
    assert result["feedback"] == bench.entries


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        ({}, "winner: b ("),
        ({"winner": "baseline"}, "winner: baseline ("),
        ({"winnerVariantId": None, "outcome": "tie"}, "outcome: tie"),
        ({"winnerVariantId": None, "outcome": "both_bad"}, "outcome: both bad"),
    ],
)
def test_people_read_the_decision(bench: Bench, decision: dict[str, Any], says: str) -> None:
    """Without --json the result is a few lines, the decision first."""
    words = ["compare", "runs/a", "runs/b", "--question", "Clear?", "--port", "0", "--no-open"]
    with bench.start("lab", *words) as server:
        page = server.line.split()[2]
        server.announced = {"url": page.partition("/lab/")[0]}
        assert server.submit(reason="why", answers={"q1": "no"}, **decision).status_code == 200
        code, lines, err = server.end()
    assert (code, err) == (0, "")
    assert lines[0].startswith(says)
    assert lines[1:3] == ["reason: why", "Clear? no"]
    assert "baseline: overall 10" in lines
    assert "b: overall 11" in lines


def test_a_submission_that_is_refused_is_not_the_end(bench: Bench) -> None:
    """The page corrects it and submits again."""
    with bench.lab("compare", "runs/a", "runs/b") as server:
        assert server.submit(winner="unknown").status_code == 400
        assert server.submit().status_code == 200
        assert server.end()[0] == 0


def test_time_runs_out(bench: Bench) -> None:
    """Exit 1, with the words that go on with the same comparison."""
    words = ["compare", "runs/a", "runs/b"]
    with bench.lab(*words, "--timeout", "0.1") as server:
        code, lines, err = server.end()
        session_id = server.announced["sessionId"]
    assert (code, lines) == (1, [])
    error = json.loads(err)["error"]
    assert "within 0.1 seconds" in error["message"]
    assert error["context"]["sessionId"] == session_id
    assert error["context"]["fix"].startswith("resume with `onceward lab compare runs/a runs/b ")
    assert error["context"]["fix"].endswith(f" --session {session_id}`")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_comparison_that_was_stopped_goes_on(bench: Bench, how: signal.Signals) -> None:
    """The same experiment in the same session; only the token of its pages is another."""
    words = ["compare", "runs/a", "runs/b", "--session", "lab_mine"]
    with bench.lab(*words) as server:
        before = server.get("/api/config")
        code, lines, err = server.stop(how)
    assert (code, lines) == (-how if how is signal.SIGKILL else 130, [])
    if how is not signal.SIGKILL:
        assert "--session lab_mine" in json.loads(err)["error"]["context"]["fix"]
    with bench.lab(*words) as server:
        after = server.get("/api/config")
        assert after.pop("token") != before.pop("token")
        assert after == before
        server.submit()
        code, (line,), _ = server.end()
    assert code == 0
    assert json.loads(line)["experimentId"] == before["task"]["experimentId"]


def test_what_was_submitted_meanwhile_is_printed_at_once(bench: Bench) -> None:
    """The command was killed between the submission and its result: no question is asked again."""
    words = ["compare", "runs/a", "runs/b", "--session", "lab_mine"]
    with bench.lab(*words) as server:
        task = server.get("/api/config")["task"]
        server.process.send_signal(signal.SIGSTOP)
        server.process.kill()
    with bench.lab("--session", "lab_mine") as server:
        assert server.get("/api/config")["task"] == task
        server.submit()
    ran = bench.run("lab", *words, "--json")
    first, second = map(json.loads, ran.stdout.splitlines())
    assert [first[name] for name in ("url", "sessionId", "pageUrl")] == [None, "lab_mine", None]
    assert first["experimentId"] == task["experimentId"]
    assert second["experimentId"] == task["experimentId"]
    assert second["winner"]["label"] == "b"
    with bench.lab(*words) as server:  # What was printed is over; this is a new question.
        assert server.get("/api/config")["task"]["experimentId"] != task["experimentId"]


def test_another_comparison_in_the_session_is_a_new_one(bench: Bench) -> None:
    """Only the same runs in the same order, unchanged, are the same comparison."""
    asked = []
    for words in (["runs/a", "runs/b"], ["runs/b", "runs/a"], ["runs/a", "runs/b", "runs/c"]):
        with bench.lab("compare", *words, "--session", "lab_mine") as server:
            asked.append(server.get("/api/config")["task"]["experimentId"])
    assert len({*asked}) == 3


def test_a_decision_through_another_server_counts(bench: Bench) -> None:
    """The files are the truth: it does not matter who took the submission."""
    with (
        bench.lab("compare", "runs/a", "runs/b") as waiting,
        bench.lab("--session", waiting.announced["sessionId"]) as other,
    ):
        assert other.submit().status_code == 200
        code, (line,), _ = waiting.end()
    assert code == 0
    assert json.loads(line)["feedback"] == bench.entries


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_although_another_process_holds_the_lock(
    bench: Bench, how: signal.Signals
) -> None:
    """Another process stands still inside its step: who waits for the answer may still leave."""
    with (
        bench.lab("compare", "runs/a", "runs/b") as server,
        (bench.root / "lock").open("a") as held,
    ):
        task = server.get("/api/config")["task"]
        fcntl.flock(held, fcntl.LOCK_EX)
        # It waits for its turn for a while, and goes without.
        assert server.get(f"/api/experiments/{task['experimentId']}")["submission"] is None
        code, lines, err = server.stop(how)
    assert (code, lines) == (130, [])
    assert "before this was stopped" in err


def put_in_the_way(lock: Path, moved: Path) -> None:
    """Put a directory where the lock is; a process that looks in between makes a new lock."""
    while True:
        lock.rename(moved)
        try:
            lock.mkdir()
        except FileExistsError:
            continue
        return


def test_a_failed_read_does_not_end_the_wait(bench: Bench) -> None:
    """The disk refuses for a moment: the command looks again, and gives the result."""
    with bench.lab("compare", "runs/a", "runs/b") as server:
        lock = bench.root / "lock"
        put_in_the_way(lock, bench.root / "moved")
        assert server.post("/api/feedback", {"notes": "x"}).status_code >= 400
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1.5)  # Looks fail meanwhile, one a second.
        lock.rmdir()
        (bench.root / "moved").rename(lock)
        assert server.submit().status_code == 200
        code, (line,), _ = server.end()
    assert code == 0
    assert json.loads(line)["feedback"] == bench.entries


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare", "runs/a"], "two runs or more"),
        (["compare", "runs/a", "runs/a"], "compared with itself"),
        (["compare", "runs/a", "runs/b", "--question", "text: "], "is empty"),
        (["compare", "runs/a", "nowhere"], "nowhere"),
        (["review", "lab"], "has no file that the Lab can show"),
        (["review", "runs/a", "--session", "../x"], "not a valid session id"),
        (["--exit-after-submit", "-1"], "exit-after-submit"),
    ],
)
def test_what_cannot_be_asked_is_refused(bench: Bench, words: list[str], says: str) -> None:
    """Bad input is exit 2, says what to do, and starts no server."""
    bench.root.mkdir()
    ran = bench.run("lab", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert "fix: " in ran.stderr


# --- reviewing ----------------------------------------------------------------------------------


def test_review_waits_for_a_judgement(bench: Bench) -> None:
    """Entries about other runs, or of other sessions, are not the answer."""
    with bench.lab("review", "runs/a") as server:
        task = server.get("/api/config")["task"]
        assert server.announced["pageUrl"] == f"{server.url}/lab/review/{task['runId']}"
        assert bench.run("feedback", "add", "--run", task["runId"], "--notes", "x").returncode == 0
        assert server.post("/api/feedback", {"notes": "in general"}).status_code == 200
        judged = {"runId": task["runId"], "ratings": {"overall": 70}, "tags": ["slow"]}
        feedback_id = server.post("/api/feedback", judged).json()["feedbackId"]
        code, (line,), _ = server.end()
    result = json.loads(line)
    assert code == 0
    assert (result["runId"], result["path"]) == (task["runId"], str(bench.directory / "runs" / "a"))
    assert result["feedbackIds"] == [feedback_id]
    assert result["feedback"] == bench.entries[-1:]


def test_a_review_that_was_stopped_goes_on(bench: Bench) -> None:
    """What was said before this review was asked for is not its answer; what came meanwhile is."""
    words = ["review", "runs/a", "--session", "lab_mine"]
    for notes in ("first", "second"):
        with bench.lab(*words) as server:
            run_id = server.get("/api/config")["task"]["runId"]
            server.process.kill()
        added = ["--run", run_id, "--session", "lab_mine", "--notes", notes]
        assert bench.run("feedback", "add", *added).returncode == 0
        ran = bench.run("lab", *words, "--json")
        result = json.loads(ran.stdout.splitlines()[1])
        assert [entry["notes"] for entry in result["feedback"]] == [notes]


def test_people_read_the_review(bench: Bench) -> None:
    """Ratings, notes and tags in a line."""
    with bench.start("lab", "review", "runs/a/script.json", "--port", "0", "--no-open") as server:
        page = server.line.split()[2]
        server.announced = {"url": page.partition("/lab/")[0]}
        judged = {"runId": page.rpartition("/")[2], "ratings": {"overall": 70, "hook": 5}}
        server.post("/api/feedback", {**judged, "notes": "fine", "tags": ["a", "b"]})
        code, lines, _ = server.end()
    assert code == 0
    assert lines[0] == "overall 70, hook 5 | fine | #a #b"


# --- the words of the original command ------------------------------------------------------------


def test_the_first_line_names_the_experiment_and_its_runs(bench: Bench) -> None:
    """An agent submits by itself, without asking the server what it is about."""
    words = ["--json", "lab", "compare", "runs/a", "runs/b", "runs/c", "--no-open", "--port", "0"]
    with bench.start(*words) as server:
        started = server.announced
        experiment = server.get(f"/api/experiments/{started['experimentId']}")
        assert started["baselineRunId"] == experiment["baselineRunId"]
        assert started["variantRunIds"] == [each["runId"] for each in experiment["variants"]]
        assert started["variantRunId"] == started["variantRunIds"][0]
        assert server.get("/api/config")["exitAfterSubmit"] == 1
        assert server.submit().status_code == 200
        assert server.end()[0] == 0
    with bench.start("lab", "review", "runs/a", "--json", "--port", "0") as server:
        runs = server.get("/api/runs")["items"]
        assert server.announced["runId"] == runs[-1]["runId"]


def test_it_stays_open_when_asked_to(bench: Bench) -> None:
    """The result is printed when it comes; the server answers until it is stopped, and exits 0."""
    words = ["compare", "runs/a", "runs/b", "--stay-open", "--require-overall", "--good-bad"]
    with bench.lab(*words) as server:
        assert server.announced["pageUrl"].endswith("?requireOverall=1&goodBadMode=1")
        assert server.get("/api/config")["exitAfterSubmit"] == 0
        assert server.submit().status_code == 200
        assert server.process.stdout is not None
        result = json.loads(server.process.stdout.readline())
        assert result["experimentId"] == server.announced["experimentId"]
        assert server.get("/api/config")["exitAfterSubmit"] == 0
        code, lines, err = server.stop()
    assert (code, lines, err) == (0, [], "")


def test_what_stays_open_and_is_stopped_without_an_answer_goes_on(bench: Bench) -> None:
    """As without it: the words that go on, and the exit code of a stop."""
    with bench.lab("review", "runs/a", "--stay-open") as server:
        code, lines, err = server.stop()
    assert (code, lines) == (130, [])
    assert "--stay-open" in json.loads(err)["error"]["context"]["fix"]

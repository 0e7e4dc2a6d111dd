"""The flows of the original Lab's page, in a browser: every request that it sends is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from onceward.journal import Journal
from tests.support.browser.lab_page_actions import expect_heading, open_comparison
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import counts_once, entries, imported, pair
from tests.support.lab_processes import Bench
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run, paths_in
from tests.support.original_lab_files import swipe
from tests.support.strict_lab_readers import EXPERIMENT, FEEDBACK, read_all

#: How the original's page talks to its server: the token from the settings, an id for each POST.
CALL = """async ([path, body, id]) => {
  const config = await (await fetch("/api/config")).json();
  const headers = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-CM-LAB-TOKEN": config.token,
    "X-CM-LAB-REQUEST-ID": id ?? crypto.randomUUID(),
  };
  const options = body === null ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(path, options);
  return [answer.status, await answer.json()];
}"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def call(page: Page, path: str, body: object = None, request_id: str | None = None) -> Any:
    """Send what the original's page sends; return the answer, which is no refusal."""
    status, answer = page.evaluate(CALL, [path, body, request_id])
    assert status == 200, answer
    return answer


def test_h61_import_and_review(page: Page, lab: LabServer) -> None:
    """A pasted path, ratings and no notes; then a form in which nothing was filled in."""
    page.goto(f"{lab.url}/lab")
    place = make_run(lab.directory, "theirs", "Tides")
    run_id = call(page, "/api/runs/import", {"path": f" {place}\n"})["runId"]
    shown = call(page, f"/api/runs/{run_id}")
    assert shown["artifacts"]["script"]
    review = {"runId": run_id, "ratings": {"overall": 70, "motion": 65}}
    first = call(page, "/api/feedback", review, "review-1")
    assert call(page, "/api/feedback", review, "review-1") == first
    call(page, "/api/feedback", {"runId": run_id, "ratings": {}})
    assert [each.get("ratings") for each in entries(lab, runId=run_id)] == [
        review["ratings"],
        None,
    ]


def test_h61_default_compare_with_swipe_answers(page: Page, lab: LabServer) -> None:
    """The page sends mode, confidence and the active variant (null) unasked; all are kept."""
    page.goto(f"{lab.url}/lab")
    runs = [imported(lab, make_run(lab.directory, f"swiped-{each}")) for each in "ab"]
    sides = {"baselineRunId": runs[0], "variants": [{"label": "B", "runId": runs[1]}]}
    new = {"name": "A/B Compare", **sides}
    made = call(page, "/api/experiments", new, "create-1")
    assert call(page, "/api/experiments", new, "create-1") == made
    path = f"/api/experiments/{made['experimentId']}"
    body = swipe(call(page, path))
    first = call(page, f"{path}/submit", body, "submit-1")
    assert call(page, f"{path}/submit", body, "submit-1") == first
    assert [each["answers"] for each in entries(lab, experimentId=made["experimentId"])] == [
        body["answers"]
    ] * 2
    # Our own page shows what was decided on theirs.
    page.goto(f"{lab.url}/lab/compare/{made['experimentId']}")
    expect(page.locator("#outcome")).to_contain_text("B")
    read_all(paths_in(lab.directory).experiments, EXPERIMENT)
    read_all(paths_in(lab.directory).feedback, FEEDBACK)


def test_h61_one_shot(page: Page, bench: Bench) -> None:
    """The config says that the server stops after one submission; it does, with the result."""
    words = ["--json", "lab", "compare", "runs/a", "runs/b", "--no-open", "--port", "0"]
    with bench.start(*words) as server:
        page.goto(server.announced["pageUrl"])
        config = call(page, "/api/config")
        assert config["task"] == {
            "type": "compare",
            "experimentId": server.announced["experimentId"],
        }
        assert config["exitAfterSubmit"] == 1
        experiment_id = server.announced["experimentId"]
        path = f"/api/experiments/{experiment_id}"
        body = swipe(call(page, path))
        submitted = call(page, f"{path}/submit", body)
        page.goto("about:blank")
        code, (line,), err = server.end()
    assert (code, err) == (0, "")
    result = json.loads(line)
    assert result["feedbackIds"] == submitted["feedbackIds"]
    assert result["winner"]["runId"] == server.announced["variantRunId"]
    assert result["answers"] == body["answers"]


# --- its modes, on our page -----------------------------------------------------------------------


def test_a_comparison_that_needs_a_winner_and_overall_ratings(page: Page, lab: LabServer) -> None:
    """As `--good-bad` and `--require-overall` open it: no tie, and each side is rated first."""
    experiment_id = pair(lab)
    open_comparison(page, lab, f"{experiment_id}?requireOverall=1&goodBadMode=1")
    expect(page.get_by_role("radio", name="A better")).to_be_visible()
    expect(page.get_by_role("radio", name="Tie")).to_have_count(0)
    expect(page.get_by_role("radio", name="Both bad")).to_have_count(0)
    page.get_by_role("radio", name="A better").check()
    for side in "AB":
        page.locator("#submit").click()
        expect(page.get_by_text(f"side {side} has no overall rating")).to_be_visible()
        page.get_by_label(f"Overall, side {side}, exact number").fill("70")
    assert entries(lab, experimentId=experiment_id) == []
    page.locator("#submit").click()
    expect_heading(page)
    counts_once(lab, experiment_id)


def test_a_review_that_needs_an_overall_rating(page: Page, lab: LabServer) -> None:
    """As `--require-overall` opens it: notes alone are not enough."""
    run_id = imported(lab, make_run(lab.directory, "rated"))
    page.goto(f"{lab.url}/lab/review/{run_id}?requireOverall=1")
    page.get_by_label("Notes").fill("fine")
    page.locator("#submit").click()
    expect(page.get_by_text("there is no overall rating")).to_be_visible()
    assert entries(lab, runId=run_id) == []
    page.get_by_label("Overall, exact number").fill("70")
    page.locator("#submit").click()
    expect_heading(page)
    assert len(entries(lab, runId=run_id)) == 1


def test_a_comparison_whose_answer_was_lost_is_set_up_once(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """The server made it and its answer did not arrive: trying again finds the same one."""
    for name in ("Lost one", "Lost two"):
        imported(lab, make_run(lab.directory, name.replace(" ", "-"), name))
    page.goto(f"{lab.url}/lab")
    for name in ("Lost one", "Lost two"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    lost: list[bool] = []

    def lose(route: Route) -> None:
        if route.request.method == "POST" and not lost:
            lost.append(True)
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/api/experiments", lose)
    watch.expect("ERR_FAILED")
    before = len(Journal(paths_in(lab.directory).experiments).read().items)
    page.locator("#compare").click()
    expect(page.get_by_text("No answer from the server")).to_be_visible()
    page.locator("#compare").click()
    expect(page.locator("#submit")).to_be_visible()
    after = Journal(paths_in(lab.directory).experiments).read().items
    assert len(after) == before + 1
    assert page.url.endswith(after[-1]["experimentId"])

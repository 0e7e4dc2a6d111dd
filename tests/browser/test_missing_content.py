"""Missing content: what is missing, broken or forbidden is shown so, and blocks no judgement."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import expect_heading, open_comparison, open_review
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import (
    comparison,
    counts_once,
    entries,
    imported,
    make_documents,
    make_video,
    reports,
)
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

UNPLAYABLE = "The video cannot be played: "


def submit_comparison(page: Page, lab: LabServer, experiment_id: str) -> None:
    page.keyboard.press("3")
    page.locator("#submit").click()
    expect_heading(page)
    counts_once(lab, experiment_id)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "No video in this run"),
        ("damaged", f"{UNPLAYABLE}this browser does not understand its format"),
        ("gone", f"{UNPLAYABLE}the run was changed after it was imported."),
    ],
)
def test_a_video_that_cannot_be_seen(
    page: Page, lab: LabServer, watch: PageMonitor, name: str, says: str
) -> None:
    """It is said at its place; the other side plays, and both can be judged."""
    watch.expect(409)
    lost, fine = (make_run(lab.directory, f"{name}-{each}") for each in ("video", "other"))
    make_video(fine, seconds=1)
    if name != "none":
        (lost / "video.mp4").write_bytes(b"no video at all")
    experiment_id = comparison(lab, lost, fine)
    if name == "gone":
        (lost / "video.mp4").unlink()
    open_comparison(page, lab, experiment_id)
    said = page.locator(".video-box .notice")
    expect(said).to_contain_text(says)
    expect(said).to_contain_text("You can rate it all the same.")
    expect(page.locator("video")).to_have_count(1)
    submit_comparison(page, lab, experiment_id)


def test_a_video_that_comes_back(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """Where a video cannot be played there is a button that tries again."""
    watch.expect(409)
    place = make_run(lab.directory, "vanishing")
    video = make_video(place, seconds=1)
    run_id = imported(lab, place)
    video.rename(place / "away")
    open_review(page, lab, run_id)
    expect(page.locator(".video-box")).to_contain_text(UNPLAYABLE)
    (place / "away").rename(video)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_label("Video, this run")).to_be_visible()


def test_broken_json_and_missing_reports(page: Page, lab: LabServer) -> None:
    """A file that is no JSON is named by side, a metric without a report says so."""
    numbers = reports(80, 50, 0.75, 0.5)
    whole = make_run(lab.directory, "whole", "cats", **numbers)
    torn = make_run(lab.directory, "torn", score={"overall": 0.25})
    (torn / "script.json").write_text("{torn")
    (torn / "sync-report.json").write_text("[1, 2")
    experiment_id = comparison(lab, whole, torn)
    open_comparison(page, lab, experiment_id)
    for name in ("script.json", "sync-report.json"):
        expect(page.locator(".notice", has_text=f"{name} is not valid JSON")).not_to_have_count(0)
    page.get_by_text("Show the automatic metrics (may bias you)").click()
    table = page.get_by_role("table", name="Automatic metrics")
    expect(table.get_by_role("row", name="Sync rating")).to_contain_text("no report")
    expect(table.get_by_role("row", name="Sync rating")).to_contain_text("80.0 (passable)")
    submit_comparison(page, lab, experiment_id)
    expect(page.locator("#deltas")).to_contain_text("Proxy score")


def test_nothing_to_subtract(page: Page, lab: LabServer) -> None:
    """Without any report in common the end says that, and shows what there is."""
    sides = make_run(lab.directory, "mute"), make_run(lab.directory, "rated", score={"overall": 1})
    experiment_id = comparison(lab, *sides)
    open_comparison(page, lab, experiment_id)
    submit_comparison(page, lab, experiment_id)
    expect(page.get_by_text("There is nothing to subtract")).to_be_visible()
    expect(page.get_by_role("table", name="Automatic metrics")).to_contain_text("100.0")


def test_declared_files_that_are_links_or_missing(page: Page, lab: LabServer) -> None:
    """A link is not followed, a missing file is named, a damaged image says so."""
    (lab.directory / "secret.txt").write_text("the key to everything")
    files: dict[str, str | bytes] = {"plan.txt": "a plan\n", "torn.png": "no image"}
    declared = [{"path": each} for each in ("plan.txt", "link.txt", "gone.txt", "torn.png")]
    places = [make_documents(lab.directory, f"doc-{each}", files, declared) for each in "ab"]
    (places[0] / "link.txt").symlink_to(lab.directory / "secret.txt")
    experiment_id = comparison(lab, *places)
    open_comparison(page, lab, experiment_id)
    for tab, says in {
        "link.txt": "This file may not be read: it is a link",
        "gone.txt": "The run names this file, but it is not there.",
        "torn.png": "The image cannot be shown",
        "plan.txt": "a plan",
    }.items():
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".pane-body").get_by_text(says).first).to_be_visible()
    assert "the key to everything" not in page.evaluate("document.documentElement.outerHTML")
    submit_comparison(page, lab, experiment_id)


def test_a_run_outside_of_the_allowed_directories(
    page: Page, tmp_path: Path, watch: PageMonitor
) -> None:
    """A server that may no longer read a run says so; the run can be compared and reviewed."""
    watch.expect(403)
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for each in (inside, outside):
        each.mkdir()
    with LabServer(inside, "--allow-root", str(outside)) as lab:
        far = make_run(outside, "far", "far away", score={"overall": 0.5})
        make_video(far, seconds=1)
        near = make_run(inside, "near", "near by", score={"overall": 0.75})
        experiment_id, run_id = comparison(lab, near, far), imported(lab, far)
        lab.kill()
        lab.arguments = ()
        lab.start()
        open_review(page, lab, run_id)
        expect(page.get_by_text("outside the directories that the Lab may read")).to_be_visible()
        page.get_by_label("Notes").fill("I remember it")
        page.locator("#submit").click()
        expect_heading(page)
        assert [each["notes"] for each in entries(lab, runId=run_id)] == ["I remember it"]
        open_comparison(page, lab, experiment_id)
        expect(page.get_by_text("or this server may not read it")).to_be_visible()
        submit_comparison(page, lab, experiment_id)
        expect(page.locator("#deltas")).to_contain_text("Proxy score")


@pytest.mark.parametrize("path", ["compare/exp_nowhere", "review/run_nowhere"])
def test_what_does_not_exist(page: Page, lab: LabServer, watch: PageMonitor, path: str) -> None:
    """An address that leads nowhere says so in words, with a way on."""
    watch.expect(404)
    page.goto(f"{lab.url}/lab/{path}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not here")
    said = page.locator(".notice")
    expect(said).to_contain_text("There is no ")
    expect(said).not_to_contain_text("Id:")
    expect(said).not_to_contain_text("GET /api")
    page.get_by_role("link", name="Go to all runs and comparisons").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Experiment Lab")


def test_a_server_that_is_away_is_reported_and_waited_for(
    page: Page, mortal: LabServer, watch: PageMonitor
) -> None:
    """A page that cannot load says why, tries again by itself, and then is there."""
    watch.expect_restart()
    experiment_id = comparison(
        mortal, make_run(mortal.directory, "one"), make_run(mortal.directory, "two")
    )
    page.goto(f"{mortal.url}/lab")
    expect(page.locator("#runs .card")).to_have_count(2)
    page.route("**/api/config", lambda route: route.abort(), times=1)
    page.goto(f"{mortal.url}/lab/compare/{experiment_id}")
    expect(page.locator("#banner")).to_contain_text("No answer from the server")
    expect(page.locator("#submit")).to_be_visible()
    expect(page.locator("#banner")).to_be_hidden()

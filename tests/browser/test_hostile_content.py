"""Hostile content: whatever a run, a person or an agent writes is text, and stays text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import expect_heading, open_comparison, open_review
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import comparison, imported, make_documents, make_video
from tests.support.lab_servers import LabServer

EVIL = """<img src=x onerror="hacked('img')"><script>hacked('script')</script>"'>"""
MARKDOWN = f"""# {EVIL}

[click](javascript:hacked('link')) [data](data:text/html,<script>hacked('data')</script>)

<script>hacked('block')</script>
<iframe srcdoc="<script>hacked('frame')</script>"></iframe>

<svg onload="hacked('svg')">
"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="hacked('onload')">
<script>hacked('inside')</script><rect width="9" height="9"/></svg>"""
PAGE = "<!doctype html><script>hacked('page')</script><p onclick=\"hacked('click')\">hello</p>"
#: What the browser says when it keeps a file from running its own code.
BLOCKED = "Blocked script execution"
FILES: dict[str, str | bytes] = {
    "notes.md": MARKDOWN,
    "draw.svg": SVG,
    "page.html": PAGE,
    "<script>hacked('name')<#?%2e>.txt": "an odd name",
}


def hostile_run(lab: LabServer, name: str) -> Path:
    declared = [
        {"path": path, "label": f"{place} {EVIL}"} for place, path in enumerate(FILES, start=1)
    ]
    place = make_documents(lab.directory, f"<b>{name}", FILES, declared, prompt=EVIL, title=EVIL)
    (place / "script.json").write_text(json.dumps({"meta": {"topic": EVIL}, EVIL: [EVIL]}))
    (place / "visuals.json").write_text(EVIL)
    (place / "sync-report.json").write_text(json.dumps({"rating": 5, "ratingLabel": EVIL}))
    make_video(place, seconds=1)
    return place


@pytest.fixture
def evil(page: Page) -> Page:
    """A page that tells when any code of ours, hidden in a text, was run."""
    page.expose_function("hacked", lambda how: page.evaluate("(how) => alert(how)", how))
    return page


def unharmed(page: Page) -> None:
    """Say that the page holds no element and no address that a text brought along."""
    scripts = page.evaluate("[...document.scripts].map((each) => new URL(each.src).pathname)")
    assert len(scripts) == 2
    assert all(re.fullmatch(r"/assets/(early|lab)-[A-Z0-9]{8}\.js", each) for each in scripts)
    assert page.locator("[onerror], [onload], [onclick], [srcdoc]").count() == 0
    assert page.locator("a[href^='javascript'], a[href^='data'], img[src='x']").count() == 0


def see_documents(page: Page) -> None:
    """Open every document in every way."""
    for number, says in enumerate(("onerror", "", "hacked('page')", "an odd name"), start=1):
        page.get_by_role("tab", name=re.compile(f"^{number} <img")).click()
        if says:
            expect(page.locator(".pane-body pre").first).to_contain_text(says)
        else:
            expect(page.locator(".pane-body img").first).to_have_js_property("naturalWidth", 9)
    page.get_by_role("tab", name=re.compile("^1 <img")).click()
    page.get_by_role("button", name="Rendered").click()
    frame = page.locator(".pane-body iframe").first
    expect(frame).to_have_attribute("sandbox", "")
    inside = frame.content_frame
    expect(inside.get_by_role("heading")).to_contain_text("onerror=")
    expect(
        inside.locator("script, iframe, svg, img, a[href^='javascript'], a[href^='data']")
    ).to_have_count(0)
    unharmed(page)


def test_hostile_text_in_a_comparison(evil: Page, lab: LabServer) -> None:
    """Names, questions, labels, prompts, documents and reasons are shown, and do nothing."""
    questions = [
        {"id": EVIL, "prompt": f"yes {EVIL}", "type": "yes_no_unsure"},
        {"id": "text", "prompt": f"text {EVIL}", "type": "text"},
    ]
    sides = [hostile_run(lab, each) for each in ("one", "two")]
    experiment_id = comparison(lab, *sides, name=EVIL, hypothesis=EVIL, questions=questions)
    open_comparison(evil, lab, experiment_id)
    expect(evil.get_by_role("heading", level=1)).to_have_text(EVIL)
    expect(evil.get_by_text("visuals.json is not valid JSON").first).to_be_visible()
    see_documents(evil)
    evil.get_by_text("Show the automatic metrics (may bias you)").click()
    expect(evil.get_by_role("table", name="Automatic metrics")).to_contain_text("5.0 (<img")
    evil.get_by_text("Show the hypothesis (may bias you)").click()
    evil.get_by_role("radio", name="Yes").check()
    evil.locator("#reason").fill(EVIL)
    evil.get_by_role("radio", name="A better").check()
    evil.reload()
    expect(evil.locator("#reason")).to_have_value(EVIL)
    evil.locator("#submit").click()
    expect_heading(evil)
    expect(evil.locator("blockquote")).to_have_text(EVIL)
    expect(evil.locator("#who")).to_contain_text(EVIL)
    unharmed(evil)
    for path, place in {"/lab": "#runs .card", "/lab/results": "table"}.items():
        evil.goto(f"{lab.url}{path}")
        expect(evil.locator(place).first).to_be_visible()
        unharmed(evil)
    expect(evil.get_by_role("heading", level=2, name=EVIL)).to_be_visible()


def test_hostile_text_in_a_review(evil: Page, lab: LabServer) -> None:
    """The same for one run, its notes and its tags."""
    run_id = imported(lab, hostile_run(lab, "alone"))
    open_review(evil, lab, run_id)
    expect(evil.get_by_role("heading", level=1)).to_have_text(EVIL)
    see_documents(evil)
    evil.get_by_label("Notes").fill(EVIL)
    evil.get_by_label("Tags").fill("<script>hacked(1)</script>, <b>")
    evil.locator("#submit").click()
    expect_heading(evil)
    expect(evil.locator("blockquote")).to_have_text(EVIL)
    expect(evil.get_by_text("Tags: <script>hacked(1)</script>, <b>")).to_be_visible()
    unharmed(evil)


@pytest.mark.parametrize("file", ["draw.svg", "page.html", "notes.md", "notes.md?rendered=true"])
def test_a_hostile_file_opened_by_itself(
    page: Page, lab: LabServer, watch: PageMonitor, file: str
) -> None:
    """A file that is opened in a tab of its own runs nothing, and has no origin to act for."""
    watch.expect(BLOCKED, "net::ERR_BLOCKED_BY_RESPONSE.NotSameOrigin")  # Its own icon, too.
    place = make_documents(lab.directory, "bare", FILES)
    run_id = imported(lab, place)
    answer = page.goto(f"{lab.url}/api/runs/{run_id}/artifact/{file}")
    assert answer is not None
    assert answer.status == 200
    assert page.evaluate("self.origin") == "null"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_picture_from_elsewhere_is_not_fetched(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """Markdown that wants to phone home with a picture is rendered without it."""
    watch.expect("violates the following Content Security Policy", BLOCKED)
    text = "# Hello\n\n![spy](http://evil.test:9/spy.png)\n"
    run_id = imported(lab, make_documents(lab.directory, "spy", {"spy.md": text}))
    open_review(page, lab, run_id)
    page.get_by_role("button", name="Rendered").click()
    rendered = page.locator("iframe").content_frame
    expect(rendered.get_by_role("heading", name="Hello")).to_be_visible()
    expect(rendered.get_by_role("img", name="spy")).to_have_js_property("naturalWidth", 0)

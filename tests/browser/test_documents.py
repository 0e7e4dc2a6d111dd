"""Documents: texts, Markdown and images beside each other, and the review of one run."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import (
    expect_heading,
    open_comparison,
    open_review,
    until,
)
from tests.support.lab_material import (
    PIXEL,
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

PLAN = "# Plan\n\n" + "".join(f"- step {each}\n" for each in range(80))
PROMPT = "Write a plan of eighty steps.\nKeep it short."


def plans(lab: LabServer, **manifest: object) -> list[Path]:
    sides = {"long": PLAN, "short": PLAN.replace("step 7\n", "step seven\n") + "The end.\n"}
    return [
        make_documents(
            lab.directory,
            name,
            {"plan.md": text, "chart.png": PIXEL, "code/main.py": f"print('{name}')\n"},
            None,
            **manifest,
        )
        for name, text in sides.items()
    ]


def test_documents_beside_each_other(page: Page, lab: LabServer) -> None:
    """Plain they scroll together, as a diff they show what differs, rendered they are boxed in."""
    experiment_id = comparison(lab, *plans(lab, title="Plans"))
    open_comparison(page, lab, experiment_id)
    panes = page.locator(".pane-body pre")
    expect(panes.first).to_contain_text("# Plan")
    panes.first.evaluate("(pane) => (pane.scrollTop = pane.scrollHeight)")
    until(page, "document.querySelectorAll('.pane-body pre')[1].scrollTop > 100")

    page.get_by_role("button", name="Diff").press("Enter")
    expect(page.get_by_text("lines differ.")).to_be_visible()
    expect(page.locator(".diff mark")).to_have_count(2)
    expect(page.locator(".diff .added, .diff .removed").get_by_text("The end.")).to_be_visible()
    expect(page.get_by_text("step 40", exact=True)).to_have_count(0)
    page.get_by_role("button", name="equal lines").last.click()
    expect(page.locator(".diff").get_by_text("step 40").first).to_be_visible()

    page.get_by_role("button", name="Rendered").click()
    frame = page.locator("iframe[title='Rendered, A: plan.md']")
    expect(frame).to_have_attribute("sandbox", "")
    rendered = page.frame_locator("iframe[title='Rendered, A: plan.md']")
    expect(rendered.get_by_role("heading", name="Plan")).to_be_visible()

    page.get_by_role("tab", name="plan.md").press("ArrowRight")
    expect(page.get_by_role("tab", name="chart.png")).to_be_focused()
    image = page.get_by_role("img", name="Image, A: chart.png")
    expect(image).to_have_js_property("naturalWidth", 1)
    page.keyboard.press("ArrowRight")
    expect(panes.first).to_contain_text("print(")
    page.keyboard.press("2")
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect_heading(page)
    counts_once(lab, experiment_id)


def test_what_was_asked_for_stands_on_top(page: Page, lab: LabServer) -> None:
    """A prompt that all sides share is read before what came of it."""
    places = plans(lab, prompt=PROMPT)
    open_comparison(page, lab, comparison(lab, *places))
    prompt = page.get_by_role("region", name="What was asked for")
    expect(prompt.locator("pre")).to_have_text(PROMPT)
    above, below = prompt.bounding_box(), page.locator(".documents").bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]
    open_review(page, lab, imported(lab, places[0]))
    expect(page.get_by_role("region", name="What was asked for")).to_be_visible()


def test_prompts_that_differ_are_out_of_sight(page: Page, lab: LabServer) -> None:
    """What each side was asked for may tell which is which, so it is shown when asked for."""
    files: dict[str, str | bytes] = {"plan.md": PLAN}
    places = [
        make_documents(lab.directory, f"asked-{each}", files, prompt=f"Ask {each}")
        for each in ("kindly", "loudly")
    ]
    open_comparison(page, lab, comparison(lab, *places))
    assert "kindly" not in page.evaluate("document.documentElement.outerHTML")
    page.get_by_text("Show what each side was asked for (may bias you)").click()
    expect(page.get_by_text("Ask kindly")).to_be_visible()


def test_a_review_from_end_to_end(page: Page, lab: LabServer) -> None:
    """One run is watched, rated with sliders and numbers, noted, tagged, and submitted once."""
    place = make_run(lab.directory, "solo", "Ships", **reports(80, 50, 0.75, 0.5))
    make_video(place, seconds=2)
    run_id = imported(lab, place)
    open_review(page, lab, run_id)
    expect(page.get_by_role("heading", level=1)).to_have_text("Ships")
    page.keyboard.press("Enter")
    expect(page.locator(".field-error")).to_contain_text("there is nothing in it")
    page.get_by_role("slider", name="Overall").press("ArrowRight")
    page.get_by_label("Hook, exact number").fill("12")
    page.get_by_label("Sync, exact number").fill("99")
    page.get_by_role("button", name="Unset sync").click()
    expect(page.get_by_role("slider", name="Sync")).to_be_focused()
    page.get_by_label("Notes").fill("clear,\nand short")
    page.get_by_label("Tags").fill("calm, quick, calm,")
    page.locator("#submit").dblclick()
    expect_heading(page)
    expect(page.get_by_text("Tags: calm, quick")).to_be_visible()
    (entry,) = entries(lab, runId=run_id)
    assert entry["ratings"] == {"overall": 51, "hook": 12}
    assert (entry["notes"], entry["tags"]) == ("clear,\nand short", ["calm", "quick"])
    page.get_by_role("link", name="All runs").click()
    expect(page.locator(".card", has_text="Ships")).to_contain_text("last overall 51")


def test_a_rating_that_is_no_whole_number(page: Page, lab: LabServer) -> None:
    """A number that cannot be sent is refused at its field, by the page or by the server."""
    open_review(page, lab, imported(lab, make_run(lab.directory, "halves")))
    field = page.get_by_label("Overall, exact number")
    field.fill("49")
    expect(page.get_by_role("slider", name="Overall")).to_have_value("49")
    page.get_by_role("slider", name="Overall").press("End")
    expect(field).to_have_value("100")

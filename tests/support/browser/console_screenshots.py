"""Console screenshots: pictures of every screen over the seeded story, for `docs/screens/`.

`make screens` runs it. Each is seen from a desk and from a hand, as WebP, small enough to be kept.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from onceward.dispatch.groups import Groups
from tests.support import console_history, console_story
from tests.support.console_servers import APP, Console
from tests.support.console_story import ROOT, Home, fill

TARGET: Final = ROOT / "docs" / "screens"
SIZES: Final = {"1280": (1280, 860), "390": (390, 844)}
BYTES_MAX: Final = 60_000
#: From clear to small; the first that fits is taken.
QUALITIES: Final = (82, 70, 55, 40, 25)
#: Every screen: its file, its address, and the words that tell that it is there.
SCREENS: Final = {
    "overview": ("/", "Key figures"),
    "cursors": ("/cursors", "lead_intake"),
    "cursor": ("/cursors/reports%20v2", "History"),
    "seek": ("/cursors/lead_intake", "Failures"),
    "workers": ("/workers?minutes=60", "Processes"),
    "runs": ("/runs", "workspace"),
    "run": ("{run}", "Timeline"),
    "outcomes": ("/outcomes", "order-silent"),
    "outcome": ("/outcomes/detail?scope=billing.charge&key=order-silent", "order-silent"),
    "keys": ("/keys", "Key"),
    "memory": ("/memory?name=File%23src%2Fbilling.py", "charges a card once per order"),
    "experiments": ("/experiments", "Lab"),
    "judging": ("/experiments?tab=compare", "Endings"),
    "conversations": ("/conversations?group=team", "team"),
    "dead": ("/dead", "InvalidAddress"),
    "letter": ("/dead/1", "InvalidAddress"),
    "alerts": ("/alerts", "Alerts"),
    "audit": ("/audit", "cursor.pause"),
}


def seek(page: Page) -> None:
    """Let a move be thought through."""
    page.get_by_role("button", name="Seek…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Position").fill("100")
    dialog.get_by_label("Reason").fill("bad deploy")
    expect(dialog.get_by_role("button", name="Move to 100")).to_be_visible()


#: What is done on a screen before its picture is taken.
BEFORE: Final[dict[str, Callable[[Page], None]]] = {
    "seek": seek,
    "conversations": lambda page: expect(
        page.get_by_role("log").get_by_text("what is our uptime?").first
    ).to_be_visible(),
}


def main() -> None:
    """Take all screenshots again."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("error: there is no Chromium here\nfix: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        home = _calm_home(Path(place) / "home")
        browser = playwright.chromium.launch(executable_path=chromium)
        with Console(home.path, "--app", APP, "--allow-root", str(home.path)) as console:
            _do_something(console)
            for name, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    timezone_id="Europe/Vienna",
                    locale="en-GB",
                    reduced_motion="reduce",
                    color_scheme="light",
                )
                for screen in SCREENS:
                    _take(context, console, screen, TARGET / f"{screen}-{name}.webp")
        browser.close()


def _calm_home(path: Path) -> Home:
    """Tell the story without the words that are there to break a page."""
    calm = "Zoë, 2nd floor"
    console_history.HOSTILE = calm
    console_story.HOSTILE = calm  # type: ignore[attr-defined]  # as it was imported
    console_story.SAID = ("hello", "what is our uptime?", "thank you")
    home = fill(path)
    with closing(home.open()) as ow:
        for name in ("team", "broken", "paused"):
            Groups(ow.store).set(name, command=("python", "answer.py"))
    return home


def _do_something(console: Console) -> None:
    """Leave something in the audit."""
    for each, verb in enumerate(("pause", "resume")):
        body = {"name": "lead_intake", "reason": "the vendor asked", "seen": None}
        assert console.post(f"/api/cursors/{verb}", body, key=f"picture-{each}").is_success


def _take(context: BrowserContext, console: Console, screen: str, target: Path) -> None:
    path, words = SCREENS[screen]
    page = context.new_page()
    page.goto(console.url + path.format(run=_run(console)))
    expect(page.get_by_role("main").get_by_text(words).first).to_be_attached()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    if screen in BEFORE:
        BEFORE[screen](page)
    picture = _small(context, page)
    target.write_bytes(picture)
    sys.stdout.write(f"{target.relative_to(ROOT)} {len(picture) / 1000:.1f} kB\n")
    page.close()


def _run(console: Console) -> str:
    (run,) = console.get("/api/orchestrator/runs")["items"]
    return f"/runs/{run['workspace']['id']}/{run['run_id']}"


def _small(context: BrowserContext, page: Page) -> bytes:
    """Return what is seen as WebP, as clear as its size allows."""
    session = context.new_cdp_session(page)
    for quality in QUALITIES:
        asked = {"format": "webp", "quality": quality}
        picture = base64.b64decode(session.send("Page.captureScreenshot", asked)["data"])
        if len(picture) <= BYTES_MAX:
            return picture
    message = f"{page.url} does not fit into {BYTES_MAX} bytes"
    raise AssertionError(message)


if __name__ == "__main__":
    main()

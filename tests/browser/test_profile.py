"""The profile: tests share it, and find nothing of one another in it."""

from __future__ import annotations

from playwright.sync_api import BrowserContext

from tests.support.browser.profile import Profile
from tests.support.lab_servers import LabServer

KEEP = """async () => {
  localStorage.setItem("kept", "1");
  document.cookie = "kept=1";
  addEventListener("pagehide", () => localStorage.setItem("last", "1"));
  await new Promise((done, failed) => {
    const asked = indexedDB.open("kept", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("store");
    asked.onsuccess = () => { asked.result.close(); done(); };
    asked.onerror = failed;
  });
  await caches.open("kept");
}"""
LOOK = """async () => [
  ...Object.keys(localStorage),
  ...(await indexedDB.databases()).map((each) => each.name),
  ...(await caches.keys()),
  document.cookie,
].filter((each) => each !== "")"""


def test_what_pages_kept_is_gone_afterwards(
    profile: Profile, context: BrowserContext, lab: LabServer
) -> None:
    """Storage, databases, caches and cookies; also what a page writes as it is closed."""
    for _ in range(2):
        page = context.new_page()
        page.goto(f"{lab.url}/lab")
        assert page.evaluate(LOOK) == []
        page.evaluate(KEEP)
        assert page.evaluate(LOOK) == ["kept", "kept", "kept", "kept=1"]
        profile.forget()
        assert len(context.pages) == 1

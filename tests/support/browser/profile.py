"""Profile: one browser profile for many tests, emptied between them."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import BrowserContext, Request

from tests.support.browser.page_monitor import origin

#: A page that is always open: the process of all pages of ours ends with the last of them.
STAY: Final = "http://127.0.0.1/"


class Profile:
    """A profile, and which sites have been in it since it was last emptied."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self._origins: set[str] = set()
        self._keeper = context.new_page()
        self._keeper.route("**", lambda route: route.fulfill(body="", content_type="text/html"))
        self._keeper.goto(STAY)
        self._session = context.new_cdp_session(self._keeper)
        context.on("request", self._hear)

    def forget(self) -> None:
        """Close every page, and forget what they kept: a page may write while it is closed."""
        for page in self.context.pages:
            if page is not self._keeper:
                page.close()
        self.context.clear_cookies()
        for each in self._origins:
            what = {"origin": each, "storageTypes": "all"}
            self._session.send("Storage.clearDataForOrigin", what)
        self._origins.clear()

    def _hear(self, request: Request) -> None:
        if request.is_navigation_request():
            self._origins |= {origin(request)} - {""}

"""Page monitor: collects errors, dialogs and foreign requests of a page while a test runs."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request

#: How the browser itself reports an answer that is no success.
LOADING = "Failed to load resource: "
#: A page asked whether it may really be left.
LEAVING = "asked before leaving"
#: Names every violation of the page's policy, also those that the console keeps to itself.
LISTEN = """
document.addEventListener("securitypolicyviolation",
  (event) => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
"""


class PageMonitor:
    """Errors, dialogs and foreign requests of a page; none is fine unless it was announced."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._origins: list[str] = []
        self._expected: list[str] = []

    def over(self, page: Page) -> None:
        page.add_init_script(LISTEN)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("console", self._hear)
        page.on("dialog", self._answer)
        page.on("request", lambda request: self._origins.append(origin(request)))
        page.on("requestfailed", self._forget_refused)

    def expect(self, *what: int | str) -> None:
        """Announce answers by their status, and other complaints by a part of their text."""
        for each in what:
            message = f"{LOADING}the server responded with a status of {each} "
            self._expected.append(message if isinstance(each, int) else each)

    def expect_restart(self) -> None:
        """Announce that the server will be gone for a while; its successor gives a new token."""
        self._expected.append(f"{LOADING}net::ERR_")
        self.expect(401)

    def check(self) -> None:
        unexpected = [
            each for each in self.seen if not any(part in each for part in self._expected)
        ]
        assert not unexpected, unexpected
        assert len({*self._origins} - {""}) <= 1, self._origins

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.seen.append(f"console: {message.text}")

    def _answer(self, dialog: Dialog) -> None:
        """Leave a page that asks; everything else is dismissed."""
        if dialog.type == "beforeunload":
            self.seen.append(LEAVING)
            dialog.accept()
            return
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _forget_refused(self, request: Request) -> None:
        """What the page's own policy stops has not left the browser."""
        if request.failure == "csp":
            self._origins.remove(origin(request))


def origin(request: Request) -> str:
    """Return where a request goes; nothing for what the page itself holds."""
    address = urlsplit(request.url)
    is_inside = address.scheme in ("data", "blob", "about")
    return "" if is_inside else f"{address.scheme}://{address.netloc}"

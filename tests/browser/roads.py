"""Roads: requests of a page that arrive, get lost, or lose their answer, one after another."""

from __future__ import annotations

from playwright.sync_api import Page, Route

SUBMIT = "**/submit"
FEEDBACK = "**/api/feedback"


class Road:
    """What happens to the attempts of a page, in this order, the last to all until it is open.

    "arrives" loses the answer, "lost" the request; a status is answered without the server.
    """

    def __init__(self, page: Page, address: str, *fates: str | int, field: str = "") -> None:
        self.fates, self.field = list(fates), field
        self.ids: list[str] = []
        page.route(address, self._carry)

    def open(self, *fates: str | int) -> None:
        """Let everything through from now on, unless something else shall happen."""
        self.fates = list(fates) or ["through"]

    def _carry(self, route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        self.ids.append(route.request.headers["x-cm-lab-request-id"])
        fate = self.fates.pop(0) if len(self.fates) > 1 else self.fates[0]
        if isinstance(fate, int):
            told = {"code": "NONE", "message": "no such thing", "context": {"field": self.field}}
            route.fulfill(status=fate, json={"error": told})
        elif fate == "through":
            route.continue_()
        else:
            if fate == "arrives":
                assert route.fetch().ok
            route.abort()

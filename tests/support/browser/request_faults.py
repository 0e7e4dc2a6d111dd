"""Request faults: let requests of a page pass, or lose the request or its response, in order."""

from __future__ import annotations

from playwright.sync_api import Page, Route

SUBMIT = "**/submit"
FEEDBACK = "**/api/feedback"


class RequestFaults:
    """The outcomes of the attempts of a page, in this order; the last one repeats until `open`.

    "arrives" loses the response, "lost" the request; a status is returned without the server.
    """

    def __init__(self, page: Page, address: str, *outcomes: str | int, field: str = "") -> None:
        self.outcomes, self.field = list(outcomes), field
        self.ids: list[str] = []
        page.route(address, self._route)

    def open(self, *outcomes: str | int) -> None:
        """Let all requests pass from now on, or set new outcomes."""
        self.outcomes = list(outcomes) or ["through"]

    def _route(self, route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        self.ids.append(route.request.headers["x-cm-lab-request-id"])
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, int):
            error = {"code": "NONE", "message": "no such thing", "context": {"field": self.field}}
            route.fulfill(status=outcome, json={"error": error})
        elif outcome == "through":
            route.continue_()
        else:
            if outcome == "arrives":
                assert route.fetch().ok
            route.abort()

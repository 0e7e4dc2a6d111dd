"""Login: the page that asks a browser for the token, and takes it from the link that was printed.

The token stands in the link's fragment, which browsers send to no server: neither a log nor a
Referer ever has it.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

from starlette.responses import Response

#: Answers with the client's token, and sets the cookie that lets the browser read.
LOGIN_PATH: Final = "/api/console/login"


def login_link(url: str, page: str, token: str) -> str:
    """Return the address that logs a browser in and then shows the page."""
    return f"{url}{page or '/'}#token={token}"


def login_page() -> Response:
    """Return the page; it shows nothing of what this server holds."""
    headers = {"content-security-policy": _POLICY, "www-authenticate": "Bearer"}
    return Response(_PAGE, 401, headers, media_type="text/html")


def _source(name: str) -> str:
    return (resources.files(__package__) / "pages" / name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Everything stands inside the page, because any other address would ask for the token again.
_SCRIPT: Final = _source("login.js")
_STYLE: Final = _source("login.css")
_PAGE: Final = _source("login.html").replace("{{ style }}", _STYLE).replace("{{ script }}", _SCRIPT)
_POLICY: Final = (
    f"default-src 'none'; script-src '{_digest(_SCRIPT)}'; style-src '{_digest(_STYLE)}'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'self'; form-action 'none'"
)

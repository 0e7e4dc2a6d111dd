"""Login page: asks a browser for the token, or takes it from the link that a server printed.

The token is in the link's fragment, which browsers never send: it reaches neither a log nor a
Referer.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

from starlette.responses import Response

#: Returns the page token, and sets the cookie that lets the browser read.
LOGIN_PATH: Final = "/api/console/login"


def login_link(url: str, page: str, token: str) -> str:
    """Return the address that logs a browser in and then opens the page."""
    return f"{url}{page or '/'}#token={token}"


def login_page() -> Response:
    """Return the login page as a 401 response; it contains no data of this server."""
    headers = {"content-security-policy": _POLICY, "www-authenticate": "Bearer"}
    return Response(_PAGE, 401, headers, media_type="text/html")


def _source(name: str) -> str:
    return (resources.files(__package__) / "pages" / "login" / name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# Script and style are inline, because any other address would need the token.
_SCRIPT: Final = _source("login.js")
_STYLE: Final = _source("login.css")
_PAGE: Final = _source("login.html").replace("{{ style }}", _STYLE).replace("{{ script }}", _SCRIPT)
_POLICY: Final = (
    f"default-src 'none'; script-src '{_digest(_SCRIPT)}'; style-src '{_digest(_STYLE)}'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)

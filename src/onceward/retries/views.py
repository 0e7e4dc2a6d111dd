"""Dead letter JSON: the fields that one dead letter has on the command line and over HTTP."""

from __future__ import annotations

import base64
from dataclasses import asdict
from datetime import datetime
from typing import Any

from onceward.retries.models import DeadLetter
from onceward.system import timestamp


def plain(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as JSON has it: times as text, bytes in base64."""
    found: dict[str, Any] = {}
    for name, value in asdict(letter).items():
        if isinstance(value, datetime):
            found[name] = timestamp(value)
        elif isinstance(value, bytes):
            found["raw_base64"] = base64.b64encode(value).decode()
        elif name == "failures":
            found[name] = [{**each, "at": timestamp(each["at"])} for each in value]
        else:
            found[name] = value
    return found

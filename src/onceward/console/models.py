"""Models: what the console's own addresses answer, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel, frozen=True):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str

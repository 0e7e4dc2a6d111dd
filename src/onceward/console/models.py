"""Console models: the response bodies of the server's own routes, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel, frozen=True):
    """The server responds."""

    status: Literal["ok"] = "ok"
    version: str

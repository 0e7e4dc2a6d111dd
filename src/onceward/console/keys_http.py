"""Keys over HTTP: show the canonical form and key of a pasted body, and compare two bodies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.key_inspection import InspectionResult, inspect_command, inspect_json
from onceward.console.responses import answers, json_answer
from onceward.keys import loads


class CommandFields(BaseModel):
    """The work content of a command; JSON may come as pasted text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: str
    task_id: str
    snapshot_id: str
    inputs: dict[str, Any] | None = None
    inputs_text: str | None = None
    expected_outputs: list[Any] | None = None
    expected_outputs_text: str | None = None


class CommandKeyRequest(CommandFields):
    """Request for the key of a command, and for its difference to another command."""

    kind: Literal["command"]
    other: CommandFields | None = None


class CanonicalFormRequest(BaseModel):
    """Request for the canonical form of a value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["json"]
    value: Any = None
    value_text: str | None = None


Question = Annotated[CommandKeyRequest | CanonicalFormRequest, Field(discriminator="kind"), Body()]


async def _raw(request: Request) -> bytes:
    return await request.body()


def keys_router() -> APIRouter:
    """Return the route of the key inspector."""
    router = APIRouter()

    @router.post("/api/console/keys/inspect", responses=answers(InspectionResult, 415))
    def inspect(question: Question, raw: Annotated[bytes, Depends(_raw)]) -> Response:
        """Return the canonical form and the key of the sent body; changes nothing."""
        # Parsed again by the rules of keys: duplicate names are rejected, big numbers become
        # floats.
        fields = loads(raw)
        assert isinstance(fields, dict), fields
        is_command = isinstance(question, CommandKeyRequest)
        return json_answer(inspect_command(fields) if is_command else inspect_json(fields))

    return router

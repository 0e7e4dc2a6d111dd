"""Keys over HTTP: show the canonical form and key of a pasted body, and compare two bodies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.key_inspection import inspect_command, inspect_json
from onceward.console.responses import answers, json_answer, moment
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


class LintFinding(BaseModel, frozen=True):
    """A lint finding: a value that a retry may send differently."""

    path: str
    why: str


class Difference(BaseModel, frozen=True):
    """One place in which two commands differ."""

    part: str
    path: str
    a: str | None
    b: str | None


class KeyComparison(BaseModel, frozen=True):
    """The comparison of two commands."""

    same: bool
    differences: tuple[Difference, ...]
    is_cut: bool


class InspectionResult(BaseModel, frozen=True):
    """The result; `key` for commands, `sha256` for values."""

    kind: Literal["command", "json"]
    key: str | None
    #: The canonical parts as text, by name.
    canonical: dict[str, str]
    sha256: str | None
    lint: tuple[LintFinding, ...]
    other_key: str | None
    explain: KeyComparison | None
    as_of: str


Question = Annotated[CommandKeyRequest | CanonicalFormRequest, Field(discriminator="kind"), Body()]


async def _raw(request: Request) -> bytes:
    return await request.body()


def keys_router() -> APIRouter:
    """Return the route of the key inspector."""
    router = APIRouter()

    @router.post(
        "/api/console/keys/inspect", response_model=InspectionResult, responses=answers(415)
    )
    def inspect(question: Question, raw: Annotated[bytes, Depends(_raw)]) -> Response:
        """Return the canonical form and the key of the sent body; changes nothing."""
        # Parsed again by the rules of keys: duplicate names are rejected, big numbers become
        # floats.
        fields = loads(raw)
        assert isinstance(fields, dict), fields
        is_command = isinstance(question, CommandKeyRequest)
        found = inspect_command(fields) if is_command else inspect_json(fields)
        return json_answer({**found, "as_of": moment()})

    return router

"""Keys over HTTP: paste a body, see its canonical form, its key, and why another one differs."""

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


class CommandQuestion(CommandFields):
    """Asks for the key of a command, and why another one has a different key."""

    kind: Literal["command"]
    other: CommandFields | None = None


class JsonQuestion(BaseModel):
    """Asks for the canonical form of a value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["json"]
    value: Any = None
    value_text: str | None = None


class FindingAnswer(BaseModel, frozen=True):
    """Something that a retry would send differently."""

    path: str
    why: str


class Difference(BaseModel, frozen=True):
    """One place in which two commands differ."""

    part: str
    path: str
    a: str | None
    b: str | None


class Explained(BaseModel, frozen=True):
    """Why two commands are the same work, or are not."""

    same: bool
    differences: tuple[Difference, ...]
    is_cut: bool


class Inspected(BaseModel, frozen=True):
    """What was found; `key` for commands, `sha256` for values."""

    kind: Literal["command", "json"]
    key: str | None
    #: As text, by the name of the part.
    canonical: dict[str, str]
    sha256: str | None
    lint: tuple[FindingAnswer, ...]
    other_key: str | None
    explain: Explained | None
    as_of: str


Question = Annotated[CommandQuestion | JsonQuestion, Field(discriminator="kind"), Body()]


async def _raw(request: Request) -> bytes:
    return await request.body()


def keys_router() -> APIRouter:
    """Return the route of the key inspector."""
    router = APIRouter()

    @router.post("/api/console/keys/inspect", response_model=Inspected, responses=answers(415))
    def inspect(question: Question, raw: Annotated[bytes, Depends(_raw)]) -> Response:
        """Show the canonical form and the key of what was sent; changes nothing."""
        # Read again, by the rules of keys: doubled names are refused, big numbers become floats.
        fields = loads(raw)
        assert isinstance(fields, dict), fields
        is_command = isinstance(question, CommandQuestion)
        found = inspect_command(fields) if is_command else inspect_json(fields)
        return json_answer({**found, "as_of": moment()})

    return router

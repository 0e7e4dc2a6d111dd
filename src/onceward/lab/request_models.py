"""Request models: the bodies of requests to the Lab, with limits. Reads no file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from onceward.errors import InvalidArgument
from onceward.keys.encoding import is_encodable

#: The variant id of the baseline, which every experiment has.
BASELINE: Final = "baseline"
NOTES_CHARACTERS_MAX: Final = 20_000
TAGS_MAX: Final = 50
VARIANTS_MAX: Final = 8
QUESTIONS_MAX: Final = 50
ANSWERS_MAX: Final = 100
#: Reserved prefix of names in `answers`, for the outcome of an experiment and its reason.
RESERVED_PREFIX: Final = "onceward."
REQUEST_ID_CHARACTERS_MAX: Final = 200
_REQUEST_ID: Final = re.compile(r"[\x20-\x7e]{1,200}")
#: A rating sent as text; an empty form field means no rating.
_RATING: Final = r"\s*(?:0*(?:100(?:\.0*)?|[0-9]{1,2}(?:\.[0-9]*)?))?\s*"

Model = TypeVar("Model", bound=BaseModel)
Item = TypeVar("Item")


def _well_formed(text: str) -> str:
    """Reject an unpaired surrogate: neither files nor responses can encode it."""
    if not is_encodable(text):
        message = "holds an unpaired surrogate"
        raise ValueError(message)
    return text


_Text = Annotated[str, AfterValidator(_well_formed)]
Line = Annotated[_Text, StringConstraints(min_length=1, max_length=500)]
Notes = Annotated[_Text, StringConstraints(max_length=NOTES_CHARACTERS_MAX)]
Tag = Annotated[_Text, StringConstraints(min_length=1, max_length=100)]
Id = Annotated[_Text, StringConstraints(min_length=1, max_length=200)]


def _whole_rating(value: object) -> int | None:
    """Return a rating as an integer; forms send text, and sliders fractions."""
    if isinstance(value, str) and re.fullmatch(_RATING, value):
        value = float(value) if value.strip() else None
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 100:  # type: ignore[operator]  # a number, as just seen
        message = "must be a number from 0 to 100"
        raise ValueError(message)
    return math.floor(value + 0.5)  # type: ignore[operator]  # as above


#: A percentage: 0 is the worst, 100 the best. Fractions are rounded.
Rating = Annotated[
    int | None,
    BeforeValidator(
        _whole_rating,
        json_schema_input_type=Annotated[float, Field(ge=0, le=100)]
        | Annotated[str, StringConstraints(pattern=f"^{_RATING}$")]
        | None,
    ),
]
RequestId = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]{1,200}$")]


def _describe_answer_error(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """Replace the errors of all union members by one sentence."""
    try:
        return handler(value)
    except ValidationError:
        message = (
            f"must be text of at most {NOTES_CHARACTERS_MAX} characters, a number, yes/no or null"
        )
        raise ValueError(message) from None


AnswerValue = Annotated[
    Notes
    | Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | None,
    WrapValidator(_describe_answer_error),
    Field(description="The answer: text, a boolean, a number, or null."),
]
Answers = Annotated[dict[Id, AnswerValue], Field(max_length=ANSWERS_MAX)]
Tags = Annotated[tuple[Tag, ...], Field(max_length=TAGS_MAX)]
Outcome = Literal["winner", "tie", "both_bad"]


class _LabRequestBody(BaseModel):
    """Base of request bodies; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class Ratings(_LabRequestBody):
    """Ratings from 0 to 100, by aspect."""

    overall: Rating = None
    hook: Rating = None
    pacing: Rating = None
    script: Rating = None
    visuals: Rating = None
    motion: Rating = None
    captions: Rating = None
    sync: Rating = None

    def to_record(self) -> dict[str, int]:
        """Return the aspects that were rated."""
        return self.model_dump(exclude_none=True)


class Judgement(_LabRequestBody):
    """Ratings, notes and tags that a person gives to one run."""

    ratings: Ratings | None = None
    notes: Notes | None = None
    tags: Tags | None = None

    def is_empty(self) -> bool:
        """Return whether it has no ratings, notes or tags."""
        rated = self.ratings is not None and self.ratings.to_record()
        tagged = any(each.strip() for each in self.tags or ())
        return not (rated or (self.notes and self.notes.strip()) or tagged)


class NewFeedback(Judgement):
    """One judgement, of a run or in general."""

    requestId: RequestId | None = None  # noqa: N815 - the name on the wire
    runId: Id | None = None  # noqa: N815
    experimentId: Id | None = None  # noqa: N815
    variantId: Id | None = None  # noqa: N815
    topic: Line | None = None
    answers: Answers | None = None

    @model_validator(mode="after")
    def _check_not_empty(self) -> NewFeedback:
        given = (self.answers or {}).values()
        answered = any(each is not None and str(each).strip() for each in given)
        # The original's review page submits a form in which nothing was filled in.
        is_form = self.runId is not None and self.ratings is not None
        if self.is_empty() and not answered and not is_form:
            message = "the feedback is empty; send ratings, notes, tags or answers"
            raise ValueError(message)
        return self


class NewVariant(_LabRequestBody):
    """A run that is compared with the baseline."""

    label: Line | None = None
    runId: Id  # noqa: N815


class ExperimentQuestion(_LabRequestBody):
    """A question to the person who compares the runs."""

    id: Id
    prompt: Annotated[_Text, StringConstraints(min_length=1, max_length=2000)]
    type: Literal["yes_no_unsure", "text"]


class NewExperiment(_LabRequestBody):
    """A new comparison of runs with a baseline."""

    name: Line | None = None
    hypothesis: Annotated[_Text, StringConstraints(min_length=1, max_length=2000)] | None = None
    topic: Line | None = None
    baselineRunId: Id  # noqa: N815
    variants: Annotated[tuple[NewVariant, ...], Field(min_length=1, max_length=VARIANTS_MAX)]
    questions: Annotated[tuple[ExperimentQuestion, ...], Field(max_length=QUESTIONS_MAX)] | None = (
        None
    )
    requestId: RequestId | None = None  # noqa: N815

    @model_validator(mode="after")
    def _check_comparison(self) -> NewExperiment:
        _check_unique("variants", (each.runId for each in self.variants), "runId")
        if any(each.runId == self.baselineRunId for each in self.variants):
            message = "variants: the baseline cannot be compared with itself"
            raise ValueError(message)
        labels = [each.label for each in self.variants if each.label is not None]
        _check_unique("variants", [BASELINE, *labels], "label")
        _check_unique("questions", (each.id for each in self.questions or ()), "id")
        return self


class ImportRun(_LabRequestBody):
    """The directory of a run to import."""

    #: A directory, or a file in it. People paste it, with spaces and line ends around it.
    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4096)]
    requestId: RequestId | None = None  # noqa: N815


class NewExport(_LabRequestBody):
    """What to export, and to which file."""

    sessionId: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None  # noqa: N815
    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    requestId: RequestId | None = None  # noqa: N815


class RunJudgement(Judgement):
    """A judgement of one run of a comparison."""

    runId: Id  # noqa: N815
    variantId: Id  # noqa: N815


class Submission(_LabRequestBody):
    """The decision of an experiment, with a judgement of each run."""

    requestId: RequestId | None = None  # noqa: N815
    winnerVariantId: Id | None = None  # noqa: N815
    outcome: Outcome | None = None
    reason: Notes | None = None
    answers: Answers | None = None
    perRun: Annotated[  # noqa: N815
        tuple[RunJudgement, ...], Field(min_length=2, max_length=VARIANTS_MAX + 1)
    ]

    @model_validator(mode="after")
    def _check_decision(self) -> Submission:
        if self.outcome == "winner" and self.winnerVariantId is None:
            message = "winnerVariantId: is required with the outcome `winner`"
            raise ValueError(message)
        if self.outcome in ("tie", "both_bad") and self.winnerVariantId is not None:
            message = f"winnerVariantId: must be absent with the outcome `{self.outcome}`"
            raise ValueError(message)
        _check_unique("perRun", (each.variantId for each in self.perRun), "variantId")
        return self


def check_request_id(request_id: object) -> str:
    """Return the request id, or raise InvalidArgument if it is malformed."""
    if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
        shown = f"{request_id!r:.60}"
        if isinstance(request_id, str) and len(request_id) > REQUEST_ID_CHARACTERS_MAX:
            shown = f"{len(request_id)} characters"
        message = f"requestId: must be 1 to 200 printable ASCII characters, not {shown}"
        raise InvalidArgument(message, fix="use a UUID", field="requestId")
    return request_id


def build_request(build: Callable[[], Model]) -> Model:
    """Build a request body in Python; a validation error becomes an InvalidArgument."""
    try:
        return build()
    except ValidationError as exc:
        raise invalid_field(exc.errors()[0]["loc"], exc.errors()[0]["msg"]) from None


def invalid_field(path: Iterable[str | int], problem: str) -> InvalidArgument:
    """Return the error for one field of a body, such as `variants[0].runId`."""
    field_path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    message = problem.removeprefix("Value error, ")
    name = field_path.removeprefix(".")
    if not name:  # The message of a body validator names the field, if it is about one.
        name, colon, rest = message.partition(": ")
        name, message = (name, rest) if colon and name.isidentifier() else ("body", message)
    return InvalidArgument(f"{name}: {message}", fix=f"correct {name}", field=name)


def _check_unique(field: str, values: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            message = f"{field}: the {what} {value!r:.60} occurs twice"
            raise ValueError(message)
        seen.add(value)
